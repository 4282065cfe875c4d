"""What the tests of the command-line program share: running it, models to run, and copies of them to damage."""
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import parity  # noqa: E402

BIN = parity.BIN
DATA = parity.DATA
DEMO = parity.ROOT / "models" / "colibri-tales-14m-q8_0.gguf"
CHECKPOINT = DATA / "checkpoints" / "qwen3_moe"
BARE = DATA / "checkpoints" / "olmoe"  # has no tokenizer
TOKENIZER = DATA / "tiny_tokenizer"


def clean_environment(**variables):
    """This process's environment without settings of Colibri, so that the tests mean the same everywhere."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COLIBRI_")}
    env.update({name: str(value) for name, value in variables.items()})
    return env


def colibri(*args, input=None, env=None, program=BIN, timeout=120, stdout=subprocess.PIPE, limits=None):
    """The finished process; input and outputs are bytes. `limits`: {resource.RLIMIT_...: bytes}."""
    def limit():
        for which, value in limits.items():
            resource.setrlimit(which, (value, value))
    if isinstance(input, str):
        input = input.encode()
    return subprocess.run([str(program), *map(str, args)], input=input, stdout=stdout, stderr=subprocess.PIPE,
                          env=clean_environment(**(env or {})), timeout=timeout, stdin=None if input is not None else subprocess.DEVNULL,
                          preexec_fn=limit if limits else None)


def without_progress(text):
    """Standard error without the plain progress lines that a slow machine gets to see."""
    return re.sub(rb"(?m)^(loading|reading the prompt|perplexity): \d+ %.*\n", b"", text)


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="colibri-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def run_ok(self, *args, **kwargs):
        """Standard output, after checking that the program was content and quiet about it."""
        done = colibri(*args, **kwargs)
        self.assertEqual((0, b""), (done.returncode, without_progress(done.stderr)), f"colibri {' '.join(map(str, args))}")
        return done.stdout

    def assert_fails(self, status, *args, names=(), **kwargs):
        """The exit status, and one line on standard error that holds all of `names`; the line is the result."""
        done = colibri(*args, **kwargs)
        line = without_progress(done.stderr).decode()
        self.assertEqual(status, done.returncode, f"colibri {' '.join(map(str, args))}: {line}")
        self.assertTrue(line.startswith("colibri: ") and line.endswith("\n") and line.count("\n") == 1, line)
        for name in names:
            self.assertIn(str(name), line)
        return line

    def start(self, *args, env=None, **kwargs):
        """The running process, without standard input unless told."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | kwargs
        process = subprocess.Popen([BIN, *map(str, args)], env=clean_environment(**(env or {})), **streams)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def assert_stops(self, process, number, within):
        """A signal ends the process with 128 + its number, in `within` seconds, and without a word."""
        begin = time.monotonic()
        process.send_signal(number)
        self.assertEqual(128 + number, process.wait(timeout=60))
        self.assertLess(time.monotonic() - begin, within)
        self.assertEqual(b"", without_progress(process.stderr.read()))

    def copy_of(self, model, name="model"):
        """A copy that may be damaged: a folder, or a file with its name."""
        target = self.folder / name
        if model.is_dir():
            shutil.copytree(model, target, copy_function=shutil.copyfile)
            target.chmod(0o755)
        else:
            target.mkdir()
            target = Path(shutil.copyfile(model, target / model.name))
        return target


def truncate(path, n_bytes):
    """Cuts bytes off the end of a file."""
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - n_bytes)


def header_of(path):
    """(length of the header, its text) of a safetensors file."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    return length, data[8:8 + length].decode()
