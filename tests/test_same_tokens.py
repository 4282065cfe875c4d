"""Placement and speed settings never change the result: the output file of `colibri logits` is equal byte by byte."""
import unittest

import parity

MODELS = ("checkpoints/mixtral", "checkpoints/qwen2_moe", "checkpoints/qwen3_moe", "checkpoints/olmoe", "checkpoints/llama",
          "gguf/qwen2_moe-q8_0.gguf", "gguf/qwen3_moe-q8_0.gguf")
PROMPTS = [[5, 9, 200, 31, 7, 7, 44, 3, 118, 260, 12, 90, 91, 92, 17, 300, 6], [8]]
VARIATIONS = (
    ("--threads", "1"),
    ("--threads", "3"),
    ("--isa", "scalar"),
    ("--prefill-chunk", "1"),
    ("--prefill-chunk", "5"),
    ("--expert-memory", "100%"),
    ("--expert-cache-policy", "lru"),
    ("--io", "buffered"),
    ("--parallel", "2"),
)


class SameTokensTest(unittest.TestCase):
    def test_every_setting_gives_the_same_bytes(self):
        for name in MODELS:
            for activations in ("auto", "float"):
                model, flags = parity.DATA / name, ("--activations", activations)
                reference = parity.run_logits(model, PROMPTS, 12, *flags)
                self.assertIn(b"greedy.1", reference)
                for variation in VARIATIONS:
                    with self.subTest(model=name, activations=activations, setting=variation):
                        self.assertEqual(reference, parity.run_logits(model, PROMPTS, 12, *flags, *variation))


if __name__ == "__main__":
    unittest.main()
