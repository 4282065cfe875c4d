"""colibri run: what it prints, what it writes, and how it ends."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.harness import BIN, BARE, DEMO, CliTest, clean_environment, without_progress

GREEDY = ("--temperature", 0)
STATS_KEYS = ["model", "prompt_tokens", "generated_tokens", "finish_reason", "load_seconds", "time_to_first_token_seconds", "prefill",
              "decode", "activations", "store", "memory", "isa", "threads", "io"]
EXPERT_KEYS = ["hits", "misses", "hit_rate", "bytes_read", "bytes_per_token", "wait_seconds"]


class RunTest(CliTest):
    def test_a_prompt_is_text_a_file_or_standard_input(self):
        text = self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 12, *GREEDY)
        self.assertTrue(text.startswith(b", there was a"), text)
        prompt = self.write("prompt", "Once upon a time")
        self.assertEqual(text, self.run_ok("run", DEMO, "-f", prompt, "-n", 12, *GREEDY))
        self.assertEqual(text, self.run_ok("run", DEMO, "-n", 12, *GREEDY, input="Once upon a time"))
        self.assertEqual(text, self.run_ok("run", DEMO, "-f", "-", "-n", 12, *GREEDY, input="Once upon a time"))
        self.assert_fails(2, "run", DEMO, "-p", "x", "-f", prompt)

    def test_chat_applies_the_template_and_stops_by_itself(self):
        text = self.run_ok("run", DEMO, "--chat", "-p", "What is 7 + 5?", *GREEDY)
        self.assertEqual(b"7 + 5 = 12.", text.strip())

    def test_a_system_message_reaches_the_template(self):
        def prompt_tokens(*flags):
            return json.loads(self.run_ok("run", DEMO, "--chat", "-p", "Hello", "-n", 1, "--json", *flags))["stats"]["prompt_tokens"]
        self.assertGreater(prompt_tokens("--system", "You are a poet."), prompt_tokens())

    def test_same_seed_same_text_other_seed_other_text(self):
        def text(seed):
            return self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 40, "--temperature", 1.5, "--seed", seed)
        self.assertEqual(text(1), text(1))
        self.assertGreater(len({text(seed) for seed in (1, 2, 3)}), 1)

    def test_without_a_seed_texts_differ(self):
        texts = {self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 40, "--temperature", 2) for _ in range(4)}
        self.assertGreater(len(texts), 1)

    def test_speed_settings_do_not_change_the_text(self):
        def text(*flags):
            return self.run_ok("run", DEMO, "-p", "Once upon a time there was a dog", "-n", 20, "--seed", 7, *flags)
        expected = text()
        for flags in (("--threads", 1), ("--isa", "scalar"), ("--prefill-chunk", 2), ("--parallel", 3)):
            with self.subTest(flags):
                self.assertEqual(expected, text(*flags))

    def test_stop_text_is_not_printed(self):
        text = self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 60, *GREEDY)
        head, stop, _ = text.partition(b"young")
        self.assertEqual(b"young", stop)
        self.assertEqual(head, self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 60, *GREEDY, "--stop", "zzz", "--stop", "young"))

    def test_logit_bias_forbids_a_token(self):
        first = json.loads(self.run_ok("run", DEMO, "-p", "Once", "-n", 1, *GREEDY, "--json"))["tokens"][0]
        other = json.loads(self.run_ok("run", DEMO, "-p", "Once", "-n", 1, "--top-k", 1, "--logit-bias", f"{first}=-100", "--json"))
        self.assertNotEqual(first, other["tokens"][0])
        self.assert_fails(2, "run", DEMO, "-p", "x", "--logit-bias", "many", names=("--logit-bias",))

    def test_json_is_one_object(self):
        answer = json.loads(self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 5, *GREEDY, "--json"))
        self.assertEqual(["text", "tokens", "finish_reason", "stats"], list(answer))
        self.assertEqual((5, "length"), (len(answer["tokens"]), answer["finish_reason"]))
        self.assertEqual(answer["text"].encode(), self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 5, *GREEDY))

    def test_statistics_have_the_documented_form(self):
        path = self.folder / "stats.json"
        self.run_ok("run", DEMO, "-p", "Once upon a time", "-n", 8, *GREEDY, "--stats", path)
        stats = json.loads(path.read_text())
        self.assertEqual(STATS_KEYS, list(stats))
        self.assertEqual((str(DEMO), 4, 8, "length"), tuple(stats[key] for key in STATS_KEYS[:4]))
        self.assertEqual(["tokens", "seconds", "tokens_per_second", "experts"], list(stats["prefill"]))
        self.assertEqual(["tokens", "seconds", "tokens_per_second", "inter_token_seconds", "experts", "steps"], list(stats["decode"]))
        self.assertEqual(["p50", "p90", "p99", "max"], list(stats["decode"]["inter_token_seconds"]))
        for phase in ("prefill", "decode"):
            self.assertEqual(EXPERT_KEYS, list(stats[phase]["experts"]))
        self.assertEqual(["budget_bytes", "planned_bytes", "peak_rss_bytes"], list(stats["memory"]))
        self.assertEqual([32] * 4, [len(layer) for layer in stats["activations"]])
        # Every token but the last sampled one went through each layer's four experts.
        self.assertEqual([4 * (4 + 8 - 1)] * 4, [sum(layer) for layer in stats["activations"]])
        self.assertIn(stats["io"], ("buffered", "direct", "mapped"))

    def test_nothing_is_generated_with_n_0(self):
        self.assertEqual(b"", self.run_ok("run", DEMO, "-p", "Once", "-n", 0))

    def test_prompt_and_answer_may_fill_the_context_exactly(self):
        answer = json.loads(self.run_ok("run", DEMO, "-p", "Once upon a time", "--context", 16, "--ignore-eos", *GREEDY, "--json"))
        self.assertEqual((12, "length"), (len(answer["tokens"]), answer["finish_reason"]))

    def test_a_prompt_longer_than_the_context_is_refused_with_the_numbers(self):
        self.assert_fails(2, "run", DEMO, "-p", "Once upon a time there was a dog", "--context", 4, names=("4", "context"))

    def test_mistakes_are_found_before_anything_is_loaded(self):
        """Memory for nothing does not matter: it is not looked at yet."""
        for flags, names in ((("--top-p", 2), ("top_p", "1")), (("--temperature", -1), ("temperature",)),
                             (("--logit-bias", "4096=1"), ("4096",)), (("--stop", ""), ("stop",)), (("--context", 1), ("1", "context"))):
            with self.subTest(flags):
                self.assert_fails(2, "run", DEMO, "-p", "Once upon a time", "--memory", "1K", *flags, names=names)

    def test_an_empty_prompt_needs_a_token_to_begin_with(self):
        self.assert_fails(2, "run", DEMO, "-p", "", names=("empty",))

    def test_a_model_without_tokenizer_says_so(self):
        self.assert_fails(3, "run", BARE, "-p", "x", names=("tokenizer",))

    def test_unreadable_prompt_files(self):
        self.assert_fails(2, "run", DEMO, "-f", "/nowhere/prompt", names=("/nowhere/prompt",))
        self.assert_fails(2, "run", DEMO, "-f", self.folder, names=(self.folder, "folder"))


class EndTest(CliTest):
    """A full disk, a reader that goes away, signals."""

    def endless(self, *flags):
        return self.start("run", DEMO, "-p", "Once upon a time", "--ignore-eos", "--seed", 1, "--threads", 1, *flags)

    def test_a_full_disk_is_exit_5_with_the_name(self):
        with open("/dev/full", "wb") as full:
            self.assert_fails(5, "run", DEMO, "-p", "Once", "-n", 3, stdout=full, names=("standard output",))
        self.assert_fails(5, "run", DEMO, "-p", "Once", "-n", 3, "--stats", "/dev/full", names=("/dev/full",))

    def test_a_statistics_file_that_cannot_be_made_is_found_out_first(self):
        done = self.assert_fails(5, "run", DEMO, "-p", "Once", "-n", 3, "--stats", "/nowhere/stats.json", names=("/nowhere/stats.json",))
        self.assertNotIn("Once", done)

    def test_a_reader_that_goes_away_ends_the_program_quietly(self):
        process = self.endless()
        process.stdout.read(1)
        process.stdout.close()
        self.assertEqual(0, process.wait(timeout=60))
        self.assertEqual(b"", without_progress(process.stderr.read()))

    def test_signals_stop_the_answer_and_keep_it(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number):
                stats = self.folder / f"{status}.json"
                process = self.endless("--stats", stats)
                text = process.stdout.read(10)
                process.send_signal(number)
                text += process.stdout.read()
                self.assertEqual(status, process.wait(timeout=60))
                self.assertEqual(b"", without_progress(process.stderr.read()))
                self.assertGreaterEqual(len(text), 10)
                self.assertEqual("cancelled", json.loads(stats.read_text())["finish_reason"])

    def test_signals_stop_the_reading_of_a_long_prompt(self):
        """Before the first token there is nothing to print, and nobody wants to wait for it."""
        prompt = self.write("prompt", " the" * 2000)
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = self.start("run", DEMO, "-f", prompt, "-n", 2, "--isa", "scalar", "--threads", 1, "--prefill-chunk", 2048)
                time.sleep(0.7)
                self.assertIsNone(process.poll(), "the prompt is too short for this test")
                self.assert_stops(process, number, within=10)

    def test_a_signal_while_waiting_for_input_ends_at_once(self):
        read_end, write_end = os.pipe()
        try:
            process = subprocess.Popen([BIN, "run", str(DEMO)], stdin=read_end, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=clean_environment())
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(143, process.wait(timeout=20))
        finally:
            os.close(read_end)
            os.close(write_end)


if __name__ == "__main__":
    unittest.main()
