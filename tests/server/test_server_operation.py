"""The server from its start to its end: ports, loading, signals, logs, metrics, settings."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server import BIN, DEMO, Line, Server, ServerTest, clean_environment  # noqa: E402
from cli import io_shim  # noqa: E402

PROBE = Path(BIN).with_name("colibri-http-probe")
SLOWLY = io_shim.environment("on=read path=.gguf rate=5M")  # three seconds to load


def post(path, body=""):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"


def parse_metrics(text):
    """{name: (type, {labels: value})}; an assertion on whatever the text format of Prometheus does not allow."""
    families, current = {}, None
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP ([a-z_0-9]+) [^\n]+", line):
            current = match[1]
            assert current not in families, f"{current} twice"
            families[current] = (None, {})
        elif match := re.fullmatch(r"# TYPE ([a-z_0-9]+) (counter|gauge|histogram)", line):
            assert match[1] == current and families[current][0] is None, line
            families[current] = (match[2], {})
        else:
            match = re.fullmatch(r'([a-z_0-9]+)((?:\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})?) (-?[0-9.e+-]+|NaN|[+-]Inf)', line)
            assert match, line
            suffixes = ("_bucket", "_sum", "_count") if families[current][0] == "histogram" else ("",)
            assert match[1] in [current + suffix for suffix in suffixes], line
            labels = match[1].removeprefix(current) + match[2]
            assert labels not in families[current][1], line
            families[current][1][labels] = float(match[3])
    return families


class StartTest(ServerTest):
    PROGRAM = PROBE

    def fails(self, status, *args, names=(), env=None):
        done = subprocess.run([BIN, "serve", *map(str, args)], capture_output=True, text=True, timeout=60, env=clean_environment(**(env or {})))
        line = done.stderr.splitlines()[-1]
        self.assertEqual(status, done.returncode, done.stderr)
        self.assertTrue(line.startswith("colibri: "), line)
        for name in names:
            self.assertIn(str(name), line)

    def test_a_port_in_use_is_named(self):
        self.fails(1, DEMO, "--port", self.server.address[1], names=("127.0.0.1", self.server.address[1], "in use", "--port"))

    def test_an_address_of_another_machine_or_an_unknown_name_is_named(self):
        self.fails(1, DEMO, "--host", "192.0.2.1", "--insecure", names=("192.0.2.1", "--host"))
        self.fails(1, DEMO, "--host", "no.such.name.invalid", names=("no.such.name.invalid", "--host"))

    def test_other_machines_come_in_only_with_keys_or_when_told(self):
        self.fails(2, DEMO, "--host", "0.0.0.0", "--port", 0, names=("0.0.0.0", "--api-key-file", "--insecure"))
        keys = self.folder / "keys"
        keys.write_text("0123456789")
        for flags in (("--insecure=true",), ("--api-key-file", keys)):
            server = self.start("--host", "0.0.0.0", *flags)
            self.assertTrue(server.url.startswith("http://0.0.0.0:"), server.url)

    def test_a_bad_key_file_stops_the_start(self):
        keys = self.folder / "keys"
        keys.write_text("alice:\n")
        self.fails(2, DEMO, "--api-key-file", keys, names=(f"{keys}:1",))
        self.fails(2, DEMO, "--api-key-file", self.folder / "absent", names=("absent",))

    def test_ipv6_works_where_the_machine_has_it(self):
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError:
                return
        self.assertEqual(200, self.start("--host", "::1").get("/health").status)

    def test_a_unix_socket_works_and_a_stale_one_is_replaced(self):
        path = self.folder / "socket"
        for _ in range(2):
            server = self.start("--host", path, ready=False)
            with Line(socket.socket(socket.AF_UNIX)) as line:
                line.sock.connect(str(path))
                line.send("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(404, line.answer().status)
            server.kill()  # leaves the file behind
        server = self.start("--host", path, ready=False)
        self.assertEqual(0, server.stop())
        self.assertFalse(path.exists())

    def test_a_model_that_cannot_be_loaded_ends_the_server_with_its_status(self):
        model = self.folder / "model.gguf"
        model.write_bytes(DEMO.read_bytes()[:1000000])
        self.fails(3, model, "--port", 0, names=("model.gguf",))
        self.fails(3, self.folder / "absent.gguf", "--port", 0, names=("absent.gguf",))
        self.fails(4, DEMO, "--port", 0, "--memory", "1M")

    def test_no_model_is_a_usage_error(self):
        self.fails(2, "--port", 0, names=("COLIBRI_MODEL",))

    def test_the_other_name_of_the_program_serves(self):
        done = subprocess.run([Path(BIN).with_name("colibri-server"), "--model", "/absent", "--port", "0"], capture_output=True, text=True,
                              timeout=60, env=clean_environment())
        self.assertEqual((3, True), (done.returncode, "/absent" in done.stderr), done)


class SettingsTest(unittest.TestCase):
    def config(self, *args, env=None):
        done = subprocess.run([BIN, "config", "--json", *args], capture_output=True, text=True, timeout=60, env=clean_environment(**(env or {})))
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    def test_flags_variables_and_defaults_of_the_server(self):
        got = self.config("--port", "1", "--insecure", "--cors-origin", "http://a", "--cors-origin", "http://b", env={"COLIBRI_MAX_BODY": "1M"})
        for key, value, origin in (("port", "1", "--port"), ("insecure", "true", "--insecure"), ("cors_origin", "http://a,http://b", "--cors-origin"),
                                   ("max_body", "1M", "COLIBRI_MAX_BODY"), ("host", "127.0.0.1", "default")):
            self.assertEqual({"value": value, "from": origin}, got[key])

    def test_bad_values_and_names_are_refused_with_their_origin(self):
        for args, env, names in ((("--port", "65536"), {}, ("--port", "65536", "0 to 65535")), ((), {"COLIBRI_PORTS": "1"}, ("COLIBRI_PORTS", "COLIBRI_PORT")),
                                 ((), {"COLIBRI_MAX_BODY": "12Q"}, ("COLIBRI_MAX_BODY", "1K to 1G")), ((), {"COLIBRI_CORS_ORIGIN": "a,,b"}, ("COLIBRI_CORS_ORIGIN", "commas")),
                                 ((), {"COLIBRI_INSECURE": "yes"}, ("COLIBRI_INSECURE", "true or false"))):
            error = self.config(*args, env=env)
            for name in names:
                self.assertIn(name, error)

    def test_a_file_of_the_servers_settings_does_not_disturb_other_commands(self):
        done = subprocess.run([BIN, "run", DEMO, "-p", "Once", "-n", "1"], capture_output=True, timeout=60, env=clean_environment(COLIBRI_PORT=1))
        self.assertEqual((0, b""), (done.returncode, done.stderr))


class LoadingTest(ServerTest):
    PROGRAM = PROBE

    @classmethod
    def setUpClass(cls):
        pass  # each case has its own

    def test_while_the_model_loads_health_and_ready_say_so(self):
        server = self.start(env=SLOWLY, ready=False)
        server.wait_until(lambda: server.get("/health").json().get("progress", {}).get("done_bytes", 0) > 0)
        health, ready = server.get("/health"), server.get("/ready")
        for answer in (health, ready):
            self.assertEqual(503, answer.status)
            self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
            self.assertEqual("model_loading", answer.json()["error"]["code"])
            self.assertEqual("loading", answer.json()["status"])
        progress = health.json()["progress"]
        self.assertLess(progress["done_bytes"], progress["total_bytes"])
        self.assertEqual(0, server.metrics()["colibri_ready"])
        server.wait_ready()
        self.assertEqual({"status": "ok", "running": 0}, server.get("/health").json())
        self.assertEqual(1, server.metrics()["colibri_ready"])

    def test_a_signal_stops_loading(self):
        server = self.start(env=SLOWLY, ready=False)
        self.assertEqual(503, server.get("/ready").status)
        self.assertEqual(0, server.stop())


class EndTest(ServerTest):
    PROGRAM = PROBE

    @classmethod
    def setUpClass(cls):
        pass

    def test_an_idle_server_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start()
            with server.connect() as idle:
                server.signal(number)
                self.assertTrue(idle.is_closed())
                self.assertEqual(0, server.wait())

    def test_running_answers_end_and_nobody_else_comes_in(self):
        server = self.start()
        with server.connect() as running, server.connect() as pipelined:
            running.send(post("/stream?frames=100&delay=10"))
            running.head()
            pipelined.send(post("/stream?frames=50&delay=10") + post("/echo") + "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            pipelined.head()
            server.signal(signal.SIGTERM)
            server.wait_log("shutting down")
            server.wait_until(lambda: self.refused(server))
            body = b"".join(iter(running.chunk, b""))
            self.assertEqual(100, body.count(b"data: "))
            self.assertEqual(0, server.wait())

    def refused(self, server):
        try:
            server.connect().close()
        except ConnectionRefusedError:
            return True
        return False

    def test_after_the_limit_answers_get_an_error_in_the_shape_of_their_route(self):
        server = self.start("--drain-timeout", "0")
        lines = [server.connect() for _ in range(3)]
        for line, path in zip(lines, ("/hold", "/hold?stream=1", "/hold?stream=1&shutdown=1")):
            line.send(post(path))
        server.wait_until(lambda: server.metrics()["colibri_http_running_requests"] == 4)
        server.signal(signal.SIGTERM)
        self.assert_error(lines[0].answer(), 503, "shutting_down")
        frame = lines[1].answer().body.decode()
        self.assertEqual("shutting_down", json.loads(frame.removeprefix("data: "))["error"]["code"])
        self.assertTrue(frame.endswith("\n\n"))
        self.assertEqual(b"event: error\ndata: {}\n\n", lines[2].answer().body)
        for line in lines:
            line.close()
        self.assertEqual(0, server.wait())

    def test_a_second_signal_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start()
            with server.connect() as line:
                line.send(post("/hold?stream=1"))
                line.head()
                server.signal(number)
                server.wait_log("shutting down")
                server.signal(number)
                self.assertEqual(128 + number, server.wait())

    def test_clients_that_come_and_go_while_it_ends_do_no_harm(self):
        server = self.start("--drain-timeout", "1")
        lines = [server.connect() for _ in range(100)]
        for i, line in enumerate(lines):
            line.send(post(("/hold", "/stream?frames=100000", "/echo", "/flood", "/hold?stream=1")[i % 5])[:200 if i % 7 else 30])
        server.signal(signal.SIGTERM)
        for line in lines[::2]:
            line.close()
        self.assertEqual(0, server.wait())
        for line in lines:
            line.close()


class WatchedTest(ServerTest):
    PROGRAM = PROBE
    FLAGS = ("--log-json=true",)

    def test_metrics_are_well_formed_and_count(self):
        before = parse_metrics(self.server.get("/metrics").body.decode())
        self.server.post("/echo", b"x" * 1000)
        self.server.get("/nothing")
        after = {}

        def only_this_connection():  # the others are closed a moment after their answers
            line.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = line.answer()
            self.assertEqual("text/plain; version=0.0.4; charset=utf-8", answer.headers["content-type"])
            after.update(parse_metrics(answer.body.decode()))
            return after["colibri_http_open_connections"][1][""] == 1
        with self.server.connect() as line:
            self.server.wait_until(only_this_connection)

        def grown(name, labels=""):
            return after[name][1].get(labels, 0) - before[name][1].get(labels, 0)
        self.assertEqual(1, grown("colibri_http_requests_total", '{method="POST",route="/echo",status="200"}'))
        self.assertEqual(1, grown("colibri_http_requests_total", '{method="other",route="other",status="404"}'))
        self.assertEqual(1, grown("colibri_http_request_duration_seconds", '_count{route="/echo"}'))
        self.assertEqual(1, grown("colibri_http_request_duration_seconds", '_bucket{route="/echo",le="+Inf"}'))
        self.assertGreaterEqual(grown("colibri_http_received_bytes_total"), 1000)
        self.assertEqual(3, grown("colibri_http_connections_total"))
        self.assertEqual(1, after["colibri_http_open_connections"][1][""])
        self.assertEqual(0, after["colibri_metrics_broken"][1][""])
        self.server.wait_until(lambda: self.server.open_files() == after["process_open_fds"][1][""] - 1)  # without that connection
        self.assertEqual(len(os.listdir(f"/proc/{self.server.process.pid}/task")), after["process_threads"][1][""])
        self.assertAlmostEqual(1, after["process_resident_memory_bytes"][1][""] / self.server.resident_bytes(), delta=0.1)
        for name, (kind, samples) in after.items():
            self.assertEqual(kind == "counter", name.endswith("_total"), name)
            if kind == "histogram":
                buckets = [value for labels, value in samples.items() if labels.startswith('_bucket{route="/echo"')]
                self.assertEqual(sorted(buckets), buckets)

    def test_every_request_leaves_one_json_line(self):
        self.server.post("/echo?secret=1", b"12345", {"X-Request-Id": "one-line"})
        record = json.loads(self.server.wait_log("one-line"))
        self.assertEqual(("info", "request", "127.0.0.1", "POST", "/echo", 200, "done", 5),
                         tuple(record[key] for key in ("level", "message", "client", "method", "path", "status", "end", "bytes_in")))
        self.assertGreater(record["bytes_out"], 5)
        self.assertNotIn("secret", json.dumps(record))
        self.assertRegex(record["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_no_client_can_forge_a_line_or_a_field(self):
        plain = self.start()
        evil = "/x%22%2c%22status%22%3a200%20status=200%20%c3%a4%c2%85%e2%80%a8end"
        for server in (self.server, plain):
            self.assertEqual(404, server.get(evil, {"X-Request-Id": "forged"}).status)
            line = server.wait_log("forged")
            self.assertTrue(line.isascii(), line)
        record = json.loads(self.server.wait_log("forged"))
        self.assertEqual((404, '/x","status":200 status=200 '), (record["status"], record["path"][:28]))
        self.assertEqual(1, len(re.findall(r"(?<= )status=\d+ ", re.sub(r'"[^"\\]*(?:\\.[^"\\]*)*"', '""', plain.wait_log("forged")))))

    def test_sighup_changes_the_level_of_the_log(self):
        config = self.folder / "config.json"
        config.write_text('{"log_level": "warn"}')
        server = Server("--config", config).start()  # the program itself reads --config
        self.addCleanup(server.kill)
        server.get("/health", {"X-Request-Id": "unseen"})
        config.write_text('{"log_level": "debug"}')
        server.signal(signal.SIGHUP)
        for i in server.every(0.05):
            server.get("/health", {"X-Request-Id": "seen"})
            if any("seen" in line for line in server.log):
                break
        self.assertFalse(any("unseen" in line for line in server.log))
        config.write_text('{"log_level": "loud"}')
        server.signal(signal.SIGHUP)
        server.wait_log("log level stays as it was")
        self.assertEqual(200, server.get("/health").status)

    def test_a_log_that_nobody_reads_stops_nobody(self):
        process = subprocess.Popen([PROBE, "serve", DEMO, "--port", "0", "--heat-file", "off"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=clean_environment(), text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
            line = Line(sock)
            request = f"GET /nothing HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {'x' * 128}\r\n\r\n"
            for _ in range(40):
                line.send(request * 100)
                for _ in range(100):
                    self.assertEqual(404, line.answer().status)


if __name__ == "__main__":
    unittest.main()
