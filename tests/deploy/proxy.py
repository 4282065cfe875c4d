"""A real nginx with the configuration that is shipped, on free ports and in a folder of its own, for the tests."""
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "deploy" / "nginx" / "colibri.conf"
PROGRAM = shutil.which("nginx") or "/usr/sbin/nginx"


def free_ports(n):
    """Below the range from which the system gives ports to whoever asks for any: no other test gets one before it is used."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = []
    while len(ports) < n:
        port = random.randrange(first // 2, first)
        with socket.socket() as probe:
            if port not in ports and probe.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    return ports


def adapted(text, port, upstreams):
    """The shipped file with other ports: everything else stays as it is."""
    servers = iter(upstreams)
    text, changed = re.subn(r"^    listen 80;", f"    listen 127.0.0.1:{port};", text, flags=re.M)
    text, replaced = re.subn(r"server 127\.0\.0\.1:\d+ ", lambda _: f"server 127.0.0.1:{next(servers)} ", text)
    assert (changed, replaced) == (1, len(upstreams)), "the shipped file has other lines than this test changes"
    return text


def whole(folder, included):
    return f"""daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log info;
events {{ worker_connections 256; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  include {included};
}}
"""


class Proxy:
    """Use it with `with`. `changes`: (pattern, text) for limits that would make a test long."""

    def __init__(self, upstreams, changes=()):
        self.upstreams, self.changes = upstreams, changes

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        folder.chmod(0o755)
        (self.port,) = free_ports(1)
        text = adapted(SHIPPED.read_text(), self.port, self.upstreams)
        for pattern, replacement in self.changes:
            text, n = re.subn(pattern, replacement, text)
            assert n == 1, f"{pattern}: {n} times in the shipped file"
        (folder / "colibri.conf").write_text(text)
        (folder / "nginx.conf").write_text(whole(folder, folder / "colibri.conf"))
        words = [PROGRAM, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
        tested = subprocess.run([*words, "-t"], capture_output=True, text=True, timeout=60)
        assert tested.returncode == 0, tested.stderr
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        self._wait()
        return self

    def _wait(self):
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError(f"nginx does not listen: {self.errors()}")

    def errors(self):
        return (Path(self.folder.name) / "error.log").read_text()

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.folder.cleanup()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"
