"""colibri perplexity and bench."""
import json
import math
import re
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import parity
from cli.harness import CHECKPOINT, DEMO, CliTest, header_of

STORY = "Once upon a time, there was a young girl called Lola. Lola was very kind. Lola had a blue kite. " * 4
IDS = [(7 * i * i + 3 * i) % 384 for i in range(25)]


class PerplexityTest(CliTest):
    def perplexity(self, model, *args, **kwargs):
        return json.loads(self.run_ok("perplexity", model, "--json", *args, **kwargs))

    def expected(self, ids, window, score_from):
        """(perplexity, scored tokens) from the logits that `colibri logits` gives."""
        windows = [ids[begin:begin + window] for begin in range(0, len(ids), window)]
        windows = [part for part in windows if len(part) >= 2]
        tensors = parity.parse_logits(parity.run_logits(CHECKPOINT, windows, 0))
        losses = []
        for i, part in enumerate(windows):
            for position in range(score_from, len(part)):
                row = tensors[f"logits.{i}"].row(position - 1)
                top = max(row)
                losses.append(top + math.log(sum(math.exp(x - top) for x in row)) - row[part[position]])
        return math.exp(sum(losses) / len(losses)), len(losses)

    def test_windows_and_first_scored_position_count_as_documented(self):
        tokens = self.write("ids.json", json.dumps(IDS))
        for window, score_from in ((512, 1), (8, 1), (8, 4), (6, 1), (24, 23)):  # 25 = 4 * 6 + 1: a last window of one token
            with self.subTest(window=window, score_from=score_from):
                report = self.perplexity(CHECKPOINT, "--tokens", tokens, "--window", window, "--score-from", score_from)
                perplexity, scored = self.expected(IDS, window, score_from)
                self.assertEqual(scored, report["scored_tokens"])
                self.assertAlmostEqual(1, report["perplexity"] / perplexity, places=6)

    def test_texts_are_tokenised_without_special_tokens(self):
        text = self.write("story", STORY)
        ids = [int(i) for i in self.run_ok("tokenize", DEMO, input=STORY).split()]
        report = self.perplexity(DEMO, "-f", text)
        self.assertEqual((len(ids), len(ids) - 1), (report["tokens"], report["scored_tokens"]))
        self.assertEqual(report, self.perplexity(DEMO, "--tokens", self.write("ids.json", json.dumps({"prompts": [ids]}))))
        self.assertEqual(report, self.perplexity(DEMO, "-f", "-", input=STORY))
        self.assertEqual(report, self.perplexity(DEMO, input=STORY))
        line = self.run_ok("perplexity", DEMO, "-f", text).decode()
        self.assertIn(f"{report['perplexity']:.4f}", line)
        self.assertIn(str(report["scored_tokens"]), line)

    def test_a_story_is_likelier_than_its_words_backwards(self):
        forwards = self.perplexity(DEMO, "-f", self.write("a", STORY))["perplexity"]
        backwards = self.perplexity(DEMO, "-f", self.write("b", " ".join(reversed(STORY.split()))))["perplexity"]
        self.assertLess(4 * forwards, backwards)

    def test_what_cannot_be_scored_is_refused(self):
        self.assert_fails(2, "perplexity", DEMO, names=("standard input", "too short"))
        self.assert_fails(2, "perplexity", DEMO, "-f", self.folder, names=(self.folder, "folder"))
        self.assert_fails(2, "perplexity", DEMO, "-f", self.write("empty", ""), names=("empty",))
        self.assert_fails(2, "perplexity", DEMO, "--tokens", self.write("one.json", "[1]"), names=("one.json",))
        self.assert_fails(2, "perplexity", DEMO, "-f", "x", "--score-from", 512, names=("--score-from",))
        self.assert_fails(2, "perplexity", DEMO, "-f", "/nowhere/text", names=("/nowhere/text",))
        self.assert_fails(2, "perplexity", CHECKPOINT, "--tokens", self.write("ids.json", "[1, 2, 384]"), names=("384",))

    def test_mistakes_are_found_before_anything_is_loaded(self):
        ids = self.write("ids.json", json.dumps(IDS))
        self.assert_fails(2, "perplexity", CHECKPOINT, "--tokens", ids, "--context", 8, "--memory", "1K", names=("ids.json", "25", "8"))
        self.assert_fails(2, "perplexity", CHECKPOINT, "--tokens", self.write("bad.json", "[1, 2, 384]"), "--memory", "1K", names=("384",))
        self.assert_fails(2, "perplexity", CHECKPOINT, "--tokens", ids, "--score-from", 25, "--memory", "1K", names=("ids.json", "too short"))

    def test_token_ids_need_no_tokenizer(self):
        model = self.copy_of(CHECKPOINT)
        (model / "tokenizer.json").write_text("{")
        ids = self.write("ids.json", json.dumps(IDS))
        self.assertEqual(self.perplexity(CHECKPOINT, "--tokens", ids), self.perplexity(model, "--tokens", ids))
        self.assert_fails(3, "perplexity", model, input=STORY, names=("tokenizer.json",))

    def test_weights_that_are_no_numbers_are_exit_1_with_advice(self):
        model = self.copy_of(CHECKPOINT)
        path = model / "model.safetensors"
        length, text = header_of(path)
        header = json.loads(text)
        begin, end = header["model.layers.0.self_attn.o_proj.weight"]["data_offsets"]
        with open(path, "r+b") as file:
            file.seek(8 + length + begin)
            file.write(b"\xff" * (end - begin))  # NaN in every float format
        self.assert_fails(1, "perplexity", model, "--tokens", self.write("ids.json", json.dumps(IDS)), names=("colibri validate",))

    def test_a_signal_stops_it(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = self.start("perplexity", DEMO, "--tokens", self.write("ids.json", json.dumps([1] * 2048)), "--window", 2048,
                                     "--isa", "scalar", "--threads", 1, "--prefill-chunk", 2048)
                time.sleep(0.7)
                self.assertIsNone(process.poll(), "the text is too short for this test")
                self.assert_stops(process, number, within=10)

    @unittest.skipUnless((parity.SHARED / "demo-model" / "eval").exists(), "needs ../shared")
    def test_shared_demo_texts_have_their_published_perplexities(self):
        """Float activations against the model card; eight-bit ones may cost a little."""
        for name, published, scored in (("stories", 1.6256, 15029), ("novels", 40.661, 15237)):
            with self.subTest(name):
                report = self.perplexity(DEMO, "-f", parity.SHARED / "demo-model" / "eval" / f"{name}.txt", "--activations", "float")
                self.assertEqual(scored, report["scored_tokens"])
                self.assertAlmostEqual(1, report["perplexity"] / published, places=3)


class BenchTest(CliTest):
    def bench(self, *args):
        return json.loads(self.run_ok("bench", DEMO, "--json", *args))

    def test_one_object_per_repetition_with_what_was_asked_for(self):
        repetitions = self.bench("-p", 16, "-n", 4, "-r", 3)
        self.assertEqual(3, len(repetitions))
        for stats in repetitions:
            self.assertEqual((16, 4), (stats["prefill"]["tokens"], stats["decode"]["tokens"]))
            for phase in ("prefill", "decode"):
                self.assertGreater(stats[phase]["seconds"], 0)
                self.assertAlmostEqual(stats[phase]["tokens"] / stats[phase]["seconds"], stats[phase]["tokens_per_second"], places=3)
            gaps = stats["decode"]["inter_token_seconds"]
            self.assertTrue(0 < gaps["p50"] <= gaps["p90"] <= gaps["p99"] <= gaps["max"])

    def test_a_phase_may_be_left_out(self):
        (stats,) = self.bench("-p", 8, "-n", 0, "-r", 1)
        self.assertEqual((8, 0), (stats["prefill"]["tokens"], stats["decode"]["tokens"]))
        (stats,) = self.bench("-p", 0, "-n", 4, "-r", 1)
        self.assertEqual((0, 4), (stats["prefill"]["tokens"], stats["decode"]["tokens"]))
        self.assert_fails(2, "bench", DEMO, "-p", 0, "-n", 0)

    def test_the_context_may_be_filled_exactly(self):
        (stats,) = self.bench("-p", 2048, "-n", 0, "-r", 1)
        self.assertEqual(2048, stats["prefill"]["tokens"])
        (stats,) = self.bench("-p", 0, "-n", 1, "--depth", 3, "--context", 5, "-r", 1)
        self.assertEqual(1, stats["decode"]["tokens"])

    def test_what_the_context_does_not_hold_is_refused_before_anything_is_loaded(self):
        for flags, names in ((("-p", 999999), ("999999", "2048")), (("-p", 4, "-n", 0, "--context", 3), ("4", "3")),
                             (("--depth", 2047, "-p", 0, "-n", 1), ("2049", "2048")),
                             (("-p", 0, "-n", 1073741824, "--depth", 1073741824), ("2147483649", "2048"))):
            with self.subTest(flags):
                self.assert_fails(2, "bench", DEMO, "--memory", "1K", *flags, names=names)

    def test_needs_no_tokenizer(self):
        model = self.copy_of(CHECKPOINT)
        (model / "tokenizer.json").write_text("{")
        (stats,) = json.loads(self.run_ok("bench", model, "--json", "-p", 8, "-n", 2, "-r", 1))
        self.assertEqual(8, stats["prefill"]["tokens"])

    def test_a_signal_stops_it(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = self.start("bench", DEMO, "-p", 2048, "-n", 0, "--isa", "scalar", "--threads", 1, "--prefill-chunk", 2048)
                time.sleep(0.7)
                self.assert_stops(process, number, within=10)

    def test_decode_starts_at_the_depth(self):
        """What stands before the decoded tokens goes through the experts as well, all of it."""
        def activations(depth):
            (stats,) = self.bench("-p", 0, "-n", 4, "-r", 1, "--depth", depth, "--warmup", 0)
            return sum(stats["activations"][0])
        self.assertEqual(4 * 31, activations(32) - activations(1))

    def test_parallel_sequences_run_together(self):
        (stats,) = self.bench("-p", 8, "-n", 400, "-r", 1, "--parallel", 3)
        self.assertEqual(3 * 8, stats["prefill"]["tokens"])
        self.assertGreater(stats["decode"]["tokens"], 400)

    def test_the_tokens_of_a_text_may_be_used(self):
        (stats,) = self.bench("-p", 16, "-n", 2, "-r", 1, "-f", self.write("story", STORY))
        self.assertEqual(16, stats["prefill"]["tokens"])
        self.assert_fails(2, "bench", DEMO, "-f", self.write("empty", ""), names=("empty",))

    def test_random_tokens_are_the_same_in_every_run(self):
        def activations(*flags):
            return [stats["activations"] for stats in self.bench("-p", 32, "-n", 0, "-r", 2, *flags)]
        self.assertEqual(activations(), activations())
        self.assertNotEqual(activations()[0], activations()[1])
        self.assertNotEqual(activations(), activations("--seed", 5))

    def test_the_table_has_a_row_per_phase(self):
        text = self.run_ok("bench", DEMO, "-p", 8, "-n", 2, "-r", 2, "--depth", 3).decode()
        self.assertRegex(text, re.compile(r"^pp8 +[0-9.]+ ± [0-9.]+$", re.M))
        self.assertRegex(text, re.compile(r"^tg2 @ d3 +[0-9.]+ ± [0-9.]+$", re.M))


if __name__ == "__main__":
    unittest.main()
