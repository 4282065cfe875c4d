#!/bin/sh
# The server under real clients (tests/clients): makes a virtual environment with them under build/ and runs them.
#
#     scripts/clients.sh [ARGUMENTS OF unittest]
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
venv=$build/clients
if ! cmp -s tests/clients/requirements.txt "$venv/requirements.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
  cp tests/clients/requirements.txt "$venv/requirements.txt"
fi
export COLIBRI_BIN="${COLIBRI_BIN:-$PWD/$build/bin/colibri}" PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
export XDG_CACHE_HOME="$PWD/$venv/cache" HF_HOME="$PWD/$venv/cache/hf"
exec "$venv/bin/python" tests/clients/clients.py "$@"
