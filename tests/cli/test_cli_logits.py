"""colibri logits: the file it writes, and that no half file stays behind."""
import json
import os
import resource
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import parity
from cli.harness import BARE, BIN, CHECKPOINT, DEMO, CliTest, clean_environment, header_of, without_progress

PROMPTS = [[5, 9, 200, 31, 7, 7, 44], [8], [383, 0, 1]]


class LogitsTest(CliTest):
    def tokens(self, prompts):
        return self.write("tokens.json", json.dumps({"prompts": prompts}))

    def logits(self, prompts, *flags, model=CHECKPOINT):
        out = self.folder / "any name"
        self.assertEqual(b"", self.run_ok("logits", model, "--tokens", self.tokens(prompts), "--out", out, *flags))
        return out

    def test_names_types_and_shapes(self):
        tensors = parity.read_safetensors(self.logits(PROMPTS, "--continue", 5))
        config = json.loads((CHECKPOINT / "config.json").read_text())
        vocab, layers, k = config["vocab_size"], config["num_hidden_layers"], config["num_experts_per_tok"]
        expected = {}
        for i, prompt in enumerate(PROMPTS):
            expected[f"logits.{i}"] = [len(prompt), vocab]
            expected[f"greedy.{i}"] = [5]
            for layer in range(layers):
                expected[f"router.{i}.{layer}.ids"] = expected[f"router.{i}.{layer}.weights"] = [len(prompt), k]
        self.assertEqual(expected, {name: tensor.shape for name, tensor in tensors.items()})

    def test_greedy_follows_the_logits(self):
        tensors = parity.read_safetensors(self.logits([[5, 9, 200]], "--continue", 4))
        greedy = list(tensors["greedy.0"].values)
        again = parity.read_safetensors(self.logits([[5, 9, 200] + greedy]))
        best = [max(range(384), key=again["logits.0"].row(row).__getitem__) for row in range(2, 6)]
        self.assertEqual(greedy, best)

    def test_an_end_of_text_token_does_not_stop_it(self):
        """The demo model ends its answers soon; all ids asked for must be there."""
        ids = [int(i) for i in self.run_ok("tokenize", DEMO, input="<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n").split()]
        end = int(self.run_ok("tokenize", DEMO, input="<|im_end|>"))
        greedy = list(parity.read_safetensors(self.logits([ids], "--continue", 40, model=DEMO))["greedy.0"].values)
        self.assertEqual(40, len(greedy))
        self.assertIn(end, greedy[:-1])

    def test_experts_are_ordered_and_within_range(self):
        tensors = parity.read_safetensors(self.logits(PROMPTS))
        for name, tensor in tensors.items():
            for row in range(tensor.shape[0]):
                values = list(tensor.row(row))
                if name.endswith(".weights"):
                    self.assertEqual(sorted(values, reverse=True), values)
                if name.endswith(".ids"):
                    self.assertEqual(len(values), len(set(values)))
                    self.assertTrue(all(0 <= value < 8 for value in values))

    def test_the_file_is_plain_safetensors(self):
        path = self.logits(PROMPTS, "--continue", 3)
        length, text = header_of(path)
        header = json.loads(text)
        self.assertEqual(0, length % 8)
        self.assertEqual(sorted(header), list(header))
        spans = sorted(entry["data_offsets"] for entry in header.values())
        self.assertEqual(0, spans[0][0])
        self.assertTrue(all(a[1] == b[0] for a, b in zip(spans, spans[1:])), "no gaps, no overlaps")
        self.assertEqual(path.stat().st_size, 8 + length + spans[-1][1])

    def test_two_runs_are_equal_byte_by_byte_whatever_the_speed_settings(self):
        reference = self.logits(PROMPTS, "--continue", 6).read_bytes()
        for flags in ((), ("--threads", 1), ("--isa", "scalar"), ("--prefill-chunk", 2), ("--context", 64)):
            with self.subTest(flags):
                self.assertEqual(reference, self.logits(PROMPTS, "--continue", 6, *flags).read_bytes())

    def test_bad_prompts_are_named_by_their_index_and_leave_no_file(self):
        out = self.folder / "out"
        for prompts, name in (([[1], []], "prompt 1"), ([[1], [2], [384]], "prompt 2"), ([[-1]], "prompt 0"), ([[1.5]], "prompt 0"),
                              ([["1"]], "prompt 0"), ([1], "prompt 0"), ([], "prompts"), ({}, "prompts"), ([[2**40]], "prompt 0")):
            with self.subTest(prompts):
                self.assert_fails(2, "logits", CHECKPOINT, "--tokens", self.tokens(prompts), "--out", out, names=("tokens.json", name))
                self.assertEqual(["tokens.json"], [path.name for path in self.folder.iterdir()])

    def test_bad_files_are_named(self):
        for text in ("", "[[1]]", '{"prompt": [[1]]}', '{"prompts": [[1]], "prompts": [[2]]}', '{"prompts": [[1,]]}'):
            with self.subTest(text):
                path = self.write("tokens.json", text)
                self.assert_fails(2, "logits", CHECKPOINT, "--tokens", path, "--out", self.folder / "out", names=(path,))

    def test_a_prompt_longer_than_the_context_is_named_and_leaves_no_file(self):
        self.assert_fails(2, "logits", CHECKPOINT, "--tokens", self.tokens([[1], [2] * 9]), "--out", self.folder / "out", "--context", 8,
                          names=("prompt 1", "8", "9"))
        self.assertEqual(["tokens.json"], [path.name for path in self.folder.iterdir()])

    def test_room_for_what_follows_is_checked_before_anything_is_loaded(self):
        for prompts, flags, names in (([[1], [2, 3, 4]], ("--continue", 10, "--context", 5), ("prompt 0", "11", "5")),
                                      ([[1], [2, 3, 4]], ("--continue", 3, "--context", 5), ("prompt 1", "6", "5")),
                                      ([[1]], ("--continue", 2048), ("prompt 0", "2049", "2048"))):
            with self.subTest(flags):
                out = self.folder / "out"
                self.assert_fails(2, "logits", DEMO, "--tokens", self.tokens(prompts), "--out", out, "--memory", "1K", *flags, names=names)
                self.assertFalse(out.exists())

    def test_the_context_may_be_filled_exactly(self):
        out = self.logits([[1], [2, 3, 4]], "--continue", 2, "--context", 5)
        self.assertEqual([2], parity.read_safetensors(out)["greedy.1"].shape)

    def test_a_pipe_is_refused_before_the_work(self):
        tokens = self.tokens(PROMPTS)
        self.assert_fails(2, "logits", CHECKPOINT, "--tokens", tokens, "--out", "/dev/stdout", names=("/dev/stdout", "pipe"))
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assert_fails(2, "logits", CHECKPOINT, "--tokens", tokens, "--out", pipe, names=(pipe, "pipe"))
        self.run_ok("logits", CHECKPOINT, "--tokens", tokens, "--out", "/dev/null")

    def test_no_name_is_a_usage_error(self):
        self.assert_fails(2, "logits", CHECKPOINT, "--tokens", self.tokens(PROMPTS), "--out", "", names=("--out", "empty"))

    def test_a_file_beyond_the_limit_is_exit_5_and_leaves_nothing(self):
        tokens, out = self.tokens([list(range(384))]), self.folder / "out"
        self.assert_fails(5, "logits", CHECKPOINT, "--tokens", tokens, "--out", out, limits={resource.RLIMIT_FSIZE: 1024}, names=(out,))
        self.assertEqual(["tokens.json"], [path.name for path in self.folder.iterdir()])

    def test_a_full_disk_is_exit_5(self):
        self.assert_fails(5, "logits", CHECKPOINT, "--tokens", self.tokens(PROMPTS), "--out", "/dev/full", names=("/dev/full",))
        self.assert_fails(5, "logits", CHECKPOINT, "--tokens", self.tokens(PROMPTS), "--out", "/nowhere/out", names=("/nowhere/out",))

    def test_an_old_file_survives_a_failure(self):
        out = self.write("out", "old")
        self.assert_fails(2, "logits", CHECKPOINT, "--tokens", self.tokens([[1], [384]]), "--out", out)
        self.assertEqual("old", out.read_text())

    def test_needs_no_tokenizer(self):
        self.assertFalse((BARE / "tokenizer.json").exists())
        self.assertEqual([2], parity.read_safetensors(self.logits([[1, 2]], "--continue", 2, model=BARE))["greedy.0"].shape)

    def test_a_damaged_tokenizer_does_not_matter(self):
        model = self.copy_of(CHECKPOINT)
        (model / "tokenizer.json").write_text("{")
        self.assertEqual(self.logits([[1, 2]], "--continue", 2).read_bytes(), self.logits([[1, 2]], "--continue", 2, model=model).read_bytes())

    def test_a_signal_stops_a_long_prompt(self):
        tokens, out = self.tokens([[1] * 2048]), self.folder / "out"
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = self.start("logits", DEMO, "--tokens", tokens, "--out", out, "--isa", "scalar", "--threads", 1,
                                     "--prefill-chunk", 2048)
                time.sleep(0.7)
                self.assertIsNone(process.poll(), "the prompt is too short for this test")
                self.assert_stops(process, number, within=10)
                self.assertEqual(["tokens.json"], [path.name for path in self.folder.iterdir()])

    def test_a_signal_leaves_no_half_file(self):
        tokens, out = self.tokens([[1]] * 500), self.folder / "out"
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number):
                process = subprocess.Popen([BIN, "logits", str(DEMO), "--tokens", str(tokens), "--out", str(out), "--continue", "2000"],
                                           env=clean_environment(), stderr=subprocess.PIPE)
                self.addCleanup(process.kill)
                while len(list(self.folder.iterdir())) < 2 and process.poll() is None:
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(status, process.wait(timeout=60))
                self.assertEqual(b"", without_progress(process.stderr.read()))
                process.stderr.close()
                self.assertEqual(["tokens.json"], [path.name for path in self.folder.iterdir()])


if __name__ == "__main__":
    unittest.main()
