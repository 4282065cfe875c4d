"""Prefixes on a disk that is full, fails or reads short: every prompt is computed right, and one line says why (kv_test looks at both)."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import parity
from cli import io_shim

KV_TEST = Path(parity.BIN).parent / "kv_test"
BODY = "offset=104-"  # behind the head of a file


class PrefixDiskTest(unittest.TestCase):
    def said_with(self, *rules):
        """What was logged while prefixes were written and read under these rules."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            env = os.environ | io_shim.environment(*rules) | {"PREFIX_TEST_LOG": str(log), "TEST_TMPDIR": folder}
            done = subprocess.run([KV_TEST, "--gtest_filter=PrefixDiskTest.WorksOnADiskThatFails"], env=env, capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("[  PASSED  ] 1 test", done.stdout)
            return log.read_text()

    def test_a_full_disk_ends_the_writing(self):
        said = self.said_with("on=write path=.prefix calls=9-9 fail=ENOSPC")
        self.assertEqual(said.count("\n"), 1, said)
        self.assertRegex(said, "prefixes are not written any more: .*No space left on device")

    def test_a_write_that_fails_once_is_tried_again(self):
        self.assertEqual(self.said_with("on=write path=.prefix calls=9-9 fail=EIO"), "")

    def test_a_disk_that_cannot_be_written_ends_the_writing(self):
        for on in ("write", "sync"):
            said = self.said_with(f"on={on} path=.prefix fail=EIO")
            self.assertEqual(said.count("prefixes are not written any more"), 3, said)  # once in each of three runs
            self.assertIn("Input/output error", said)

    def test_a_disk_that_cannot_be_read_ends_the_reading(self):
        for rule in ("fail=EIO", "eof"):
            said = self.said_with(f"on=read path=.prefix {BODY} {rule}")
            self.assertEqual(said.count("prefixes are not read any more"), 2, said)  # the first run reads nothing

    def test_short_and_interrupted_calls_are_continued(self):
        self.assertEqual(self.said_with("on=read path=.prefix short=1000", "on=write path=.prefix short=1000",
                                        "on=read path=.prefix calls=3-4 fail=EINTR", "on=write path=.prefix calls=3-4 fail=EINTR"), "")


if __name__ == "__main__":
    unittest.main()
