#!/bin/bash
# Runs every fuzz target for a while: scripts/fuzz.sh [SECONDS [TARGET...]]. New inputs stay in build-fuzz/corpus, what
# breaks a target in build-fuzz/found; exit 1 when something did. To keep a found file as a test, copy it to fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-30}; shift || true
scripts/build.sh fuzz fuzzers
targets=("$@")
if (( ${#targets[@]} == 0 )); then
  for program in build-fuzz/bin/fuzz_*; do targets+=("${program##*/fuzz_}"); done
fi

failed=()
for target in "${targets[@]}"; do
  work=build-fuzz/corpus/$target found=build-fuzz/found/$target log=build-fuzz/$target.log
  mkdir -p "$work" "$found"
  if "build-fuzz/bin/fuzz_$target" -max_total_time="$seconds" -max_len=65536 -timeout=25 -rss_limit_mb=2048 \
      -malloc_limit_mb=1024 -use_value_profile=1 -print_final_stats=1 -artifact_prefix="$found/" \
      "$work" "fuzz/corpus/$target" >"$log" 2>&1; then
    echo "$target: $(grep -a ^Done "$log")"
  else
    failed+=("$target")
    tail -n 60 "$log"
  fi
done
(( ${#failed[@]} == 0 )) || { echo "found something: ${failed[*]} (build-fuzz/found)"; exit 1; }
