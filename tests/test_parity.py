"""Logits, routing and greedy tokens equal those of transformers, through the program that users run.

Every checkpoint of tests/data, and of ../shared/oracle where that folder is present. Float activations: a reference for
quantised files is computed without quantising activations.
"""
import unittest

import parity

LOGITS_TOLERANCE = 1e-4
MEAN_TOLERANCE = 5e-2  # with 8-bit activations
WEIGHT_TOLERANCE = 1e-5
TIE = 1e-6  # two experts with weights this close may stand in either order

CHECKPOINTS = ("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_moe_fused", "olmoe", "llama", "qwen3")
GGUF_F32 = {"mixtral": "mixtral-f32.gguf", "qwen3_moe": "qwen3_moe-f32-00001-of-00002.gguf"}
GGUF_Q8_0 = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe")

SHARED_CHECKPOINTS = ("mixtral", "mixtral_wide", "qwen2_moe", "qwen3_moe", "qwen3_moe_bf16_sharded", "qwen3_moe_nonorm",
                      "qwen3_moe_wide", "olmoe", "llama", "qwen3")
SHARED_GGUF_QUANTISED = ("Q8_0", "Q4_0", "Q5_1", "Q2_K", "Q3_K_M", "Q5_K_M", "Q6_K", "IQ3_S", "IQ4_NL", "IQ4_XS", "MXFP4_MOE")
SHARED_GGUF_F32 = ("mixtral", "qwen3_moe", "llama", "qwen3")


class ParityTest(unittest.TestCase):
    def check(self, model, expected_path, records_routing):
        self.assertTrue(model.exists(), model)
        expected = parity.read_safetensors(expected_path)
        prompts = parity.prompts_of(expected)
        self.assertGreaterEqual(len(prompts), 2)
        n_greedy = max(t.shape[0] for name, t in expected.items() if name.endswith(".greedy_ids"))
        out = parity.parse_logits(parity.run_logits(model, list(prompts.values()), n_greedy, "--activations", "float"))
        for index, (prefix, ids) in enumerate(prompts.items()):
            with self.subTest(prompt=prefix):
                self.check_logits(out[f"logits.{index}"], expected[f"{prefix}.logits"], len(ids))
                if records_routing:
                    self.check_routing(out, index, expected, prefix, len(ids))
                self.assertEqual(expected[f"{prefix}.greedy_ids"].values, out[f"greedy.{index}"].values)

    def check_eight_bits(self, model, expected_path):
        """With 8-bit activations a single logit may be far off (an expert flips); the mean may not."""
        expected = parity.read_safetensors(expected_path)
        prompts = parity.prompts_of(expected)
        out = parity.parse_logits(parity.run_logits(model, list(prompts.values()), 1))
        for index, prefix in enumerate(prompts):
            actual, want = out[f"logits.{index}"].values, expected[f"{prefix}.logits"].values
            mean = sum(abs(a - b) for a, b in zip(actual, want, strict=True)) / len(want)
            self.assertLess(mean, MEAN_TOLERANCE, prefix)  # NaN is not less
            self.assertGreater(mean, 0)

    def check_logits(self, actual, expected, n_rows):
        self.assertEqual([n_rows, expected.shape[1]], actual.shape)
        wrong = [(a, b) for a, b in zip(actual.values, expected.values) if not abs(a - b) < LOGITS_TOLERANCE]  # NaN is wrong
        self.assertEqual([], wrong[:5], f"{len(wrong)} of {len(expected.values)} logits")

    def check_routing(self, out, index, expected, prefix, n_rows):
        layers = {name.split(".")[2] for name in expected if name.startswith(f"{prefix}.moe.") and name.endswith(".ids")}
        self.assertEqual(layers, {name.split(".")[2] for name in out if name.startswith(f"router.{index}.")})
        for layer in layers:
            want_ids, want = expected[f"{prefix}.moe.{layer}.ids"], expected[f"{prefix}.moe.{layer}.weights"]
            got_ids, got = out[f"router.{index}.{layer}.ids"], out[f"router.{index}.{layer}.weights"]
            self.assertEqual(want_ids.shape, got_ids.shape)
            for row in range(n_rows):
                wanted = dict(zip(want_ids.row(row), want.row(row)))
                actual = dict(zip(got_ids.row(row), got.row(row)))
                self.assertEqual(wanted.keys(), actual.keys(), f"layer {layer}, row {row}")
                for expert, weight in wanted.items():
                    self.assertAlmostEqual(weight, actual[expert], delta=WEIGHT_TOLERANCE)
                weights = got.row(row)
                self.assertTrue(all(a >= b - TIE for a, b in zip(weights, weights[1:])), "sorted by weight")


def add_test(name, model, expected, shared, records_routing=True):
    def test(self):
        if shared and not parity.SHARED.is_dir():
            self.skipTest("../shared is not there")
        self.check(model, expected, records_routing)
    setattr(ParityTest, f"test_{name}", test)


def add_eight_bit_test(name, model, expected):
    @unittest.skipUnless(parity.SHARED.is_dir(), "../shared is not there")
    def test(self):
        self.check_eight_bits(model, expected)
    setattr(ParityTest, f"test_{name}_with_8_bit_activations", test)


def add_tests():
    data, oracle = parity.DATA, parity.SHARED / "oracle"
    for name in CHECKPOINTS:
        folder = data / "checkpoints" / name
        add_test(f"data_{name}", folder, folder / "expected.safetensors", shared=False)
    for name, file in GGUF_F32.items():
        add_test(f"data_{name}_gguf_f32", data / "gguf" / file, data / "checkpoints" / name / "expected.safetensors", shared=False)
    for name in GGUF_Q8_0:
        stem = data / "gguf" / f"{name}-q8_0"
        add_test(f"data_{name}_gguf_q8_0", stem.with_suffix(".gguf"), stem.with_suffix(".expected.safetensors"), shared=False)
    stem = data / "gguf" / "qwen3_moe_wide-q4_k_m"
    add_test("data_qwen3_moe_wide_gguf_q4_k_m", stem.with_suffix(".gguf"), stem.with_suffix(".expected.safetensors"), shared=False,
             records_routing=False)  # that file holds logits and tokens only
    for name in SHARED_CHECKPOINTS:
        folder = oracle / "checkpoints" / name
        add_test(f"shared_{name}", folder, folder / "expected.safetensors", shared=True)
    for name in SHARED_GGUF_F32:
        add_test(f"shared_{name}_gguf_f32", oracle / "gguf" / f"{name}-f32.gguf",
                 oracle / "checkpoints" / name / "expected.safetensors", shared=True)
    for mix in SHARED_GGUF_QUANTISED:
        stem = oracle / "gguf" / f"qwen3_moe_wide-{mix}"
        add_test(f"shared_qwen3_moe_wide_gguf_{mix.lower()}", stem.with_suffix(".gguf"), stem.with_suffix(".expected.safetensors"),
                 shared=True, records_routing=False)  # that file holds logits and tokens only
        add_eight_bit_test(f"shared_qwen3_moe_wide_gguf_{mix.lower()}", stem.with_suffix(".gguf"),
                           stem.with_suffix(".expected.safetensors"))


add_tests()

if __name__ == "__main__":
    unittest.main()
