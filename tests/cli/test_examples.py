"""The public headers in the hands of other people's programs: the examples compile without a warning, and run."""
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import parity
from cli.harness import BIN, DEMO, CliTest, clean_environment, colibri

LIB = Path(BIN).parent.parent / "lib"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
C = (os.environ.get("CC", "cc"), "-std=c99", *WARNINGS)
CXX = (os.environ.get("CXX", "c++"), "-std=c++20", *WARNINGS)


class ExamplesTest(CliTest):
    def compile(self, compiler, source, *flags):
        program = self.folder / "program"
        command = [*compiler, "-I", str(parity.ROOT / "include"), str(source), *flags, "-L", str(LIB), "-lcolibri",
                   f"-Wl,-rpath,{LIB}", "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=120)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return program

    def test_c_program_writes_the_same_text_as_the_command_line(self):
        program = self.compile(C, parity.ROOT / "examples" / "generate.c")
        expected = self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 60, "--temperature", 0)
        self.assertEqual(expected + b"\n", self.run_ok(DEMO, "Once upon a time", program=program))
        self.assertEqual(3, colibri("/nowhere", "x", program=program).returncode)

    def test_cpp_program_counts_every_choice(self):
        program = self.compile(CXX, parity.ROOT / "examples" / "experts.cc")
        lines = self.run_ok(DEMO, "Once upon a time", program=program).decode().splitlines()
        tokens = len(self.run_ok("tokenize", DEMO, input="Once upon a time").split())
        self.assertEqual([f"layer {i}" for i in range(4)], [line.split(":")[0] for line in lines])
        for line in lines:
            self.assertEqual(4 * tokens, sum(int(pair.split(":")[1]) for pair in line.split()[2:]))

    def test_cpp_header_compiles_without_and_with_exceptions(self):
        source = self.write("use.cc", '#include "colibri/colibri.hpp"\nint main() { return colibri::api::check_setting("threads", "1").ok() ? 0 : 1; }\n')
        self.assertEqual(0, subprocess.run([self.compile(CXX, source, "-fno-exceptions")]).returncode)
        source = self.write("throw.cc", '#define COLIBRI_HPP_EXCEPTIONS\n#include "colibri/colibri.hpp"\n'
                            'int main() {\n  try {\n    colibri::api::check_setting("thread", "1").value();\n'
                            '  } catch (const colibri::api::Exception& e) {\n    return e.error().exit_code();\n  }\n  return 0;\n}\n')
        self.assertEqual(2, subprocess.run([self.compile(CXX, source)]).returncode)


if __name__ == "__main__":
    unittest.main()
