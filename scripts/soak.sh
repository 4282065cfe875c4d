#!/bin/bash
# Runs one model again and again for a while with other settings each time: every run must give the same text.
# scripts/soak.sh MODEL MINUTES
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
model=$1 minutes=$2
ask=(build/bin/colibri run "$model" -p "Once upon a time" -n 200 --temperature 0)
variations=("--threads 1" "--threads 2" "--threads 5" "--isa scalar" "--prefill-chunk 1" "--prefill-chunk 3" "--expert-memory 100%"
  "--io buffered" "--context 512" "--parallel 4")

expected=$("${ask[@]}")
end=$((SECONDS + minutes * 60)) runs=0
while ((SECONDS < end)); do
  variation=${variations[runs % ${#variations[@]}]}
  # shellcheck disable=SC2086 # a flag and its value
  actual=$("${ask[@]}" $variation)
  [[ $actual == "$expected" ]] || {
    echo "soak: $variation changed the text after $runs runs:" >&2
    diff <(echo "$expected") <(echo "$actual") >&2 || true
    exit 1
  }
  runs=$((runs + 1))
done
echo "soak: $runs runs in $minutes minutes, all with the same text"
