"""Placement and speed settings never change the result: the output file of `colibri logits` is equal byte by byte."""
import json
import subprocess
import unittest

import parity

MODELS = ("checkpoints/mixtral", "checkpoints/qwen2_moe", "checkpoints/qwen3_moe", "checkpoints/olmoe", "checkpoints/llama",
          "gguf/qwen2_moe-q8_0.gguf", "gguf/qwen3_moe-q8_0.gguf", "gguf/qwen3_moe_wide-q4_k_m.gguf")
# The first is longer than a tile of keys (64), so that chunks end inside and outside of tiles.
PROMPTS = [[(7 * i * i + 3 * i) % 320 for i in range(90)], [8]]
# Each gives results of its own, which nothing below may change.
FLAGS = (("--activations", "auto"), ("--activations", "float"), ("--kv-type", "f16"), ("--kv-type", "q8"))
VARIATIONS = (
    ("--threads", "1"),
    ("--threads", "2"),
    ("--threads", "3"),
    ("--prefill-chunk", "1"),
    ("--prefill-chunk", "7"),
    ("--prefill-chunk", "64"),
    ("--expert-memory", "100%"),
    ("--expert-memory", "40%", "--heat-file", "off"),
    ("--expert-cache-policy", "lru"),
    ("--io", "buffered"),
    ("--parallel", "2"),
)


def levels_of_this_cpu():
    """The instruction sets that the program can use here; scalar is always one."""
    done = subprocess.run([parity.BIN, "test", "kernels", "--json"], capture_output=True, text=True, timeout=120, check=True)
    return sorted({report["isa"] for report in json.loads(done.stdout)})


class SameTokensTest(unittest.TestCase):
    def test_every_setting_and_instruction_set_gives_the_same_bytes(self):
        levels = levels_of_this_cpu()
        self.assertIn("scalar", levels)
        variations = VARIATIONS + tuple(("--isa", level) for level in levels)
        for name in MODELS:
            for flags in FLAGS:
                model = parity.DATA / name
                reference = parity.run_logits(model, PROMPTS, 12, *flags)
                self.assertIn(b"greedy.1", reference)
                for variation in variations:
                    with self.subTest(model=name, flags=flags, setting=variation):
                        self.assertEqual(reference, parity.run_logits(model, PROMPTS, 12, *flags, *variation))


if __name__ == "__main__":
    unittest.main()
