"""colibri run when experts are read while it writes, and the disk is bad: the right text, or an error that says what and where. Never a hang.

The demo model with room for a quarter of its experts, behind tests/io_shim.c. Which expert is wanted when follows from the prompt, so the faults
are laid on the bytes of a layer's experts; loading does not touch them.
"""
import json
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli import io_shim
from cli.harness import DEMO, CliTest, colibri, without_progress

IO_FAILURE = 5
BOTH_WAYS = ("buffered", "direct")  # --io
SLICE = "blk.1.ffn_gate_exps.weight"
RUN = ("run", DEMO, "-p", "Once upon a time", "-n", 40, "--temperature", 0)
STREAM = ("--expert-memory", "25%", "--log-level", "warn")


class FaultsTest(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.text = colibri(*RUN, "--heat-file", "off").stdout
        tensors = json.loads(colibri("inspect", DEMO, "--tensors", "--json").stdout)["tensors"]
        place = next(tensor for tensor in tensors if tensor["name"] == SLICE)
        cls.first, cls.end = place["offset"], place["offset"] + place["bytes"]
        cls.on_slice = f"path={DEMO.name} offset={cls.first}-{cls.end}"

    def streamed(self, *rules, io="buffered", options=("--heat-file", "off"), log=None):
        return colibri(*RUN, *STREAM, "--io", io, *options, env=io_shim.environment(*rules, log=log))

    def assert_text(self, *rules, io="buffered"):
        done = self.streamed(*rules, io=io)
        self.assertEqual((0, self.text, b""), (done.returncode, done.stdout, without_progress(done.stderr)), (rules, io))

    def assert_error(self, *rules, io="buffered", names=(), options=()):
        """An input/output failure, in one line that names expert, file, tensor and place."""
        done = self.streamed(*rules, io=io, options=("--heat-file", "off", *options))
        line = without_progress(done.stderr).decode()
        self.assertEqual((IO_FAILURE, 1), (done.returncode, line.count("\n")), line)
        for name in ("expert ", DEMO.name, "blk.1.", "offset ", *names):
            self.assertIn(name, line)
        offset = int(line.split("offset ")[1].split(":")[0])
        self.assertTrue(self.first <= offset < self.end, line)
        self.assertTrue(self.text.startswith(done.stdout), "what was written before it is right")

    def test_the_text_is_that_of_a_resident_run(self):
        for io in BOTH_WAYS:
            with self.subTest(io=io):
                self.assert_text(io=io)

    def test_the_faults_of_these_tests_meet_reads(self):
        """The slice that they are laid on is read while the text is written, again and again."""
        log = self.folder / "log"
        self.streamed(f"{self.on_slice} log", log=log)
        self.assertGreater(len(io_shim.calls(log)), 2)

    def test_short_and_interrupted_reads_change_nothing(self):
        for rule in ("short=1000", "short=1", "fail=EINTR calls=2-4", "fail=EAGAIN calls=2-4"):
            with self.subTest(rule=rule):
                self.assert_text(f"{self.on_slice} {rule}")
        with self.subTest("direct"):
            self.assert_text(f"{self.on_slice} short=4096", io="direct")

    def test_a_slow_disk_changes_nothing(self):
        self.assert_text(f"path={DEMO.name} rate=100e6 latency=0.001")

    def test_refused_direct_reads_fall_back(self):
        done = self.streamed(f"on=direct path={DEMO.name} fail=EINVAL", io="direct")
        self.assertEqual((0, self.text), (done.returncode, done.stdout))

    def test_a_read_error_names_the_place(self):
        for io in BOTH_WAYS:
            with self.subTest(io=io):
                self.assert_error(f"{self.on_slice} fail=EIO", io=io, names=("Input/output error",))

    def test_an_error_in_the_middle_ends_the_text_there(self):
        self.assert_error(f"{self.on_slice} calls=5- fail=EIO", names=("Input/output error",))

    def test_endless_interruptions_end(self):
        for error in ("EINTR", "EAGAIN"):
            with self.subTest(error=error):
                self.assert_error(f"{self.on_slice} fail={error}")

    def test_a_file_that_was_cut_is_said_to_be(self):
        for io in BOTH_WAYS:
            with self.subTest(io=io):
                self.assert_error(f"{self.on_slice} eof", io=io, names=("was cut",))

    def test_a_disk_that_never_answers_is_given_up(self):
        """The reads hang for longer than the test may take."""
        self.assert_error(f"{self.on_slice} hang=1000", options=("--read-timeout", 1), names=("gave nothing for 1 s",))

    def test_signals_end_a_run_that_waits_for_the_disk(self):
        log = self.folder / "log"
        rules = (f"{self.on_slice} calls=1-1 log", f"{self.on_slice} calls=2- hang=1000")
        process = self.start(*RUN, *STREAM, "--heat-file", "off", env=io_shim.environment(*rules, log=log))
        while process.poll() is None and not (log.exists() and io_shim.calls(log)):
            time.sleep(0.05)
        time.sleep(0.5)  # the next read of the slice is under way by then; if not, the test is easier, not wrong
        process.terminate()
        self.assertEqual(143, process.wait(timeout=60))

    def test_what_cannot_be_kept_for_the_next_run_costs_this_one_nothing(self):
        for name, rule in (("full", "on=write fail=ENOSPC"), ("broken", "on=sync fail=EIO")):
            heat = self.folder / f"heat-{name}"
            with self.subTest(name):
                done = self.streamed(f"{rule} path={heat.name}", options=("--heat-file", heat))
                self.assertEqual((0, self.text), (done.returncode, done.stdout))
                self.assertIn(str(heat), done.stderr.decode())
                self.assertEqual([], [path.name for path in self.folder.iterdir() if path.name.startswith("heat-")])

    def test_damaged_heat_is_named_and_replaced(self):
        heat = self.folder / "heat"
        self.assertEqual(b"", without_progress(self.streamed(options=("--heat-file", heat)).stderr))
        whole = heat.read_bytes()
        heat.write_bytes(whole[:-1])
        done = self.streamed(options=("--heat-file", heat))
        self.assertEqual((0, self.text), (done.returncode, done.stdout))
        self.assertIn(f"{heat}: is damaged", done.stderr.decode())
        self.assertEqual(len(whole), heat.stat().st_size)
        self.assertEqual(b"", without_progress(self.streamed(options=("--heat-file", heat)).stderr))


if __name__ == "__main__":
    unittest.main()
