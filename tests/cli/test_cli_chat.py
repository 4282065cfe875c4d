"""colibri chat: through a pipe, and on a terminal."""
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.harness import BIN, BARE, DEMO, CliTest, clean_environment

GREEDY = ("--temperature", 0)


class PipeTest(CliTest):
    def chat(self, text, *flags):
        return self.run_ok("chat", DEMO, *GREEDY, *flags, input=text).decode()

    def test_each_line_gets_an_answer(self):
        self.assertEqual("7 + 5 = 12.\nThe capital of France is Paris.\n",
                         self.chat("What is 7 + 5?\n/clear\nWhat is the capital of France?\n"))

    def test_the_conversation_is_remembered_until_cleared(self):
        first = self.chat("Hello!\n")
        self.assertEqual(first + first, self.chat("Hello!\n/clear\nHello!\n"))
        self.assertEqual(first + first, self.chat("Hello!\n/system\nHello!\n"))

    def test_a_line_may_go_on(self):
        self.assertEqual(self.chat("What is\\\n7 + 5?\n").count("\n"), 1)

    def test_commands(self):
        help_text = self.chat("/help\n/exit\nnever read\n")
        for command in ("/help", "/clear", "/system", "/exit"):
            self.assertIn(command, help_text)
        self.assertIn("/help", self.chat("/nonsense\n"))
        self.assertEqual("", self.chat(""))
        self.assertEqual("", self.chat("\n\n"))

    def test_a_model_without_tokenizer_is_refused(self):
        self.assert_fails(3, "chat", BARE, names=("tokenizer",))


class TerminalTest(CliTest):
    """A person at a terminal."""

    def setUp(self):
        super().setUp()
        self.terminal, slave = pty.openpty()
        self.addCleanup(os.close, self.terminal)
        self.process = subprocess.Popen([BIN, "chat", str(DEMO), "--threads", "1", "--ignore-eos", "--seed", "1"], stdin=slave, stdout=slave,
                                        stderr=slave, env=clean_environment(TERM="xterm"), start_new_session=True, close_fds=True,
                                        preexec_fn=lambda: os.set_inheritable(0, True))
        os.close(slave)
        self.addCleanup(self.process.kill)
        self.shown = b""

    def read_until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition(self.shown):
            self.assertGreater(end, time.monotonic(), self.shown)
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.shown += os.read(self.terminal, 65536)

    def type(self, text):
        # The editor prints its prompt around the moment when it takes over the terminal; what is typed just before is the
        # kernel's, for whom Ctrl-D means something else.
        end = time.monotonic() + 60
        while termios.tcgetattr(self.terminal)[3] & termios.ICANON:
            self.assertGreater(end, time.monotonic())
            time.sleep(0.01)
        self.shown = b""
        os.write(self.terminal, text)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def test_interrupt_stops_the_answer_and_the_second_ends(self):
        self.read_until(lambda shown: b"> " in shown)
        self.type(b"Tell me a story about a dog.\n")
        self.read_until(lambda shown: len(shown) > 200)
        self.interrupt()
        self.read_until(lambda shown: shown.rstrip(b"\x1b[K").endswith(b"> "))
        self.type(b"/help\n")  # it goes on
        self.read_until(lambda shown: b"/clear" in shown and shown.endswith(b"> "))
        self.interrupt()
        self.assertEqual(130, self.process.wait(timeout=30))

    def test_end_of_input_ends_it(self):
        self.read_until(lambda shown: b"> " in shown)
        self.type(b"\x04")
        self.assertEqual(0, self.process.wait(timeout=30))


if __name__ == "__main__":
    unittest.main()
