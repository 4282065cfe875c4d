"""A cache of experts changes the time, never the result: `colibri logits` writes the same bytes whatever is kept, read, or guessed."""
import itertools
import random
import tempfile
import unittest
from pathlib import Path

import parity

DEMO = parity.ROOT / "models" / "colibri-tales-14m-q8_0.gguf"
CHECKPOINTS = ("checkpoints/mixtral", "checkpoints/qwen2_moe", "checkpoints/qwen3_moe", "checkpoints/olmoe",
               "gguf/qwen2_moe-q8_0.gguf", "gguf/qwen3_moe-q8_0.gguf", "gguf/qwen3_moe_wide-q4_k_m.gguf")
# Recurrent, latent, windowed and sparse; experts by columns, in blocks, read twice in a layer.
FAMILIES = ("qwen3_next", "qwen3_5_moe", "kimi_linear", "bailing_hybrid", "nemotron_h", "granitemoehybrid", "lfm2_moe", "deepseek_v3",
            "deepseek_v32", "deepseek_v4", "glm_moe_dsa", "gpt_oss", "gpt_oss_mxfp4", "gemma4", "llama4", "longcat_flash", "mimo_v2_flash", "phimoe")
# The first is longer than the rows that may meet their experts in any order, the second is decoded from its first token on.
PROMPTS = [[(7 * i * i + 3 * i) % 320 for i in range(90)], [8]]
FAMILY_PROMPTS = [[(7 * i * i + 3 * i) % 120 for i in range(90)], [8], [5] * 20]
AXES = {
    "--expert-memory": ("0", "10%", "25%", "50%", "75%", "99%"),
    "--expert-cache-policy": ("auto", "lru", "lfu"),
    "--io": ("auto", "buffered", "direct"),
    "--prefetch-weight": ("0", "0.5", "1"),
    "--threads": ("1", "2", "3"),
    "--prefill-chunk": ("auto", "1", "7", "64"),
    "--parallel": ("1", "2"),
}


def pairs_covered(settings):
    """Every pair of two axes' values."""
    return {frozenset(pair) for pair in itertools.combinations(settings, 2)}


def covering_settings(seed):
    """Few combinations in which every two values of two axes meet; drawn, so that other seeds give others."""
    draw = random.Random(seed)
    missing = set().union(*(pairs_covered(zip(AXES, values)) for values in itertools.product(*AXES.values())))
    while missing:
        candidates = [tuple((axis, draw.choice(values)) for axis, values in AXES.items()) for _ in range(50)]
        best = max(candidates, key=lambda settings: len(pairs_covered(settings) & missing))
        if pairs_covered(best) & missing:
            missing -= pairs_covered(best)
            yield best


class StreamingTest(unittest.TestCase):
    def check(self, model, settings, reference, prompts=PROMPTS):
        flags = [part for setting in settings for part in setting]
        with self.subTest(model=str(model), settings=" ".join(flags)):
            self.assertEqual(reference, parity.run_logits(model, prompts, 12, "--heat-file", "off", *flags))

    def test_every_pair_of_budget_policy_io_prefetch_threads_and_chunks_gives_the_demo_models_bytes(self):
        reference = parity.run_logits(DEMO, PROMPTS, 12)
        self.assertIn(b"greedy.1", reference)
        for settings in covering_settings(1):
            self.check(DEMO, settings, reference)

    def test_every_family_gives_the_same_bytes_from_a_small_cache(self):
        for i, name in enumerate(CHECKPOINTS):
            model = parity.DATA / name
            reference = parity.run_logits(model, PROMPTS, 12)
            for settings in itertools.islice(covering_settings(i), 4):
                self.check(model, settings, reference)

    def test_every_mixer_gives_the_same_bytes_from_a_small_cache(self):
        for i, name in enumerate(FAMILIES):
            model = parity.DATA / "checkpoints" / name
            reference = parity.run_logits(model, FAMILY_PROMPTS, 12)
            for settings in itertools.islice(covering_settings(100 + i), 3):
                self.check(model, settings, reference, FAMILY_PROMPTS)

    def test_heat_of_earlier_runs_changes_nothing_but_the_time(self):
        reference = parity.run_logits(DEMO, PROMPTS, 12)
        with tempfile.TemporaryDirectory() as folder:
            heat = Path(folder) / "below" / "heat"
            for _ in range(3):
                self.assertEqual(reference, parity.run_logits(DEMO, PROMPTS, 12, "--expert-memory", "30%", "--heat-file", str(heat)))
                self.assertTrue(heat.exists())


if __name__ == "__main__":
    unittest.main()
