#!/bin/bash
# Configures and builds one preset of CMakePresets.json: scripts/build.sh PRESET [-DOPTION=VALUE]... [TARGET...]. Uses
# ccache where it is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1; shift
folder=build; [[ $preset == release ]] || folder=build-$preset
options=()
while [[ ${1:-} == -D* ]]; do options+=("$1"); shift; done
launcher=$(command -v ccache || true)
cmake --preset "$preset" "-DCMAKE_C_COMPILER_LAUNCHER=$launcher" "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher" "${options[@]}" >/dev/null
cmake --build "$folder" -- "$@"
