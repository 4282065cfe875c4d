"""colibri run --trace, and the tools that read what it writes."""
import json
import struct
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import parity
from cli.harness import BIN, DEMO, CliTest

PROMPT, N_ANSWER = "Once upon a time there was a dog", 12
REPLAY = Path(BIN).with_name("colibri-replay")
PLOT = parity.ROOT / "tools" / "plot_replay.py"


class TraceTest(CliTest):
    def trace(self, *flags, name="trace"):
        """(prompt and answer, the header, the other lines)"""
        path = self.folder / name
        answer = json.loads(self.run_ok("run", DEMO, "-p", PROMPT, "-n", N_ANSWER, "--seed", 3, "--json", "--trace", path, *flags))
        prompt = [int(token) for token in self.run_ok("tokenize", DEMO, input=PROMPT).split()]
        header, *lines = [json.loads(line) for line in path.read_text().splitlines()]
        return prompt, answer["tokens"], header, lines

    def test_the_header_describes_the_model(self):
        _, _, header, _ = self.trace()
        self.assertEqual({"format": "colibri-trace", "version": 1, "model": str(DEMO), "layers": [0, 1, 2, 3], "experts": 32, "top_k": 4}, header)

    def test_every_token_computed_is_there_once_per_layer_in_order(self):
        prompt, answer, header, lines = self.trace("--prefill-chunk", 3)
        expected = []
        steps = [range(at, min(at + 3, len(prompt))) for at in range(0, len(prompt), 3)]
        steps += [[len(prompt) + i] for i in range(len(answer) - 1)]  # the last token is not computed any more
        for step, positions in enumerate(steps):
            expected += [(step, layer, position) for layer in header["layers"] for position in positions]
        self.assertEqual(expected, [(line["step"], line["layer"], line["position"]) for line in lines])

    def test_it_is_the_routing_that_logits_reports(self):
        prompt, answer, header, lines = self.trace()
        tokens = self.write("tokens.json", json.dumps({"prompts": [prompt + answer]}))
        self.run_ok("logits", DEMO, "--tokens", tokens, "--out", self.folder / "logits")
        tensors = parity.read_safetensors(self.folder / "logits")
        for line in lines:
            name = f"router.0.{line['layer']}."
            self.assertEqual(list(tensors[name + "ids"].row(line["position"])), line["experts"])
            weights = [struct.unpack("<f", struct.pack("<f", weight))[0] for weight in line["weights"]]
            self.assertEqual(list(tensors[name + "weights"].row(line["position"])), weights, "no digit is lost")

    def test_tracing_does_not_change_the_text(self):
        _, answer, _, _ = self.trace()
        plain = json.loads(self.run_ok("run", DEMO, "-p", PROMPT, "-n", N_ANSWER, "--seed", 3, "--json"))
        self.assertEqual(plain["tokens"], answer)

    def test_a_full_disk_is_an_error_and_not_an_empty_trace(self):
        self.assert_fails(5, "run", DEMO, "-p", PROMPT, "-n", 4, "--trace", "/dev/full", names=("/dev/full", "space"))
        self.assert_fails(5, "run", DEMO, "-p", PROMPT, "-n", 200, "--ignore-eos", "--trace", "/dev/full", names=("/dev/full",))
        self.assert_fails(5, "run", DEMO, "-p", PROMPT, "-n", 4, "--trace", self.folder / "missing" / "trace", names=("missing",))

    def replay(self, *args):
        done = subprocess.run([REPLAY, *map(str, args)], capture_output=True, text=True, timeout=60)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout

    def test_replay_reads_it_and_the_plot_draws_it(self):
        self.trace()
        path = self.folder / "trace"
        table = self.replay(path)
        self.assertEqual(3, table.count("belady"), "all steps, decoding, and after prompts")
        answer = self.replay("--json", "--capacity", "25,100", path, path)
        results = {(r["policy"], r["capacity_percent"]): r["all"] for r in json.loads(answer)["results"]}
        self.assertEqual({"lru", "lfu", "auto", "belady"}, {policy for policy, _ in results})
        for policy in ("lru", "lfu", "auto"):
            self.assertLessEqual(results[policy, 25]["hits"], results["belady", 25]["hits"])
            self.assertEqual(results["belady", 100], results[policy, 100])
        picture = subprocess.run([sys.executable, PLOT], input=answer, capture_output=True, text=True, check=True).stdout
        lines = [element for element in xml.etree.ElementTree.fromstring(picture).iter() if element.tag.endswith("polyline")]
        self.assertEqual(4, len(lines))

    def test_replay_names_the_line_that_is_damaged(self):
        self.trace()
        text = (self.folder / "trace").read_text()
        cut = self.write("cut", text[:len(text) // 2 - 1])
        done = subprocess.run([REPLAY, cut], capture_output=True, text=True)
        self.assertEqual(3, done.returncode)
        self.assertIn(f"{cut}: line ", done.stderr)


if __name__ == "__main__":
    unittest.main()
