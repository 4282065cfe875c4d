#!/usr/bin/env python3
"""Check who includes whom, and that alternatives are files and not #ifdefs. A build step: exit 1 fails the build.

    tools/check_layers.py [ROOT]

Two rules of ARCHITECTURE.md:
  1. An #include may only point downward (LAYERS below). Files under apps/ see include/colibri, their own folder, and the
     apps that APPS names.
  2. No preprocessor condition on the platform or the instruction set outside src/platform, the CPU kernels and a no_cuda stub.
"""
import re
import sys
from pathlib import Path

BOTTOM = {"base"}
MIDDLE = BOTTOM | {"platform", "tensor"}
BELOW_MODEL = MIDDLE | {"formats", "store", "text", "sampling", "compute", "kv"}

# layer -> the layers whose headers it may include, besides its own
LAYERS = {
    "base": set(),
    "platform": BOTTOM,
    "tensor": BOTTOM,
    "formats": MIDDLE,
    "store": MIDDLE | {"formats"},
    "text": BOTTOM,
    "sampling": BOTTOM | {"text"},
    "compute": MIDDLE,
    "kv": MIDDLE,
    "model": BELOW_MODEL,
    "engine": BELOW_MODEL | {"model"},
    "capi": BELOW_MODEL | {"model", "engine", "colibri"},
    "colibri": set(),  # include/colibri: the public headers
}
# Folders of apps/ -> those whose headers they may include, besides their own; the program (cli) is made of the other two.
APPS = {"common": set(), "server": {"common"}, "cli": {"common", "server"}}
# The kernels are leaves: of their own layer they see nothing but each other.
KERNELS = "src/compute/cpu/kernels/"
KERNELS_MAY_INCLUDE = ("compute/cpu/kernels/", "compute/cpu/isa.h", "tensor/", "base/", "platform/cpu.h")  # isa.h: the list of levels

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)$", re.M)
PLATFORM_MACRO = re.compile(
    r"\b(?:_WIN32|_WIN64|_MSC_VER|__MINGW\w+|__CYGWIN__|__linux__|__gnu_linux__|__unix__|__APPLE__|__ANDROID__|__FreeBSD__"
    r"|__x86_64__|__amd64__|__i386__|_M_X64|_M_ARM64|__aarch64__|__arm__|__ARM_\w+"
    r"|__SSE\w*__|__SSSE3__|__AVX\w*__|__AMX\w*__|__FMA__|__F16C__|__CUDA\w*__|__CUDACC__)")
CONDITIONS_ALLOWED = re.compile(r"^(?:src/platform/|src/compute/cpu/kernels/|src/compute/(?:no_)?cuda/|include/colibri/)")
SOURCES = {".h", ".hpp", ".c", ".cc", ".cu"}


def layer_of(path):
    """Layer of a file, given relative to the root; None for the folders that may see everything (tests, fuzz, bench)."""
    parts = path.parts
    if parts[0] == "src":
        return parts[1]
    if parts[0] == "include":
        return "colibri"
    return "apps" if parts[0] == "apps" else None


def apps_error(app, other):
    """Why files of apps/APP may not include those of apps/OTHER, or None."""
    if app not in APPS:
        return f"apps/{app} is no folder that tools/check_layers.py knows"
    if other == app or other in APPS[app]:
        return None
    return f"apps/{app} may include only: {', '.join(sorted(APPS[app] | {app, 'colibri'}))}"


def include_error(path, quoted, target):
    """Why `path` may not include `target`, or None."""
    layer = layer_of(path)
    first = target.split("/")[0]
    if target.startswith("."):
        return "write the path from src/, without dots"
    if layer == "apps" and first in APPS and "/" in target:
        return apps_error(path.parts[1], first)
    if first not in LAYERS:
        return None  # a library's header, or a neighbour in the same folder
    if layer == "apps":
        return None if first == "colibri" else "apps include colibri/ only"
    if not quoted and layer != "colibri" and first != "colibri":
        return 'project headers are included with ""'
    if layer not in LAYERS:
        return f"src/{layer} is not a layer that tools/check_layers.py knows"
    if path.as_posix().startswith(KERNELS) and not path.stem.endswith("_test"):
        return None if target.startswith(KERNELS_MAY_INCLUDE) else "kernels are leaves"
    if first == layer or first in LAYERS[layer]:
        return None
    return f"{layer} may include only: {', '.join(sorted(LAYERS[layer] | {layer}))}"


def file_errors(path, text):
    """All complaints about one file, as 'path:line: complaint'."""
    name = path.as_posix()

    def line_of(match):
        return text.count("\n", 0, match.start(1)) + 1

    if layer_of(path) is not None:
        for match in INCLUDE.finditer(text):
            error = include_error(path, match[1] == '"', match[2])
            if error:
                yield f'{name}:{line_of(match)}: includes "{match[2]}": {error}'
    if not CONDITIONS_ALLOWED.match(name):
        for match in CONDITION.finditer(text):
            macro = PLATFORM_MACRO.search(match[1])
            if macro:
                yield f"{name}:{line_of(match)}: #if on {macro[0]}: make it a file in src/platform or a kernel"


def check(root):
    """Complaints about every source file below `root`, and how many files were read."""
    errors, n_files = [], 0
    for folder in ("src", "include", "apps", "tests", "bench", "fuzz"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SOURCES:
                n_files += 1
                errors += file_errors(file.relative_to(root), file.read_text(encoding="utf-8"))
    return errors, n_files


def main(argv):
    root = Path(argv[1]) if len(argv) > 1 else Path(__file__).resolve().parent.parent
    errors, n_files = check(root)
    for error in errors:
        print(error, file=sys.stderr)
    if n_files == 0:
        print(f"check_layers: no source files below {root}", file=sys.stderr)
    return 1 if errors or n_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
