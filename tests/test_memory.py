"""What the process holds is what was planned, and the program itself is small."""
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import parity
import synthetic

MIB = 1 << 20
DEMO = parity.ROOT / "models" / "colibri-tales-14m-q8_0.gguf"
PEAK_RSS = Path(parity.BIN).with_name("peak_rss")


def run(*args):
    return subprocess.run([*map(str, args)], capture_output=True, text=True, timeout=600, check=True).stdout


def memory_of(model, *flags):
    """The "memory" of a short run's statistics."""
    with tempfile.NamedTemporaryFile(suffix=".json") as stats:
        run(parity.BIN, "run", model, "-p", "Once upon a time", "-n", "8", "--stats", stats.name, *flags)
        return json.loads(Path(stats.name).read_text())["memory"]


def kv_bytes_per_sequence(model, context):
    shape = json.loads(run(parity.BIN, "inspect", model, "--json"))["shape"]
    return shape["layers"] * 2 * shape["kv_heads"] * shape["head_dim"] * 4 * context


class PlanTest(unittest.TestCase):
    def assert_as_planned(self, model, *flags):
        memory = memory_of(model, *flags)
        planned, peak = memory["planned_bytes"], memory["peak_rss_bytes"]
        self.assertLessEqual(abs(peak - planned), max(0.02 * planned, 8 * MIB),
                             f"{Path(model).name} {' '.join(flags)}: planned {planned / MIB:.1f} MiB, peak {peak / MIB:.1f} MiB")

    def test_the_peak_is_the_plan(self):
        for parallel in ("1", "8"):
            for temperature in ("0", "1"):
                with self.subTest(parallel=parallel, temperature=temperature):
                    self.assert_as_planned(DEMO, "--context", "1024", "--parallel", parallel, "--temperature", temperature)

    def test_the_peak_of_a_larger_model_is_the_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "synthetic.gguf"
            synthetic.write(model, layers=2, experts=64, width=768)  # 340 MB
            for parallel in ("1", "8"):
                with self.subTest(parallel=parallel):
                    self.assert_as_planned(model, "--context", "4096", "--parallel", parallel)

    def test_sequences_cost_their_keys_and_values_and_little_more(self):
        context = 256
        one, many = (json.loads(run(parity.BIN, "bench", DEMO, "--json", "-p", "32", "-n", "8", "-r", "1", "--context", context,
                                    "--parallel", n))[0]["memory"]["peak_rss_bytes"] for n in (1, 32))
        self.assertLessEqual(many - one, 31 * kv_bytes_per_sequence(DEMO, context) + 12 * MIB)


class ProgramTest(unittest.TestCase):
    LIMIT = 20 * MIB

    def test_the_program_without_a_model_is_small(self):
        for words in (("--version",), ("config",), ("help", "run")):
            with self.subTest(words):
                peak = int(run(PEAK_RSS, parity.BIN, *words).splitlines()[-1])
                self.assertGreater(peak, MIB)
                self.assertLessEqual(peak, self.LIMIT)

    def test_a_program_that_links_the_library_is_small(self):
        peak = int(run(PEAK_RSS))
        self.assertGreater(peak, MIB // 2)
        self.assertLessEqual(peak, self.LIMIT)


if __name__ == "__main__":
    unittest.main()
