#!/bin/bash
# The demo: a whole story on stdout. scripts/demo.sh MODEL; the program may be named in COLIBRI_BIN.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec "${COLIBRI_BIN:-build/bin/colibri}" run "$1" --chat -p "Tell me a story about a dog." -n 300 --temperature 0
