#!/bin/bash
# Colibri against other engines on this machine: scripts/bench.sh [OPTION-OF-BENCH/RUN.PY...]. Installs the peers it is to
# measure, makes the models that are missing, and measures; see bench/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/build.sh release -DCOLIBRI_BENCH=ON colibri_cli bench_programs >&2
home=${BENCH_HOME:-build-bench}
peers=llama.cpp,openvino
arguments=("$@")
for ((i = 0; i < $#; ++i)); do
  case ${arguments[i]} in
    --peers) peers=${arguments[i + 1]:-} ;;
    --peers=*) peers=${arguments[i]#*=} ;;
  esac
done
install=()
for peer in ${peers//,/ }; do install+=(--with "$peer"); done
bench/install_peers.sh "${install[@]}"
exec "$home/tools/bin/python" bench/run.py "$@"
