"""The load generator says what servers did: whole answers are counted, every damaged one is an error with its reason, and arrivals are those of the seed."""
import asyncio
import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "tests" / "serving")]

import http_stream  # noqa: E402
import load  # noqa: E402
import load_report  # noqa: E402
import prompts  # noqa: E402
from fake_openai import FakeServer  # noqa: E402


def loaded(server, *words):
    """The result's JSON of one run of the program, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        status = load.main([server.url, "--json", str(out), "--warmup", "1", *words])
        return json.loads(out.read_text()), status


class LoadTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(FakeServer())
        self.enterContext(open_quietly())

    def test_whole_answers_of_64_clients_at_once_are_counted(self):
        result, status = loaded(self.server, "--clients", "64", "--requests", "128", "--prompt-tokens", "5", "--answer-tokens", "7", "--vocabulary", "90")
        summary = result["summary"]
        self.assertEqual((0, 128, 0), (status, summary["requests"], summary["errors"]))
        self.assertEqual([7] * 128, [row["tokens"] for row in result["requests"]])
        self.assertEqual([6] * 128, [len(row["gaps"]) for row in result["requests"]])
        self.assertTrue(all(0 < row["first_token"] <= row["seconds"] for row in result["requests"]))
        self.assertEqual(1 + 128, len(self.server.seen))
        self.assertTrue(all(len(seen["body"]["prompt"]) == 5 and max(seen["body"]["prompt"]) < 90 for seen in self.server.seen))
        self.assertGreater(result["client"]["lag_seconds"]["max"], 0)

    def test_streams_cut_into_single_bytes_give_the_same_tokens(self):
        result, status = loaded(self.server, "--clients", "2", "--requests", "4", "--prompt-tokens", "5", "--answer-tokens", "9", "--route", "chat",
                                "--extra", '{"fake": {"bytes_per_write": 1}}')
        self.assertEqual((0, [9] * 4), (status, [row["tokens"] for row in result["requests"]]))

    def test_every_damaged_answer_is_an_error_with_its_reason(self):
        for fake, reason in (({"status": 429}, "status 429"), ({"cut": 3}, "closed before the answer ended"), ({"error": 2}, "the disk is gone"),
                             ({"no_end": True}, "without [DONE]"), ({"lost_token": 1}, "6 tokens, asked for 7")):
            with self.subTest(fake):
                result, status = loaded(self.server, "--clients", "1", "--requests", "2", "--prompt-tokens", "5", "--answer-tokens", "7",
                                        "--extra", json.dumps({"fake": fake}))
                self.assertEqual((1, 2), (status, result["summary"]["errors"]))
                self.assertIn(reason, str(result["summary"]["error_texts"]))
                self.assertEqual(0, result["summary"]["tokens_per_second"])

    def test_a_server_that_is_not_there_is_an_error(self):
        target = http_stream.Target("http://127.0.0.1:1")
        exchange = asyncio.run(target.send("GET", "/health"))
        self.assertIn("no connection", exchange.failure)

    def test_an_open_loop_sends_what_the_seed_says_and_mixes_kinds(self):
        result, status = loaded(self.server, "--rate", "60", "--seconds", "1", "--mix", "chat=0.5,code=0.5", "--seed", "3")
        planned = load.arrivals(60, 1, 3)
        self.assertEqual((0, len(planned)), (status, result["summary"]["requests"]))
        self.assertEqual({"chat", "code"}, set(result["kinds"]))
        starts = [row["at"] for row in result["requests"]]
        self.assertTrue(all(at >= plan for at, plan in zip(starts, planned)), "sent before its time")

    def test_what_measures_can_leave_in_the_middle(self):
        async def leave():
            target = http_stream.Target(self.server.url)
            body = {"prompt": "x", "max_tokens": 9, "stream": True, "fake": {"hold": True}}
            return await target.send("POST", "/v1/completions", body, on_piece=lambda exchange, transport: transport.abort())
        self.assertIn("closed before the answer ended", asyncio.run(leave()).failure)
        self.assertTrue(self.server.gone.wait(20))


class PlanTest(unittest.TestCase):
    def test_arrivals_are_those_of_the_seed_and_as_many_as_the_rate_says(self):
        self.assertEqual(load.arrivals(2, 100, 7), load.arrivals(2, 100, 7))
        self.assertNotEqual(load.arrivals(2, 100, 7), load.arrivals(2, 100, 8))
        self.assertAlmostEqual(2, len(load.arrivals(2, 5000, 7)) / 5000, delta=0.1)

    def test_asks_are_those_of_the_seed_within_their_kinds_lengths(self):
        def first(seed):
            asks = prompts.Asks(prompts.MIXED, seed, vocabulary=1000)
            return [next(asks) for _ in range(200)]
        self.assertEqual([ask.body for ask in first(1)], [ask.body for ask in first(1)])
        self.assertNotEqual([ask.body for ask in first(1)], [ask.body for ask in first(2)])
        for ask in first(1):
            (low, high), (short, long) = prompts.KINDS[ask.kind].prompt, prompts.KINDS[ask.kind].answer
            self.assertTrue(low <= len(ask.body["prompt"]) <= high and short <= ask.max_tokens <= long)
        self.assertEqual(set(prompts.MIXED), {ask.kind for ask in first(1)})

    def test_a_mix_with_an_unknown_kind_is_refused(self):
        with self.assertRaisesRegex(ValueError, "poem"):
            prompts.parse_mix("chat=1,poem=2")


class ReportTest(unittest.TestCase):
    def test_the_steady_rate_counts_only_while_all_streams_are_under_way(self):
        self.assertAlmostEqual(3, load_report.steady_rate([[0, 1, 2, 3, 4], [2.5, 3, 3.5, 4, 4.5, 5]]), delta=0.4)
        self.assertIsNone(load_report.steady_rate([[0, 1], [2, 3]]))

    def test_percentiles_are_of_the_nearest_rank(self):
        self.assertEqual({"p50": 50, "p90": 90, "p99": 99, "max": 100}, load_report.percentiles(list(range(1, 101))))

    def test_responses_that_are_no_http_are_refused(self):
        for data in (b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"):
            with self.assertRaises(http_stream.Broken):
                http_stream.Framing().feed(data)

    def test_bodies_of_every_kind_of_framing_are_taken_at_any_cut(self):
        for head, raw in (("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: v\r\n\r\n"), ("X: y", b"hello")):
            response = f"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + raw
            for width in range(1, len(response) + 1):
                framing = http_stream.Framing()
                body = b"".join(framing.feed(response[n:n + width]) for n in range(0, len(response), width))
                framing.closed()
                self.assertEqual((200, b"hello", True), (framing.status, body, framing.done))


def open_quietly():
    """What the program prints is not part of the tests' output."""
    import contextlib
    import io
    return contextlib.redirect_stdout(io.StringIO())


if __name__ == "__main__":
    unittest.main()
