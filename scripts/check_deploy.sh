#!/bin/bash
# What the tests leave out of deploy/ because the judges are large (1 GB in build-deploy/): scripts/check_deploy.sh
#   Kubernetes' own schemas, promtool for alerts and for the dashboard's queries, a Ray of this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=$PWD/build-deploy
mkdir -p "$home"

# make_venv NAME REQUIREMENT...: a virtual environment, once.
make_venv() {
  local venv=$home/$1; shift
  [[ ! -e $venv/complete ]] || return 0
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-cache-dir "$@"
  touch "$venv/complete"
}

echo "== Kubernetes"
make_venv tools "kubernetes-validate<2" "pyyaml<7"
for file in deploy/kubernetes/*.yaml; do "$home/tools/bin/kubernetes-validate" --strict "$file"; done

echo "== Prometheus and Grafana"
promtool=$home/usr/bin/promtool
if [[ ! -e $promtool ]]; then # the package without installing it: it would start a server
  (cd "$home" && apt-get download -q prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool && rm prometheus_*.deb)
fi
"$promtool" check rules deploy/prometheus/alerts.yml
"$promtool" test rules tests/deploy/alerts.yml
"$promtool" check config --syntax-only deploy/prometheus/scrape.yml
"$home/tools/bin/python" tests/deploy/queries.py >"$home/queries.yml"
"$promtool" check rules "$home/queries.yml"

echo "== Ray"
make_venv ray "ray[serve]<3"
scripts/build.sh release colibri_cli >&2
"$home/ray/bin/python" tests/deploy/check_ray.py
echo "deploy/: all of it is in order"
