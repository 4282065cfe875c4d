#!/bin/bash
# Builds and tests: scripts/test.sh [all]. Every run goes on to its end; the closing line adds them up.
#   default   release build: everything; address + undefined: unit and parser tests; thread: pool and engine
#   all       everything under g++, clang, and each sanitizer
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=()

# run NAME PRESET TARGET CTEST-ARGUMENT...: builds TARGET, runs the tests, leaves their reports in the build folder.
run() {
  local name=$1 preset=$2 target=$3 folder=build; shift 3
  [[ $preset == release ]] || folder=build-$preset
  echo "== $name"
  scripts/build.sh "$preset" "$target"
  local reports=$PWD/$folder/reports
  rm -rf "$reports"; mkdir -p "$reports"
  GTEST_OUTPUT="xml:$reports/" GTEST_BRIEF=1 ctest --test-dir "$folder" --parallel "$(nproc)" --output-on-failure --no-tests=error \
    --output-junit "$reports/ctest.xml" "$@" || echo "== $name: some tests failed"
  runs+=("$name=$reports")
}

scripts/format.sh --check
run release release all
if [[ ${1:-} == all ]]; then
  run clang clang all
  run address,undefined asan all
  run thread tsan all
else
  run address,undefined asan unit_tests --label-regex unit
  run thread tsan thread_tests --tests-regex "^(compute|store|engine)$"
fi
scripts/summary.py "${runs[@]}"
