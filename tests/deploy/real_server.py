"""`colibri serve` with the model that ships, for the tests of what is put around it."""
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("COLIBRI_BIN", str(ROOT / "build" / "bin" / "colibri"))
MODEL = ROOT / "models" / "colibri-tales-14m-q8_0.gguf"


class RealServer:
    """On a free port of its own, ready when entered. Use it with `with`."""

    def __init__(self, *flags, environment=None):
        self.words = [PROGRAM, "serve", str(MODEL), "--port", "0", "--heat-file", "off", "--context", "1024", *flags]
        self.environment = os.environ | (environment or {})

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.environment)
        said = self.process.stdout.readline()
        found = re.search(r"http://\S+?:(\d+)", said)
        assert found, f"{' '.join(self.words)}: said {said!r}, exit {self.process.poll()}"
        self.port = int(found[1])
        for _ in range(600):
            try:
                self.get("/ready")
                return self
            except urllib.error.HTTPError:
                time.sleep(0.05)
        raise AssertionError("the server is not ready after half a minute")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.process.stdout.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()
