"""Logits, routing and greedy tokens equal those of transformers, through the program that users run.

Every model of families.py: those of tests/data, and of ../shared/oracle where that folder is present. Float activations: a
reference for quantised files is computed without quantising activations. The models of tests/data also run with few experts
in memory, and in small chunks beside each other: not one byte of the result may differ.
"""
import json
import re
import tempfile
import unittest
from pathlib import Path

import families
import parity

TIE = 1e-6  # two experts with weights this close may stand in either order
STREAMED = ("--expert-memory", "25%", "--heat-file", "off")
BATCHED = ("--parallel", "2", "--prefill-chunk", "7")


class ParityTest(unittest.TestCase):
    def check(self, model):
        self.assertTrue(model.path.exists(), model.path)
        expected = parity.read_safetensors(model.expected)
        prompts = parity.prompts_of(expected)
        self.assertGreaterEqual(len(prompts), 2)
        n_greedy = max(t.shape[0] for name, t in expected.items() if name.endswith(".greedy_ids"))

        def run(*flags):
            return parity.run_logits(model.path, list(prompts.values()), n_greedy, "--activations", "float", *flags)
        reference = run()
        out = parity.parse_logits(reference)
        for index, (prefix, ids) in enumerate(prompts.items()):
            with self.subTest(prompt=prefix):
                self.check_logits(out[f"logits.{index}"], expected[f"{prefix}.logits"], len(ids), model.logits_tolerance)
                if model.routing:
                    self.check_routing(out, index, expected, prefix, model)
                self.assertEqual(expected[f"{prefix}.greedy_ids"].values, out[f"greedy.{index}"].values)
        if not model.shared:
            for flags in (STREAMED, BATCHED):
                with self.subTest(flags=flags):
                    self.assertEqual(reference, run(*flags))

    def check_eight_bits(self, model):
        """With 8-bit activations a single logit may be far off (an expert flips); the mean may not."""
        expected = parity.read_safetensors(model.expected)
        prompts = parity.prompts_of(expected)
        out = parity.parse_logits(parity.run_logits(model.path, list(prompts.values()), 1))
        for index, prefix in enumerate(prompts):
            actual, want = out[f"logits.{index}"].values, expected[f"{prefix}.logits"].values
            mean = sum(abs(a - b) for a, b in zip(actual, want, strict=True)) / len(want)
            self.assertLess(mean, model.mean_tolerance, prefix)  # NaN is not less
            self.assertGreater(mean, 0)

    def check_logits(self, actual, expected, n_rows, tolerance):
        self.assertEqual([n_rows, expected.shape[1]], actual.shape)
        wrong = [(a, b) for a, b in zip(actual.values, expected.values) if not abs(a - b) < tolerance]  # NaN is wrong
        self.assertEqual([], wrong[:5], f"{len(wrong)} of {len(expected.values)} logits")

    def check_routing(self, out, index, expected, prefix, model):
        layers = {name.split(".")[2] for name in expected if name.startswith(f"{prefix}.moe.") and name.endswith(".ids")}
        self.assertEqual(layers, {name.split(".")[2] for name in out if name.startswith(f"router.{index}.")})
        for layer in layers:
            want_ids, want = expected[f"{prefix}.moe.{layer}.ids"], expected[f"{prefix}.moe.{layer}.weights"]
            got_ids, got = out[f"router.{index}.{layer}.ids"], out[f"router.{index}.{layer}.weights"]
            self.assertEqual(want_ids.shape, got_ids.shape)
            for row in range(want_ids.shape[0]):
                wanted = dict(zip(want_ids.row(row), want.row(row)))
                actual = dict(zip(got_ids.row(row), got.row(row)))
                self.assertEqual(wanted.keys(), actual.keys(), f"layer {layer}, row {row}")
                for expert, weight in wanted.items():
                    self.assertAlmostEqual(weight, actual[expert], delta=model.weight_tolerance)
                if model.family in families.CHOSEN_BY_WEIGHT:
                    weights = got.row(row)
                    self.assertTrue(all(a >= b - TIE for a, b in zip(weights, weights[1:])), "sorted by weight")

    def check_refused(self, model):
        with self.assertRaises(AssertionError) as refusal:
            parity.run_logits(model.path, [[1]], 1)
        self.assertIn("has no forward pass", str(refusal.exception))


class FamiliesTest(unittest.TestCase):
    def refusal_of(self, name):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps({"model_type": name}))
            (Path(folder) / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
            with self.assertRaises(AssertionError) as refusal:
                parity.run_logits(folder, [[1]], 1)
        return str(refusal.exception)

    def test_every_family_of_the_program_has_a_checkpoint_in_the_test_data(self):
        message = self.refusal_of("qwen7_moe")
        self.assertIn("nearest is \"qwen", message)
        supported = set(re.search(r"supported: (.*)$", message, re.M).group(1).split(", "))
        proved = {model.family for model in families.data_checkpoints()} - set(families.PENDING)
        self.assertEqual(supported, proved)

    def test_the_table_in_the_documentation_is_that_of_the_list(self):
        text = families.DOCUMENT.read_text()
        self.assertEqual(families.document_with(text), text, "run tests/families.py --write")

    @unittest.skipUnless(parity.SHARED.is_dir(), "../shared is not there")
    def test_the_list_has_every_model_of_the_oracle(self):
        oracle = parity.SHARED / "oracle"
        there = {folder for folder in (oracle / "checkpoints").iterdir()} | set((oracle / "gguf").glob("*.gguf"))
        self.assertEqual(there, {model.path for model in families.models() if model.shared})


def add_test(name, check, model):
    def test(self):
        if model.shared and not parity.SHARED.is_dir():
            self.skipTest("../shared is not there")
        check(self, model)
    setattr(ParityTest, f"test_{name}", test)


for listed in families.models():
    if listed.pending:
        add_test(f"{listed.name}_is_refused", ParityTest.check_refused, listed)
        continue
    add_test(listed.name, ParityTest.check, listed)
    if listed.shared and listed.gguf and listed.quantised:
        add_test(f"{listed.name}_with_8_bit_activations", ParityTest.check_eight_bits, listed)

if __name__ == "__main__":
    unittest.main()
