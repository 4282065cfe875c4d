"""Commands, names of the program, the model argument, and mistakes on the command line."""
import json
import resource
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.harness import BIN, DEMO, CliTest, colibri, without_progress

COMMANDS = ("run", "chat", "serve", "tokenize", "detokenize", "template", "logits", "perplexity", "bench", "plan", "inspect", "validate",
            "doctor", "test", "config", "version")


class UsageTest(CliTest):
    def test_help_lists_what_is_there_and_nothing_else(self):
        text = self.run_ok("help").decode()
        self.assertEqual(text, self.run_ok("--help").decode())
        listed = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
        self.assertEqual(list(COMMANDS), listed)

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            with self.subTest(command):
                text = self.run_ok(command, "--help").decode()
                self.assertEqual(text, self.run_ok("help", command).decode())
                self.assertIn(f"Usage: colibri {command}", text)

    def test_version(self):
        self.assertRegex(self.run_ok("--version").decode(), r"^colibri \d+\.\d+\.\d+\n$")
        self.assertEqual(["version"], list(json.loads(self.run_ok("version", "--json"))))

    def test_later_commands_say_that_they_are_not_there_yet(self):
        self.assert_fails(2, "convert", DEMO, names=("this version", "convert"))

    def test_mistakes_name_the_nearest(self):
        self.assert_fails(2, "tokenise", names=("tokenize",))
        self.assert_fails(2, "run", DEMO, "--thread", "3", "-p", "x", names=("--thread", "--threads"))
        self.assert_fails(2, "run", DEMO, "-p", "x", env={"COLIBRI_EXPERT_CACHE_POLICE": "lru"},
                          names=("COLIBRI_EXPERT_CACHE_POLICE", "COLIBRI_EXPERT_CACHE_POLICY"))

    def test_no_command_and_no_model_say_what_to_do(self):
        self.assert_fails(2, names=("colibri help",))
        for command in ("run", "chat", "serve", "tokenize", "detokenize", "template", "perplexity", "bench", "plan", "inspect", "validate"):
            with self.subTest(command):
                self.assert_fails(2, command, names=("--model", "COLIBRI_MODEL"))

    def test_a_model_is_an_argument_an_option_or_a_variable(self):
        expected = self.run_ok("tokenize", DEMO, input="a cat")
        self.assertEqual(expected, self.run_ok("tokenize", "--model", DEMO, input="a cat"))
        self.assertEqual(expected, self.run_ok("tokenize", input="a cat", env={"COLIBRI_MODEL": DEMO}))
        self.assertEqual(expected, self.run_ok("tokenize", DEMO, input="a cat", env={"COLIBRI_MODEL": "/nowhere"}))

    def test_a_missing_model_is_exit_3_with_its_name(self):
        for command in (("run", "-p", "x"), ("tokenize",), ("inspect",), ("validate",), ("bench",)):
            self.assert_fails(3, command[0], "/nowhere/model.gguf", *command[1:], input="", names=("/nowhere/model.gguf",))

    def test_other_names_of_the_program(self):
        folder = Path(BIN).parent
        text = self.run_ok("run", DEMO, "-p", "Once upon", "-n", 4, "--temperature", 0)
        self.assertEqual(text, self.run_ok("--model", DEMO, "--prompt", "Once upon", "-n", 4, "--temperature", 0,
                                           program=folder / "colibri-cli"))
        self.assert_fails(2, "--model", DEMO, "--port", 80800, program=folder / "colibri-server", names=("--port", "80800"))
        for name in ("colibri", "colibri-cli", "colibri-server"):
            self.assertIn(b"ok", self.run_ok("--validate-tokenizer", "--model", DEMO, program=folder / name))
            self.assertIn(b"ok", self.run_ok("--model", DEMO, "--validate", program=folder / name))

    def test_numbers_say_what_is_expected_and_stay_short(self):
        self.assert_fails(2, "run", DEMO, "-p", "x", "-n", "-4", names=("--max-tokens", '"-4"', "expected 0 to 1073741824"))
        self.assert_fails(2, "bench", DEMO, "-r", "1.5", names=("--repetitions", "expected 1 to 1073741824"))
        self.assert_fails(2, "run", DEMO, "-p", "x", "--seed", "-1", names=("--seed", "expected 0 to 18446744073709551615"))
        for text in ("9" * 500, "1e300"):
            line = self.assert_fails(2, "run", DEMO, "-p", "x", "--top-k", text, names=("--top-k", "expected"))
            self.assertLess(len(line), 160)

    def test_an_option_given_twice_is_said_plainly(self):
        self.assert_fails(2, "run", DEMO, "-p", "x", "--threads", 1, "--threads", 2, names=("--threads: given twice",))
        self.assert_fails(2, "run", DEMO, "-p", "x", "-p", "y", "-p", "z", names=("--prompt: given 3 times",))

    def test_empty_file_names_are_refused(self):
        for flags in (("--stats", ""), ("--config", ""), ("-f", "")):
            self.assert_fails(2, "run", DEMO, *flags, names=("is empty",))

    def test_little_memory_is_no_crash(self):
        """Commands that compute nothing start no thread; the others say what they lack."""
        little = {resource.RLIMIT_AS: 20 << 20}
        done = colibri("version", limits=little)
        if done.returncode == 127:
            self.skipTest("the dynamic linker needs more")
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        for megabytes in (20, 40, 80):
            done = colibri("run", DEMO, "-p", "x", "-n", 1, limits={resource.RLIMIT_AS: megabytes << 20})
            self.assertIn(done.returncode, (0, 4), done.stderr)
            self.assertLessEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_a_closed_standard_output_is_no_crash(self):
        """A model file must not get descriptor 1 and be written to."""
        done = colibri("-c", '"$0" run "$1" -p x -n 2 >&-', BIN, DEMO, program="/bin/sh")
        self.assertEqual((0, b""), (done.returncode, without_progress(done.stderr)))


if __name__ == "__main__":
    unittest.main()
