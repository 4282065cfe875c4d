"""Runs a program on a disk that fails or is slow for chosen files: the environment that loads tests/io_shim.c.

    colibri("run", model, "-p", "x", env=io_shim.environment("on=read path=.gguf calls=9-9 fail=EIO"))

The rules are described at the head of io_shim.c. Works with every sanitizer.
"""
import os
from pathlib import Path
from typing import NamedTuple

import parity

LIBRARY = Path(parity.BIN).absolute().parents[1] / "lib" / "libio_shim.so"


def environment(*rules, log=None):
    """Variables to add to a program's environment. `log`: the file that rules with the word log write to."""
    options = [os.environ.get("ASAN_OPTIONS", ""), "verify_asan_link_order=0"]
    variables = {"LD_PRELOAD": str(LIBRARY), "IO_SHIM_RULES": ";".join(rules), "ASAN_OPTIONS": ":".join(filter(None, options))}
    return variables | ({"IO_SHIM_LOG": str(log)} if log else {})


class Call(NamedTuple):
    on: str
    offset: int
    bytes: int
    result: int  # bytes, or minus errno
    begin: float  # seconds of the monotonic clock
    end: float


def calls(log):
    """What a log holds, in the order in which the calls ended."""
    rows = [line.split() for line in Path(log).read_text().splitlines()]
    return [Call(row[0], *map(int, row[1:4]), *map(float, row[4:])) for row in rows]
