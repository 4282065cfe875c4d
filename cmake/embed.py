#!/usr/bin/env python3
"""Writes the page's files into one C++ source: embed.py WEB_FOLDER OUT.cc. See apps/server/assets.h."""

import hashlib
import sys
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
LINE = 100  # bytes of a file per line of the source

HEAD = """// Made by cmake/embed.py. The page's files.
#include "assets.h"

#include <algorithm>
#include <array>

namespace colibri::server {
namespace {

using namespace std::string_view_literals;

constexpr std::array kAssets = {
"""

TAIL = """};

}  // namespace

std::span<const Asset> assets() { return kAssets; }

const Asset* find_asset(std::string_view path) {
  const auto* found = std::lower_bound(kAssets.begin(), kAssets.end(), path,
                                       [](const Asset& asset, std::string_view wanted) { return asset.path < wanted; });
  return found != kAssets.end() && found->path == path ? &*found : nullptr;
}

}  // namespace colibri::server
"""


def escaped(byte):
    if byte in b'"\\':
        return "\\" + chr(byte)
    if 32 <= byte < 127 and byte != ord("?"):  # no trigraphs
        return chr(byte)
    return "\\n" if byte == 10 else f"\\{byte:03o}"


def literal(data):
    lines = ["".join(map(escaped, data[at : at + LINE])) for at in range(0, len(data), LINE)]
    return "\n".join(f'     "{line}"' for line in lines) + "sv"


def page_files(folder):
    """The site's path of each file, ordered by it."""
    files = {"/" + path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in TYPES}
    files["/"] = files.pop("/index.html")
    return dict(sorted(files.items(), key=lambda pair: pair[0].encode()))


def main(folder, out):
    parts = []
    for path, file in page_files(Path(folder)).items():
        data = file.read_bytes()
        etag = hashlib.sha256(data).hexdigest()[:20]
        parts.append(f'    Asset{{"{path}", "{TYPES[file.suffix]}", "\\"{etag}\\"",\n{literal(data)}}},\n')
    Path(out).write_text(HEAD + "".join(parts) + TAIL)


if __name__ == "__main__":
    main(*sys.argv[1:])
