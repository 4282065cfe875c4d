"""The summary must not turn a failure, a crash or an unknown skip into a pass."""
import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import summary  # noqa: E402

PASSED = '<testcase classname="A" name="passes" status="run" result="completed"/>'
SKIPPED = '<testcase classname="A" name="skips" status="run" result="skipped"><skipped message="why"/></testcase>'
FAILED = '<testcase classname="A" name="fails" status="run" result="completed"><failure/></testcase>'


def judge(ctest, reports, shared):
    """Exit status and output lines for one run."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        for name, cases in {"ctest": ctest, **reports}.items():
            (run / f"{name}.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        skips = Path(folder) / "tests"
        skips.mkdir()
        (skips / "known_skips.txt").write_text("shared A.ski*  # reads ../shared\n")
        place = folder if shared else f"{folder}/absent"
        out = io.StringIO()
        with mock.patch.dict(os.environ, COLIBRI_SHARED=place), mock.patch.object(summary, "ROOT", Path(folder)), \
                contextlib.redirect_stdout(out):
            status = summary.main(["summary.py", f"run={run}"])
        return status, out.getvalue().splitlines()


class SummaryTest(unittest.TestCase):
    def test_adds_up_and_closes_with_the_plain_line(self):
        ctest = '<testcase name="a" status="run"/><testcase name="b" status="run"/>'
        status, lines = judge(ctest, {"a_test": PASSED * 3}, shared=True)
        self.assertEqual((0, "4 passed, 0 failed, 0 skipped"), (status, lines[-1]))

    def test_a_failed_case_fails(self):
        status, lines = judge('<testcase name="a" status="fail"/>', {"a_test": PASSED + FAILED}, shared=True)
        self.assertEqual((1, "1 passed, 1 failed, 0 skipped"), (status, lines[-1]))

    def test_a_program_that_died_fails_with_and_without_a_report(self):
        for reports in ({}, {"a_test": PASSED}):
            status, lines = judge('<testcase name="a" status="fail"/><testcase name="b" status="run"/>', reports, shared=True)
            self.assertEqual(1, status)
            self.assertIn(" 1 failed", lines[-1])

    def test_skips_are_allowed_only_where_shared_is_absent(self):
        ctest = '<testcase name="a" status="run"/>'
        self.assertEqual(0, judge(ctest, {"a_test": PASSED + SKIPPED}, shared=False)[0])
        self.assertEqual(1, judge(ctest, {"a_test": PASSED + SKIPPED}, shared=True)[0])
        unknown = SKIPPED.replace("skips", "other")
        self.assertEqual(1, judge(ctest, {"a_test": PASSED + unknown}, shared=False)[0])

    def test_a_run_without_a_passed_test_fails(self):
        self.assertEqual(1, judge("", {}, shared=True)[0])
        self.assertEqual(1, judge('<testcase name="a" status="run"/>', {"a_test": SKIPPED}, shared=False)[0])


if __name__ == "__main__":
    unittest.main()
