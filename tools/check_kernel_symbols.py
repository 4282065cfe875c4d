#!/usr/bin/env python3
"""Fails when a kernel object holds a symbol that the linker may merge with another translation unit's copy.

Kernels are compiled with flags that most CPUs do not have. A function in a comdat section or with a weak symbol (an
inline function, a template of the standard library) could replace the baseline copy of the whole program at link time,
which then stops with an illegal instruction on a CPU without those flags. So kernels hold none.

usage: check_kernel_symbols.py OBJECT...
"""
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def mergeable(path):
    """Weak, unique and common symbols by nm; comdat groups by readelf."""
    found = []
    for line in run("nm", "--demangle", path).splitlines():
        kind, name = line[17:18], line[19:]
        if kind in "VvWwuC":
            found.append(f"{path}: {kind} {name}")
    for line in run("readelf", "--section-groups", "--wide", path).splitlines():
        if line.startswith("COMDAT"):
            found.append(f"{path}: {line}")
    return found


def exported(path):
    return [line[19:] for line in run("nm", "--demangle", "--defined-only", "--extern-only", path).splitlines()]


def main():
    paths = sys.argv[1:]
    if not paths:
        sys.exit(__doc__)
    problems = [problem for path in paths for problem in mergeable(path)]
    for path in paths:
        names = exported(path)
        if len(names) != 1 or not names[0].endswith("Kernels"):
            problems.append(f"{path}: should export one KernelTable, exports {names}")
    print("\n".join(problems) or f"{len(paths)} kernel objects: nothing that could be merged")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
