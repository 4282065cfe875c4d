#!/bin/bash
# Speed of one model on this machine, as JSON on stdout and in words on stderr: scripts/bench.sh MODEL [COLIBRI-BENCH-OPTION...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
model=$1; shift
result=$(build/bin/colibri bench "$model" -p 512 -n 64 -r 5 "$@" --json)
python3 - "$model" "$result" >&2 <<'PYTHON'
import json, statistics, sys
model, runs = sys.argv[1], json.loads(sys.argv[2])
print(f"{model}: isa {runs[0]['isa']}, {runs[0]['threads']} threads, {len(runs)} repetitions")
for phase in ("prefill", "decode"):
    speeds = [run[phase]["tokens_per_second"] for run in runs]
    print(f"{phase:8} {runs[0][phase]['tokens']:5} tokens  {statistics.mean(speeds):10.1f} tokens/s  +- {statistics.pstdev(speeds):.1f}")
print(f"peak memory {max(run['memory']['peak_rss_bytes'] for run in runs) / 2**20:.0f} MiB")
PYTHON
printf '%s\n' "$result"
