"""The queries of the dashboard as recording rules, for promtool, which checks rules but no dashboards."""
import json
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def rules():
    for panel in json.loads((ROOT / "deploy" / "grafana" / "colibri.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "5m").replace("$instance", "all")
            yield {"record": f"panel:{panel['id']}:{target['refId']}", "expr": query}


print(yaml.safe_dump({"groups": [{"name": "panels", "rules": list(rules())}]}))
