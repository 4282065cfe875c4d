#!/bin/bash
# One model for a while, half of the time each:
#   the program, run after run with other settings: every run must give the same text;
#   the library (build/bin/soak), engine after engine with another budget and a crowd that asks, cancels and leaves:
#   every token the same, no slot lost, memory flat.
# scripts/soak.sh MODEL MINUTES [SEED]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
model=$1 minutes=$2 seed=${3:-$RANDOM}
ask=(build/bin/colibri run "$model" -p "Once upon a time" -n 200 --temperature 0)
variations=("--threads 1" "--threads 2" "--threads 5" "--isa scalar" "--prefill-chunk 1" "--prefill-chunk 3" "--expert-memory 100%"
  "--expert-memory 25%" "--io buffered" "--context 512" "--parallel 4")
scripts/build.sh release colibri_cli soak

expected=$("${ask[@]}")
end=$((SECONDS + minutes * 30)) runs=0
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
echo "soak: $runs runs of the program in half of $minutes minutes, all with the same text"
build/bin/soak "$model" "$(awk "BEGIN { print $minutes / 2 }")" "$seed"
