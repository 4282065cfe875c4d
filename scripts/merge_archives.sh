#!/usr/bin/env bash
# merge_archives.sh OUT.a IN.a...: one static library from many.
set -euo pipefail
out=$1
shift
rm -f "$out"
{
  echo "create $out"
  for archive in "$@"; do echo "addlib $archive"; done
  echo save
  echo end
} | ar -M
ranlib "$out"
