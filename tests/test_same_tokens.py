"""Placement and speed settings never change the result: the output file of `colibri logits` is equal byte by byte."""
import json
import subprocess
import unittest

import parity

MODELS = ("checkpoints/mixtral", "checkpoints/qwen2_moe", "checkpoints/qwen3_moe", "checkpoints/olmoe", "checkpoints/llama",
          "gguf/qwen2_moe-q8_0.gguf", "gguf/qwen3_moe-q8_0.gguf", "gguf/qwen3_moe_wide-q4_k_m.gguf")
# A sample of each way to remember: a delta rule by head and by channel, Mamba-2, short convolutions, latents, latents with an
# indexer, windows with sinks, chunks of positions, two halves of a layer, compressed keys. Each setting is tried with one of FAMILY_FLAGS only.
FAMILIES = ("qwen3_next", "kimi_linear", "nemotron_h", "lfm2_moe", "deepseek_v3", "glm_moe_dsa", "gpt_oss", "llama4", "longcat_flash",
            "deepseek_v4")
# The first is longer than a tile of keys (64), so that chunks end inside and outside of tiles.
PROMPTS = [[(7 * i * i + 3 * i) % 320 for i in range(90)], [8]]
FAMILY_PROMPTS = [[(7 * i * i + 3 * i) % 120 for i in range(90)], [8]]
# Each gives results of its own, which nothing below may change.
FAMILY_FLAGS = ((), ("--kv-type", "f16"), ("--kv-type", "q8"))  # BF16: activations are float anyway
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
FAMILY_VARIATIONS = (
    ("--expert-memory", "10%", "--heat-file", "off"),
    ("--expert-memory", "50%", "--parallel", "2", "--prefill-chunk", "7"),
    ("--threads", "3", "--parallel", "2", "--prefill-chunk", "1"),
)


def levels_of_this_cpu():
    """The instruction sets that the program can use here; scalar is always one."""
    done = subprocess.run([parity.BIN, "test", "kernels", "--json"], capture_output=True, text=True, timeout=120, check=True)
    return sorted({report["isa"] for report in json.loads(done.stdout)})


class SameTokensTest(unittest.TestCase):
    def test_every_way_to_remember_gives_the_same_bytes(self):
        variations = VARIATIONS + FAMILY_VARIATIONS + tuple(("--isa", level) for level in levels_of_this_cpu())
        for i, name in enumerate(FAMILIES):
            model = parity.DATA / "checkpoints" / name
            references = [parity.run_logits(model, FAMILY_PROMPTS, 12, *flags) for flags in FAMILY_FLAGS]
            self.assertEqual(len(FAMILY_FLAGS), len(set(references)), f"{name}: flags without effect")
            for j, variation in enumerate(variations):
                k = (i + j) % len(FAMILY_FLAGS)
                with self.subTest(model=name, flags=FAMILY_FLAGS[k], setting=variation):
                    self.assertEqual(references[k], parity.run_logits(model, FAMILY_PROMPTS, 12, *FAMILY_FLAGS[k], *variation))

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
