#!/bin/bash
# clang-tidy over the project's sources: scripts/lint.sh [FILE...]. Uses the compile commands of the clang preset.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake --preset clang >/dev/null
files=("$@")
[[ ${#files[@]} -gt 0 ]] || mapfile -t files < <(git ls-files -- 'src/*.cc' 'apps/*.cc' 'tests/*.cc')
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build-clang --quiet
