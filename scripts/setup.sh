#!/bin/bash
# Installs the Debian packages that are missing, and says which.
#
#   scripts/setup.sh demo     what the build needs
#   scripts/setup.sh test     and what the tests need
#   scripts/setup.sh bench    what `make bench` needs besides the build
#   scripts/setup.sh check    and clang, clang-tidy and their sanitizers
#
# Does nothing, in a few milliseconds, when everything is there. Works as root or with sudo.
set -euo pipefail

# docs/dependencies.md says what each is for.
build_packages=(cmake ninja-build g++ python3 libboost1.81-dev libpcre2-dev libutf8proc-dev libcli11-dev
  libedit-dev libxxhash-dev libgtest-dev)
test_packages=(git clang-format-14 xz-utils qemu-user nginx systemd python3-yaml chromium python3-venv)
bench_packages=(git libbenchmark-dev python3-venv)
check_packages=(clang-14 clang-tidy-14 libclang-rt-14-dev)

case "${1:-}" in
  demo) wanted=("${build_packages[@]}") ;;
  test) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
  bench) wanted=("${build_packages[@]}" "${bench_packages[@]}") ;;
  check) wanted=("${build_packages[@]}" "${test_packages[@]}" "${check_packages[@]}") ;;
  *) echo "usage: scripts/setup.sh demo|test|bench|check" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system; these must be there already: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "setup: missing packages, and neither root nor sudo to install them; run: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo --preserve-env=DEBIAN_FRONTEND)
fi
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# nginx is here for tests, which start it themselves: installing it must not begin to serve port 80.
policy=/usr/sbin/policy-rc.d
if [[ " ${missing[*]} " == *" nginx "* && ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null && "${as_root[@]}" chmod 755 "$policy"
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
install() { "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >&2; }
# The package lists may be absent (a new container) or old: fetch them only when the first try fails.
if [[ -z $(find /var/lib/apt/lists -name '*_Packages*' -print -quit 2>/dev/null) ]] || ! install; then
  "${as_root[@]}" apt-get update -q >&2
  install
fi
