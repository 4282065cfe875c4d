"""Servers as processes: Colibri and its peer, started on a file of weights, asked for their metrics, stopped."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import http_stream
import machine
import models

LIMITED = models.SHARED / "tools" / "with_memory_limit"


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server; with `limit`, as if the machine had only so much memory, from a cold page cache. Use it with `with`."""

    def __init__(self, name, words, *, limit=None, environment=None, health="/health"):
        self.name, self.port, self.health = name, free_port(), health
        self.words = [str(word).replace("{port}", str(self.port)) for word in words]
        if environment:  # for the server alone, not for the tool that sets the limit
            self.words = ["env", *(f"{key}={value}" for key, value in environment.items()), *self.words]
        self.limited = limit is not None
        if self.limited:
            if not LIMITED.exists():
                raise machine.Failed(f"{LIMITED}: is not there; set COLIBRI_SHARED")
            self.words = [str(LIMITED), limit, *self.words]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def target(self):
        return http_stream.Target(self.url)

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self._wait(600)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.kill(self.pid, signal.SIGKILL)
                self.process.wait(60)
        self.log.close()

    def _wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise machine.Failed(f"{' '.join(self.words)}: exit {self.process.returncode}: {self.log_tail()}")
            with contextlib.suppress(OSError, urllib.error.HTTPError):
                self.get(self.health)
                return
            time.sleep(0.1)
        raise machine.Failed(f"{' '.join(self.words)}: not ready after {seconds} s: {self.log_tail()}")

    def log_tail(self):
        self.log.seek(0)
        return self.log.read().strip()[-600:]

    @property
    def pid(self):
        """Of the server itself: with a limit it is the child of the tool that sets it."""
        if not self.limited:
            return self.process.pid
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else self.process.pid

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return response.read().decode()

    def metrics(self):
        return parse_metrics(self.get("/metrics"))

    def memory_bytes(self):
        return int(re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text(), re.M)[1]) * 1024

    def open_files(self):
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def parse_metrics(text):
    """{"name" or "name{labels}": value} of a page for Prometheus."""
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    return values


def metric(values, name):
    """Sum over all labels; Failed when there is no such metric."""
    found = [value for key, value in values.items() if key.split("{")[0] == name]
    if not found:
        raise machine.Failed(f"/metrics has no {name}")
    return sum(found)


class Colibri:
    name = "colibri"

    def __init__(self, program, flags=()):
        self.program, self.flags = program, list(flags)

    def settings(self):
        return [{}]

    def start(self, path, *, parallel, context, setting=None, limit=None, environment=None, options=()):
        return Server(self.name, [self.program, "serve", path, "--port", "{port}", "--parallel", parallel, "--context", context, "--heat-file", "off",
                                  *self.flags, *options], limit=limit, environment=environment, health="/ready")


class LlamaServer:
    """llama.cpp's server. It divides its context among the slots. Its store of finished prompts is off: nothing here asks twice, and filling it
    takes time."""
    name = "llama.cpp"

    def __init__(self, threads):
        self.program, self.threads = machine.llama("llama-server"), threads

    def settings(self):
        return [{"repack": 0}, {"repack": 1}]

    def start(self, path, *, parallel, context, setting=None, limit=None, environment=None, options=()):
        repack = "--repack" if (setting or {}).get("repack") else "--no-repack"
        return Server(self.name, [self.program, "-m", path, "-t", self.threads, "-np", parallel, "-c", parallel * context, "--host", "127.0.0.1",
                                  "--port", "{port}", "--no-ui", "--cache-ram", 0, repack, *options], limit=limit, environment=environment)


def bench_decode(program, path, flags, tokens, depth):
    """Seconds per token of the engine alone."""
    run = machine.run([program, "bench", path, "--json", "-p", 0, "-n", tokens, "--depth", depth, "-r", 1, "--heat-file", "off", *flags])
    phase = json.loads(run.output)[-1]["decode"]
    return phase["seconds"] / phase["tokens"]
