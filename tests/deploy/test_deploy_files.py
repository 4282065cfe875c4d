"""The files in deploy/ agree with the program: its settings, its routes, its metrics; and with the systems that read them, as far as they are here."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
sys.path += [str(ROOT / "tests" / "deploy")]

from real_server import PROGRAM, RealServer  # noqa: E402

GUIDE = ROOT / "docs" / "server.md"
FUNCTIONS = {"rate", "increase", "changes", "sum", "by", "histogram_quantile", "and", "or", "unless", "on", "max", "min", "avg", "le", "label_values"}


def manifests():
    return {path.name: document for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())}


def names_in(expression):
    """Names of metrics in a query: labels, functions and durations left out."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"|\bby \([^)]*\)", " ", expression)
    return {word for word in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare)} - FUNCTIONS


def labels_in(expression):
    return set(re.findall(r"([a-z_]+)=~?\"", expression)) - {"instance", "job"}


def series_of(page):
    """{name: label names} of a page for Prometheus."""
    series = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            series.setdefault(name, set()).update(re.findall(r"([a-z_]+)=\"", labels))
    return series


def alerts():
    return [rule for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"] for rule in group["rules"]]


def panels():
    board = json.loads((DEPLOY / "grafana" / "colibri.json").read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


class MetricsTest(unittest.TestCase):
    """Every number that an alert or a panel asks for is one that the server gives."""

    @classmethod
    def setUpClass(cls):
        with RealServer("--expert-memory", "50%", "--prefix-cache", "4M") as server:
            server.get("/health")
            cls.series = series_of(server.get("/metrics"))

    def check(self, expression, where):
        names = names_in(expression) - {"up"}  # which Prometheus makes
        self.assertTrue(names or "up" in expression, where)
        for name in names:
            self.assertIn(name, self.series, where)
        for label in labels_in(expression):
            self.assertTrue(any(label in self.series[name] for name in names), f"{where}: no label {label}")

    def test_alerts_ask_for_metrics_that_exist(self):
        self.assertGreater(len(alerts()), 8)
        for rule in alerts():
            self.check(rule["expr"], rule["alert"])

    def test_panels_ask_for_metrics_that_exist(self):
        self.assertGreater(len(panels()), 12)
        for panel in panels():
            for target in panel["targets"]:
                self.check(target["expr"].replace("$__rate_interval", "5m"), panel["title"])

    def test_the_autoscaler_asks_for_a_metric_that_exists(self):
        (metric,) = manifests()["autoscaler.yaml"]["spec"]["metrics"]
        self.assertIn(metric["pods"]["metric"]["name"], self.series)

    def test_the_guide_explains_every_metric_of_colibri_and_no_other(self):
        told = set(re.findall(r"`(colibri_[a-z_]+)", GUIDE.read_text()))
        given = {re.sub(r"_(bucket|sum|count)$", "", name) for name in self.series if name.startswith("colibri_")}
        self.assertEqual(given, told)


class AlertsTest(unittest.TestCase):
    def test_every_alert_is_whole_and_the_guide_says_what_to_do(self):
        for rule in alerts():
            self.assertIn(rule["labels"]["severity"], ("page", "ticket"), rule["alert"])
            self.assertTrue(rule["annotations"]["summary"], rule["alert"])
            self.assertEqual(rule["expr"].count("("), rule["expr"].count(")"), rule["alert"])
            self.assertIn(f"**{rule['alert']}**", GUIDE.read_text())
        self.assertEqual(len(alerts()), len({rule["alert"] for rule in alerts()}))

    def test_panels_do_not_overlap_and_have_descriptions(self):
        places = set()
        for panel in panels():
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & places, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24)
            self.assertTrue(panel["description"])
            places |= cells


class SettingsTest(unittest.TestCase):
    """Variables that the files set are settings of the program."""

    def test_every_variable_is_a_setting(self):
        help_text = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        settings = {flag.replace("-", "_").upper() for flag in re.findall(r"--([a-z-]+)", help_text)} | {"MODEL"}
        files = [DEPLOY / "systemd" / "colibri.env", DEPLOY / "Dockerfile", DEPLOY / "kubernetes" / "deployment.yaml"]
        for file in files:
            used = set(re.findall(r"\bCOLIBRI_([A-Z_]+)\b", re.sub(r"#.*", "", file.read_text())))
            self.assertGreater(len(used), 2, file.name)
            self.assertEqual(set(), used - settings, file.name)

    def test_the_server_starts_with_the_services_settings(self):
        lines = [line for line in (DEPLOY / "systemd" / "colibri.env").read_text().splitlines() if line and not line.startswith("#")]
        environment = dict(line.split("=", 1) for line in lines)
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder) / "keys"
            keys.write_text("operator:0123456789abcdef0123456789abcdef\n")
            environment |= {"COLIBRI_API_KEY_FILE": str(keys)}
            for name in ("COLIBRI_MODEL", "COLIBRI_PORT", "COLIBRI_HEAT_FILE"):  # of another machine; flags of the test say them
                del environment[name]
            with RealServer(environment=environment) as server:
                self.assertIn("ok", server.get("/health"))


class SystemdTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        text = (DEPLOY / "systemd" / "colibri.service").read_text()
        self.unit = self.folder / "colibri.service"
        self.unit.write_text(text.replace("/usr/local/bin/colibri", str(Path(PROGRAM).resolve())).replace("kill -HUP", f"{shutil.which('kill')} -HUP"))

    def test_systemd_understands_every_line(self):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(self.unit)], capture_output=True, text=True, timeout=60)
        self.assertEqual((0, ""), (done.returncode, done.stderr.strip()))

    def test_the_service_is_confined(self):
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(self.unit)], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(0, done.returncode, done.stdout[-2000:])

    def test_stopping_waits_longer_than_draining(self):
        unit = self.unit.read_text()
        drain = int(re.search(r"COLIBRI_DRAIN_TIMEOUT=(\d+)", (DEPLOY / "systemd" / "colibri.env").read_text())[1])
        self.assertGreater(int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]), drain + 5)

    def test_the_tokens_are_the_same_where_no_memory_may_become_code(self):
        ask = [PROGRAM, "run", str(ROOT / "models" / "colibri-tales-14m-q8_0.gguf"), "-p", "Once upon a time", "-n", "40", "--temperature", "0"]
        confined = [sys.executable, "-c", "import ctypes, os, sys; r = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); r == 0 or sys.exit(99); "
                    "os.execv(sys.argv[1], sys.argv[1:])", *ask]
        free, bound = (subprocess.run(words, capture_output=True, text=True, timeout=120) for words in (ask, confined))
        if bound.returncode == 99:
            self.skipTest("this kernel cannot refuse code that was written at run time")
        self.assertEqual((0, free.stdout), (bound.returncode, bound.stdout), bound.stderr)


class ImageTest(unittest.TestCase):
    def instructions(self):
        text = re.sub(r"\\\n", "", (DEPLOY / "Dockerfile").read_text())
        return [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]

    def test_the_image_runs_the_program_as_nobody_in_particular(self):
        last = {name: value for name, value in self.instructions() if name in ("USER", "ENTRYPOINT", "CMD", "STOPSIGNAL")}
        self.assertRegex(last["USER"], r"^[1-9]\d*:[1-9]\d*$")
        self.assertEqual(["/usr/local/bin/colibri"], json.loads(last["ENTRYPOINT"]))
        self.assertEqual(["serve"], json.loads(last["CMD"]))

    def test_what_is_copied_and_run_exists(self):
        for name, value in self.instructions():
            if name == "COPY" and not value.startswith("--from"):
                for source in value.split()[:-1]:
                    self.assertTrue((ROOT / source).exists(), value)
            for script in re.findall(r"scripts/\S+\.sh", value):
                self.assertTrue((ROOT / script).exists(), value)

    def test_the_program_that_is_copied_is_a_target_of_the_build(self):
        (target,) = re.findall(r"scripts/build\.sh release (\S+)", (DEPLOY / "Dockerfile").read_text())
        self.assertIn(f"build/bin/{target} ", (DEPLOY / "Dockerfile").read_text())
        self.assertIn(f"add_executable({target} ", (ROOT / "apps" / "cli" / "CMakeLists.txt").read_text())


class KubernetesTest(unittest.TestCase):
    def setUp(self):
        self.all = manifests()
        self.pod = self.all["deployment.yaml"]["spec"]["template"]
        (self.container,) = self.pod["spec"]["containers"]

    def test_everything_means_the_same_pods(self):
        labels = self.pod["metadata"]["labels"].items()
        for selector in (self.all["deployment.yaml"]["spec"]["selector"]["matchLabels"], self.all["service.yaml"]["spec"]["selector"],
                         self.all["disruption.yaml"]["spec"]["selector"]["matchLabels"]):
            self.assertLessEqual(selector.items(), labels)
        self.assertEqual("colibri", self.all["autoscaler.yaml"]["spec"]["scaleTargetRef"]["name"])
        claims = [volume["persistentVolumeClaim"]["claimName"] for volume in self.pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
        self.assertEqual([self.all["model-volume.yaml"]["metadata"]["name"]], claims)

    def test_memory_is_what_was_asked_for_and_no_more(self):
        resources = self.container["resources"]
        self.assertEqual(resources["requests"], resources["limits"])

    def test_a_replica_may_drain_before_it_is_killed(self):
        environment = {entry["name"]: entry["value"] for entry in self.container["env"]}
        pause = int(self.container["lifecycle"]["preStop"]["exec"]["command"][1])
        self.assertGreater(self.pod["spec"]["terminationGracePeriodSeconds"], int(environment["COLIBRI_DRAIN_TIMEOUT"]) + pause + 5)

    def test_the_cluster_sets_no_variables_that_look_like_settings(self):
        self.assertIs(self.pod["spec"]["enableServiceLinks"], False)
        done = subprocess.run([PROGRAM, "config"], capture_output=True, text=True, env={"PATH": "/usr/bin", "COLIBRI_SERVICE_HOST": "10.0.0.1"})
        self.assertEqual(2, done.returncode, "an unknown variable is an error: this is why")

    def test_the_pod_is_confined(self):
        self.assertTrue(self.pod["spec"]["securityContext"]["runAsNonRoot"])
        own = self.container["securityContext"]
        self.assertEqual((True, False, ["ALL"]), (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"], own["capabilities"]["drop"]))

    def test_probes_are_routes_of_the_server_that_need_no_key(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder) / "keys"
            keys.write_text("0123456789abcdef0123456789abcdef\n")
            with RealServer("--api-key-file", str(keys)) as server:
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    self.assertIn('"ok"', server.get(self.container[probe]["httpGet"]["path"]))
                    self.assertIn(self.container[probe]["httpGet"]["port"], [port["name"] for port in self.container["ports"]])


if __name__ == "__main__":
    unittest.main()
