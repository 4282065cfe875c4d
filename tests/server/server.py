"""A real server for the tests: started on a free port, spoken to over sockets, and taken down.

    with Server("--api-key-file", path) as server:
        answer = server.get("/health")              # Answer: status, headers, body, json()
        with server.connect() as line:              # raw bytes
            line.send(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"); answer = line.answer()

Standard library only.
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.harness import BIN, DEMO, clean_environment  # noqa: E402

TIMEOUT = 60  # of everything that should not wait at all


class Answer:
    """An HTTP answer; header names in lower case."""

    def __init__(self, status, headers, body, version="HTTP/1.1"):
        self.status, self.headers, self.body, self.version = status, headers, body, version

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


class Line:
    """One connection, byte by byte."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data.encode() if isinstance(data, str) else data)

    def receive(self):
        """More bytes into the buffer; False when the server has closed."""
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            return False
        self.buffer += data
        return bool(data)

    def is_closed(self):
        """Waits until the server closes; True when it sent nothing before."""
        while self.receive():
            pass
        return self.buffer == b""

    def take_until(self, mark):
        while mark not in self.buffer:
            if not self.receive():
                raise ConnectionError(f"closed before {mark!r}; there was {self.buffer[:300]!r}")
        data, self.buffer = self.buffer.split(mark, 1)
        return data

    def take(self, n):
        while len(self.buffer) < n:
            if not self.receive():
                raise ConnectionError(f"closed after {len(self.buffer)} of {n} bytes")
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def head(self):
        """Status line and headers."""
        first, *lines = self.take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        return Answer(int(status), headers, b"", version)

    def chunk(self):
        """One chunk of a chunked body; empty at its end."""
        size = int(self.take_until(b"\r\n"), 16)
        data = self.take(size)
        assert self.take(2) == b"\r\n"
        return data

    def answer(self, method="GET"):
        answer = self.head()
        if method == "HEAD" or answer.status in (100, 204, 304):
            return answer
        if answer.headers.get("transfer-encoding") == "chunked":
            while chunk := self.chunk():
                answer.body += chunk
        elif "content-length" in answer.headers:
            answer.body = self.take(int(answer.headers["content-length"]))
        else:
            while self.receive():
                pass
            answer.body, self.buffer = self.buffer, b""
        return answer


class Server:
    """`colibri serve` of the demo model (or of `model`) on a free port; flags as on the command line."""

    def __init__(self, *flags, model=DEMO, env=None, program=BIN, ready=True, cwd=None):
        self.args = [str(program), "serve", str(model), "--port", "0", "--heat-file", "off", *map(str, flags)]
        self.env, self.wait_for_model, self.cwd = clean_environment(**(env or {})), ready, cwd
        self.log, self.url = [], None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()

    def start(self):
        self.process = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=self.env, text=True, cwd=self.cwd)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        line = self.process.stdout.readline()
        match = re.match(r"listening on (\S+)", line)
        if not match:
            self.kill()
            raise RuntimeError(f"the server did not start: {line!r} {self.log}")
        self.url = match[1]
        if self.url.startswith("http"):
            host, port = self.url.removeprefix("http://").rsplit(":", 1)
            self.address = (host.strip("[]"), int(port))
        if self.wait_for_model:
            self.wait_ready()
        return self

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def wait_ready(self):
        for _ in self.every(0.02):
            if self.get("/ready").status == 200:
                return

    @staticmethod
    def every(seconds):
        """For loops that wait for something; ends with an error."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            yield
            time.sleep(seconds)
        raise TimeoutError(f"not within {TIMEOUT} s")

    def wait_until(self, condition):
        for _ in self.every(0.01):
            if condition():
                return

    def wait_log(self, text):
        """The first log line that holds `text`, once it is there."""
        for _ in self.every(0.01):
            for line in self.log:
                if text in line:
                    return line

    def connect(self, timeout=TIMEOUT):
        sock = socket.create_connection(self.address, timeout=timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Line(sock)

    def exchange(self, data, method="GET"):
        """One request, its answer."""
        with self.connect() as line:
            line.send(data)
            return line.answer(method)

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(*self.address, timeout=TIMEOUT)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body, headers = json.dumps(body), {"Content-Type": "application/json"} | (headers or {})
            connection.request(method, path, body, headers or {})
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.request("GET", path, None, headers)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def metrics(self, headers=None):
        """{"name{labels}": value} of /metrics."""
        samples = {}
        for line in self.get("/metrics", headers).body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_bytes(self):
        text = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGESIZE")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=TIMEOUT):
        """The exit status."""
        status = self.process.wait(timeout)
        self._reader.join(timeout)
        return status

    def stop(self):
        """SIGTERM; the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(TIMEOUT)
        self.process.stdout.close()
        self.process.stderr.close()


class ServerTest(unittest.TestCase):
    """A server for all cases of the class: FLAGS and PROGRAM of the class say which."""
    FLAGS, PROGRAM, MODEL = (), BIN, DEMO

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS, program=cls.PROGRAM, model=cls.MODEL).start()
        cls.addClassCleanup(cls.server.kill)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="colibri-server-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, *flags, **kwargs):
        """One more server, for this case."""
        server = Server(*flags, **({"program": self.PROGRAM} | kwargs)).start()
        self.addCleanup(server.kill)
        return server

    def assert_error(self, answer, status, code, *names):
        """An error in OpenAI's shape whose message holds all of `names`."""
        self.assertEqual(status, answer.status, answer)
        self.assertEqual("application/json", answer.headers["content-type"])
        self.assertIn("x-request-id", answer.headers)
        error = answer.json()["error"]
        self.assertEqual({"message", "type", "param", "code"}, set(error))
        self.assertEqual(code, error["code"])
        for name in names:
            self.assertIn(str(name), error["message"])
