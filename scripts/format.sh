#!/bin/bash
# Formats every C, C++ and JavaScript file in place; with --check only says which differ, and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
[[ ${1:-} != --check ]] || mode=(--dry-run --Werror)
git ls-files --cached --others --exclude-standard -z -- '*.h' '*.hpp' '*.c' '*.cc' '*.js' | xargs -0 -r clang-format-14 "${mode[@]}"
