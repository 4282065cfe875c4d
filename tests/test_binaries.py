"""What the built files need and show: few run-time libraries, only colibri_ symbols."""
import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("COLIBRI_BIN", ROOT / "build" / "bin" / "colibri")).parent.parent
LIBRARY = BUILD / "lib" / "libcolibri.so"
RUNTIME = re.compile(r"^(lib(c|m|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux.*)$")


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


class BinariesTest(unittest.TestCase):
    def test_the_library_needs_only_the_c_and_cpp_runtime(self):
        needed = [line.split("[")[1].rstrip("]") for line in lines("readelf", "--dynamic", str(LIBRARY)) if "(NEEDED)" in line]
        self.assertIn("libc.so.6", needed)
        self.assertEqual([], [name for name in needed if not RUNTIME.match(name)])

    def test_the_library_exports_the_c_api_only(self):
        exported = [line.split()[-1] for line in lines("nm", "--dynamic", "--defined-only", str(LIBRARY))]
        self.assertGreater(len([name for name in exported if name.startswith("colibri_")]), 5)
        self.assertEqual([], [name for name in exported if not name.startswith("colibri_")])

    def test_the_header_and_the_library_name_the_same_functions(self):
        header = (ROOT / "include" / "colibri" / "colibri.h").read_text()
        declared = set(re.findall(r"^COLIBRI_API\s[^;]*?\b(colibri_\w+)\(", header, re.M))
        exported = {line.split()[-1] for line in lines("nm", "--dynamic", "--defined-only", str(LIBRARY))}
        self.assertGreater(len(declared), 5)
        self.assertEqual(set(), declared - exported, "declared, but not exported")


if __name__ == "__main__":
    unittest.main()
