"""Processors that are not here: the same program under qemu-user gives the same bytes as on this machine.

The build has no -march flag, so it must start on the first x86-64 processors and choose what each one has.
"""
import json
import shutil
import subprocess
import unittest

import parity

MODELS = ("gguf/qwen3_moe-q8_0.gguf", "gguf/qwen3_moe_wide-q4_k_m.gguf", "checkpoints/olmoe")
PROMPTS = [[(7 * i * i + 3 * i) % 320 for i in range(20)], [8]]
# QEMU's names, and the level that Colibri should choose there. AMD and Intel: dispatch looks at features, not at vendors.
CPUS = {"Opteron_G1": "scalar", "kvm64": "scalar", "Conroe": "scalar", "phenom": "scalar", "Penryn": "sse4", "Nehalem": "sse4",
        "SandyBridge": "sse4", "Opteron_G5": "sse4", "Haswell": "avx2", "EPYC": "avx2"}
# Between them every level, and multiplications with and without rounding once in the C library.
ONE_OF_EACH_KIND = ("Opteron_G1", "Penryn", "Opteron_G5", "Haswell")
QEMU = shutil.which("qemu-x86_64")


def on(cpu):
    """The command line that runs Colibri on that processor."""
    return [QEMU, "-cpu", cpu, parity.BIN]


@unittest.skipUnless(QEMU, "qemu-x86_64 is not installed (package qemu-user)")
class OldCpusTest(unittest.TestCase):
    def test_the_oldest_processors_give_the_same_bytes(self):
        for model in MODELS:
            here = parity.run_logits(parity.DATA / model, PROMPTS, 6)
            for cpu in CPUS if model == MODELS[0] else ONE_OF_EACH_KIND:
                with self.subTest(model=model, cpu=cpu):
                    self.assertEqual(here, parity.run_logits(parity.DATA / model, PROMPTS, 6, program=on(cpu)))

    def test_each_processor_gets_the_best_level_that_it_has(self):
        model = parity.ROOT / "models" / "colibri-tales-14m-q8_0.gguf"
        for cpu, level in CPUS.items():
            with self.subTest(cpu=cpu):
                done = subprocess.run([*on(cpu), "bench", str(model), "-p", "1", "-n", "1", "-r", "1", "--warmup", "0", "--json"],
                                      capture_output=True, text=True, timeout=300)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual(level, json.loads(done.stdout)[0]["isa"])

    def test_a_level_that_the_processor_lacks_is_an_error_not_a_crash(self):
        model = parity.ROOT / "models" / "colibri-tales-14m-q8_0.gguf"
        done = subprocess.run([*on("Nehalem"), "run", str(model), "-p", "a", "-n", "1", "--isa", "avx512"],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("avx512", done.stderr)


if __name__ == "__main__":
    unittest.main()
