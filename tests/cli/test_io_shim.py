"""tests/io_shim.c does what its head says: the fault tests and the throttled benchmark rest on it."""
import errno
import json
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli import io_shim
from cli.harness import DEMO, CliTest, clean_environment

# For the scripts below: what a call gave, or the name of its error.
PRELUDE = """
import errno, json, mmap, os, sys, threading, time
def tried(call, *arguments):
    try:
        result = call(*arguments)
        return result.decode("latin-1") if isinstance(result, bytes) else result
    except OSError as error:
        return errno.errorcode[error.errno]
path = sys.argv[1]
fd = os.open(path, os.O_RDWR)
"""


class IoShimTest(CliTest):
    def setUp(self):
        super().setUp()
        self.file = self.write("data.bin", bytes(range(100)) * 100)
        self.log = self.folder / "log"

    def finished(self, script, *rules):
        return subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(script), self.file], capture_output=True, text=True, timeout=120,
                              env=clean_environment(**io_shim.environment(*rules, log=self.log)))

    def ran(self, script, *rules):
        """What a script printed as JSON, under these rules."""
        done = self.finished(script, *rules)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return json.loads(done.stdout)

    def reads(self, *rules, n=4):
        """Four reads of four bytes, at 0, 100, 200, ...: the file repeats after 100 bytes."""
        return self.ran(f"print(json.dumps([tried(os.pread, fd, 4, 100 * i) for i in range({n})]))", *rules)

    GOOD = "\0\1\2\3"

    def test_without_a_rule_that_fits_nothing_changes(self):
        for rules in ([], ["on=read path=other fail=EIO"], ["on=sync fail=EIO"], [" ; "]):
            self.assertEqual([self.GOOD] * 4, self.reads(*rules))

    def test_calls_choose_which_of_them_fail(self):
        self.assertEqual([self.GOOD, "EIO", "EIO", self.GOOD], self.reads("on=read path=data.bin calls=2-3 fail=EIO"))
        self.assertEqual([self.GOOD, "EIO", "EIO", "EIO"], self.reads("path=data.bin calls=2- fail=EIO"))

    def test_every_error_arrives_as_itself(self):
        for name in ("EIO", "EINTR", "EAGAIN", "EINVAL", "ENOSPC", "ETIMEDOUT"):
            # Python repeats a call that was interrupted, so that error shows in the log
            self.reads(f"path=data.bin calls=1-1 log fail={name}", n=1)
            self.assertEqual(-getattr(errno, name), io_shim.calls(self.log)[-1].result)

    def test_offsets_choose_calls_that_touch_them(self):
        self.assertEqual([self.GOOD, "EIO", self.GOOD, self.GOOD], self.reads("path=data.bin offset=103-104 fail=EIO"))
        self.assertEqual([self.GOOD] * 4, self.reads("path=data.bin offset=104-200 fail=EIO"))
        self.assertEqual([self.GOOD, self.GOOD, self.GOOD, "EIO"], self.reads("path=data.bin offset=300- fail=EIO"))

    def test_calls_are_counted_among_those_that_fit(self):
        self.assertEqual([self.GOOD, self.GOOD, "EIO", self.GOOD], self.reads("path=data.bin offset=100- calls=2-2 fail=EIO"))

    def test_a_short_read_stops_early_and_spoils_the_rest(self):
        script = """
            out = [bytearray(b"....."), bytearray(b".....")]
            print(json.dumps([tried(os.preadv, fd, out, 0), out[0].decode("latin-1"), out[1].decode("latin-1")]))"""
        self.assertEqual([7, "\0\1\2\3\4", "\5\6\xdb\xdb\xdb"], self.ran(script, "path=data.bin short=7"))
        self.assertEqual(["\0\1", "\0\1"], self.reads("path=data.bin short=2", n=2))

    def test_a_truncated_file_ends_where_the_rule_says(self):
        self.assertEqual([self.GOOD, "\0\1", "", ""], self.reads("path=data.bin offset=102- eof"))
        self.assertEqual(["", ""], self.reads("path=data.bin eof", n=2))

    def test_writes_and_syncs_fail_on_their_own(self):
        script = "print(json.dumps([tried(os.write, fd, b'ab'), tried(os.pwrite, fd, b'ab', 9), tried(os.fsync, fd), tried(os.fdatasync, fd)]))"
        self.assertEqual(["ENOSPC", 2, None, None], self.ran(script, "on=write path=data.bin calls=1-1 fail=ENOSPC"))
        self.assertEqual([2, "ENOSPC", None, None], self.ran(script, "on=write path=data.bin offset=10- fail=ENOSPC"))
        self.assertEqual([1, 1, "EIO", None], self.ran(script, "on=write short=1 path=data.bin", "on=sync path=data.bin calls=1-1 fail=EIO"))

    def test_direct_opens_can_be_refused(self):
        script = """
            plain, direct = tried(os.open, path, os.O_RDONLY), tried(os.open, path, os.O_RDONLY | os.O_DIRECT)
            print(json.dumps([plain if isinstance(plain, str) else "open", direct]))"""
        self.assertEqual(["open", "EINVAL"], self.ran(script, "on=direct path=data.bin fail=EINVAL"))

    def test_new_files_keep_their_mode(self):
        script = """
            os.umask(0)
            new = os.open(path + ".new", os.O_CREAT | os.O_WRONLY, 0o640)
            print(json.dumps(os.fstat(new).st_mode & 0o777))"""
        self.assertEqual(0o640, self.ran(script, "on=direct fail=EINVAL"))

    def test_a_hanging_call_comes_back_late_and_right(self):
        script = """
            import signal
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
            begin = time.monotonic()
            got = tried(os.pread, fd, 4, 0)
            seconds = time.monotonic() - begin
            signal.setitimer(signal.ITIMER_REAL, 0)
            print(json.dumps([got, seconds]))"""
        got, seconds = self.ran(script, "path=data.bin hang=0.7")
        self.assertEqual(self.GOOD, got)
        self.assertGreaterEqual(seconds, 0.7)

    def throttled(self, *rules, threads):
        """Calls of `threads` threads that begin together, each of which reads 1000 bytes."""
        script = f"""
            start = threading.Barrier({threads})
            def read(i):
                start.wait()
                os.pread(fd, 1000, 1000 * i)
            everyone = [threading.Thread(target=read, args=(i,)) for i in range({threads})]
            for thread in everyone: thread.start()
            for thread in everyone: thread.join()
            print("null")"""
        self.ran(script, *rules)
        return io_shim.calls(self.log)

    def test_a_rate_is_shared_by_all_threads(self):
        calls = self.throttled("path=data.bin log rate=10000", threads=5)
        ends = sorted(call.end for call in calls)
        first = min(call.begin for call in calls)
        for i, end in enumerate(ends, 1):  # each call's 0.1 seconds pass after those of the calls before it
            self.assertGreaterEqual(end - first, 0.1 * i - 1e-5)

    def test_latencies_overlap(self):
        calls = self.throttled("path=data.bin log latency=2", threads=5)
        self.assertGreaterEqual(min(call.end - call.begin for call in calls), 2 - 1e-5)
        self.assertLess(max(call.begin for call in calls), min(call.end for call in calls))

    def test_delays_and_faults_add_up(self):
        self.throttled("path=data.bin latency=0.2", "path=data.bin log short=10", threads=1)
        (call,) = io_shim.calls(self.log)
        self.assertEqual(("read", 0, 1000, 10), call[:4])
        self.assertGreaterEqual(call.end - call.begin, 0.2 - 1e-5)

    def test_rings_are_refused(self):
        script = """
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            print(json.dumps([libc.syscall(425, 1, 0), errno.errorcode[ctypes.get_errno()]]))"""
        self.assertEqual([-1, "ENOSYS"], self.ran(script, "path=none fail=EIO"))

    def test_rules_that_mean_nothing_end_the_program(self):
        for rule in ("path=x fial=EIO", "fail=EWHAT", "offset=5", "calls=3-2", "on=open fail=EIO", "short=ten", "latency=1s"):
            done = self.finished("print(1)", rule)
            self.assertEqual(125, done.returncode, rule)
            self.assertIn("io_shim: cannot read", done.stderr)

    def test_colibri_reads_through_it(self):
        """The program itself is under the shim, in whatever way it was built."""
        env = io_shim.environment(f"on=read path={DEMO.name} log latency=0", log=self.log)
        self.run_ok("inspect", DEMO, env=env)
        self.assertGreater(sum(call.result for call in io_shim.calls(self.log)), 1000)


if __name__ == "__main__":
    unittest.main()
