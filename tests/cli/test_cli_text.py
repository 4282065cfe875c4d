"""colibri tokenize, detokenize, template: plain and line by line."""
import json
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.harness import BIN, DEMO, TOKENIZER, CliTest, clean_environment, colibri

FILES = Path(__file__).resolve().parents[1] / "data" / "tokenizer_files"
TEXTS = ["Hello, world!", "", " leading and trailing ", "line\nfeeds\r\n\n", "\t tabs \u00a0", "h\u00e9llo \u4f60\u597d \U0001f426", "\u2028\u0085 separators",
         "nul \0 byte", "<|im_start|>user\nHi<|im_end|>", "x" * 5000, "\"quotes\" and \\ backslashes"]
CHAT = {"messages": [{"role": "user", "content": "Hi\nthere"}], "add_generation_prompt": True}


def lines(values, **kwargs):
    return "".join(json.dumps(value, **kwargs) + "\n" for value in values)


class TokenizeTest(CliTest):
    def test_ids_and_text_are_each_others_inverse(self):
        for model in (DEMO, TOKENIZER):
            ids = self.run_ok("tokenize", model, input="Once upon a time\n")
            self.assertRegex(ids.decode(), r"^\d+( \d+)*\n$")
            self.assertEqual(b"Once upon a time\n", self.run_ok("detokenize", model, input=ids))

    def test_a_folder_needs_no_tokenizer_json(self):
        for name in ("bpe", "tiktoken", "tekken"):
            ids = self.run_ok("tokenize", FILES / name, input="Once upon a time\n")
            self.assertEqual(b"Once upon a time\n", self.run_ok("detokenize", FILES / name, input=ids))
        self.assert_fails(3, "tokenize", FILES, input="x", names=("tokenizer_files",))

    def test_one_line_per_value_both_ways(self):
        for model in (DEMO, TOKENIZER):
            for ascii in (True, False):
                ids = self.run_ok("tokenize", model, "--jsonl", input=lines(TEXTS, ensure_ascii=ascii))
                self.assertEqual(len(TEXTS), ids.count(b"\n"))
                for text, line in zip(TEXTS, ids.split(b"\n")):
                    self.assertEqual(json.loads(line), [int(i) for i in self.run_ok("tokenize", model, input=text).split()])
                back = self.run_ok("detokenize", model, "--jsonl", input=ids)
                self.assertEqual(len(TEXTS), back.count(b"\n"))
                self.assertEqual(TEXTS, [json.loads(line) for line in back.decode().split("\n")[:-1]])

    def test_the_last_line_feed_may_be_missing(self):
        self.assertEqual(self.run_ok("tokenize", DEMO, "--jsonl", input='"a"\n"b"\n'), self.run_ok("tokenize", DEMO, "--jsonl", input='"a"\n"b"'))
        self.assertEqual(b"", self.run_ok("tokenize", DEMO, "--jsonl", input=""))

    def test_answers_come_while_the_input_is_still_open(self):
        process = subprocess.Popen([BIN, "tokenize", str(DEMO), "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=clean_environment(), bufsize=0)
        for text in ("a cat", "a dog"):
            process.stdin.write(lines([text]).encode())
            self.assertIsInstance(json.loads(process.stdout.readline()), list)
        process.stdin.close()
        self.assertEqual(0, process.wait(timeout=20))
        process.stdout.close()

    def test_special_tokens_in_the_text_are_recognised(self):
        self.assertEqual(1, len(self.run_ok("tokenize", DEMO, input="<|im_end|>").split()))

    def test_bad_lines_are_named(self):
        for command, line in (("tokenize", "[1]"), ("tokenize", "x"), ("tokenize", '"\\ud800"'), ("tokenize", ""), ("detokenize", '"a"'),
                              ("detokenize", "[1.5]"), ("detokenize", "[99999999999]"), ("detokenize", '{"a": 1}')):
            good = '"a"' if command == "tokenize" else "[1]"
            with self.subTest(line):
                done = colibri(command, DEMO, "--jsonl", input=f"{good}\n{line}\n{good}\n")
                self.assertEqual(2, done.returncode)
                self.assertIn(b"line 2", done.stderr)
                self.assertEqual(1, done.stdout.count(b"\n"))

    def test_what_is_no_id_is_named(self):
        self.assert_fails(2, "detokenize", DEMO, input="12 cat 14", names=("cat",))

    def test_a_folder_with_a_broken_tokenizer_is_exit_3(self):
        self.write("tokenizer.json", '{"model": ')
        self.assert_fails(3, "tokenize", self.folder, input="x", names=("tokenizer.json",))


class TemplateTest(CliTest):
    def test_messages_become_the_prompt(self):
        text = self.run_ok("template", DEMO, input=json.dumps(CHAT)).decode()
        self.assertEqual("<|im_start|>user\nHi\nthere<|im_end|>\n<|im_start|>assistant\n", text)
        line = self.run_ok("template", DEMO, "--jsonl", input=lines([CHAT, CHAT])).decode()
        self.assertEqual([text, text], [json.loads(part) for part in line.splitlines()])

    def test_a_bare_template_needs_no_model(self):
        template = self.write("t.jinja", "{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}{{ strftime_now('%Y-%m-%d %H:%M:%S') }}")
        text = self.run_ok("template", "--template", template, "--now", "2026-02-03T04:05:06", input=json.dumps(CHAT))
        self.assertEqual(b"[user: Hi\nthere]2026-02-03 04:05:06", text)

    def test_a_refusal_leaves_the_other_lines_alone(self):
        template = self.write("t.jinja", "{% if messages[0].role == 'user' %}yes{% else %}{{ raise_exception('only users') }}{% endif %}")
        bad = {"messages": [{"role": "robot", "content": "x"}]}
        done = colibri("template", "--template", template, "--jsonl", input=lines([CHAT, bad, CHAT]))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(["yes", "yes"], [answers[0], answers[2]])
        self.assertIn("only users", answers[1]["error"])
        self.assertEqual(2, done.returncode)
        self.assertIn(b"line 2", done.stderr)
        self.assert_fails(2, "template", "--template", template, input=json.dumps(bad), names=("only users",))

    def test_what_is_no_conversation_is_refused(self):
        for text in ("", "x", "[]", "{}", '{"messages": 1}', '{"messages": [], "messages": []}', "[" * 5000):
            with self.subTest(text[:20]):
                self.assert_fails(2, "template", DEMO, input=text)

    def test_a_signal_before_the_end_of_the_input_counts(self):
        """A shell stops a whole pipeline at once: the input ends together with the signal."""
        for command in ("tokenize", "detokenize", "template", "chat", "run", "perplexity"):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(command=command, signal=number):
                    process = self.start(command, DEMO, stdin=subprocess.PIPE)
                    time.sleep(0.3)
                    process.send_signal(number)
                    process.stdin.close()
                    self.assertEqual(128 + number, process.wait(timeout=20))
                    self.assertEqual(b"", process.stdout.read())

    def test_a_missing_or_broken_template_file_is_named(self):
        self.assertIn("/nowhere/t.jinja", colibri("template", "--template", "/nowhere/t.jinja", input="{}").stderr.decode())
        broken = self.write("broken.jinja", "{% if %}")
        self.assert_fails(3, "template", "--template", broken, input=json.dumps(CHAT), names=("broken.jinja",))


if __name__ == "__main__":
    unittest.main()
