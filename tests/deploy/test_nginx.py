"""The nginx configuration that is shipped, in a real nginx: tokens pass one by one, clients that leave are told, conversations keep their replica."""
import asyncio
import json
import socket
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "tests" / "serving"), str(ROOT / "tests" / "deploy")]

import http_stream  # noqa: E402
from fake_openai import FakeServer  # noqa: E402
from proxy import Proxy, free_ports  # noqa: E402
from real_server import RealServer  # noqa: E402
from servers import metric, parse_metrics  # noqa: E402

QUICK = ((r"rate=20r/s", "rate=1000r/s"),)  # the limit of requests has a test of its own


def ask(url, path="/v1/completions", body=None, method=None, on_piece=None, **headers):
    target = http_stream.Target(url, {name.replace("_", "-"): value for name, value in headers.items()})
    return asyncio.run(target.send(method or ("POST" if body else "GET"), path, body, timeout=60, on_piece=on_piece))


def streamed(**fake):
    return {"prompt": "x", "max_tokens": 5, "stream": True, "fake": fake}


class StreamTest(unittest.TestCase):
    def setUp(self):
        self.upstreams = [self.enterContext(FakeServer(name)) for name in ("one", "two")]
        self.proxy = self.enterContext(Proxy([server.port for server in self.upstreams], QUICK))

    def seen(self):
        return [request for server in self.upstreams for request in server.seen]

    def test_a_token_passes_before_the_next_one_is_made(self):
        def release(exchange, _):  # the server waits for this in front of its third token
            if b"\n\ndata:" in exchange.body and not released:
                released.append(True)
                for server in self.upstreams:
                    server.loop.call_soon_threadsafe(server.released.set)
        released = []
        exchange = ask(self.proxy.url, body=streamed(hold=True), on_piece=release)
        answer = http_stream.answer(exchange)
        self.assertEqual((5, True, 1), (len(answer.token_times), answer.done, answer.comments))
        self.assertEqual([True], released)

    def test_a_client_that_leaves_is_told_to_the_server(self):
        ask(self.proxy.url, body=streamed(hold=True), on_piece=lambda exchange, transport: transport.abort())
        self.assertTrue(any(server.gone.wait(0.1) for _ in range(100) for server in self.upstreams))

    def test_the_server_sees_the_clients_host_and_a_request_id(self):
        ask(self.proxy.url, "/v1/models")
        (request,) = self.seen()
        self.assertEqual(f"127.0.0.1:{self.proxy.port}", request["headers"]["host"])
        self.assertRegex(request["headers"]["x-request-id"], "^[0-9a-f]{32}$")

    def test_a_conversation_stays_with_its_replica_and_conversations_spread(self):
        for session in range(40):
            for _ in range(3):
                ask(self.proxy.url, "/v1/models", x_session_affinity=f"conversation {session}")
        homes = [{request["headers"]["x-session-affinity"] for request in server.seen} for server in self.upstreams]
        self.assertEqual(set(), homes[0] & homes[1])
        self.assertGreaterEqual(min(map(len, homes)), 8)

    def test_without_a_session_the_key_decides(self):
        for key in range(20):
            for _ in range(2):
                ask(self.proxy.url, "/v1/models", authorization=f"Bearer key-{key}")
        homes = [{request["headers"]["authorization"] for request in server.seen} for server in self.upstreams]
        self.assertEqual(set(), homes[0] & homes[1])
        self.assertGreater(min(map(len, homes)), 2)

    def test_numbers_for_the_operator_are_not_for_clients(self):
        self.assertEqual(404, ask(self.proxy.url, "/metrics").status)
        self.assertEqual([], self.seen())

    def test_a_body_beyond_the_limit_is_refused_before_it_is_sent_on(self):
        with socket.create_connection(("127.0.0.1", self.proxy.port), timeout=30) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 40000000\r\n\r\n")
            self.assertIn(b" 413 ", client.recv(4096))
        self.assertEqual([], self.seen())


class FailoverTest(unittest.TestCase):
    def test_another_replica_answers_for_one_that_is_gone_and_for_one_that_shuts_down(self):
        (nobody,) = free_ports(1)
        with FakeServer("alive") as alive, Proxy([nobody, alive.port], QUICK) as proxy:
            answers = [ask(proxy.url, body=streamed(), x_session_affinity=str(n)) for n in range(8)]
            self.assertEqual([200] * 8, [answer.status for answer in answers])

    def test_what_the_server_says_no_to_is_not_asked_again(self):
        with FakeServer("one") as one, FakeServer("two") as two, Proxy([one.port, two.port], QUICK) as proxy:
            for status in (400, 429, 500):
                self.assertEqual(status, ask(proxy.url, body=streamed(status=status)).status)
            self.assertEqual(3, len(one.seen) + len(two.seen))
            self.assertEqual(503, ask(proxy.url, body=streamed(status=503)).status)
            self.assertEqual(5, len(one.seen) + len(two.seen), "503 may be asked of the other replica")


class LimitTest(unittest.TestCase):
    def test_too_many_requests_of_one_key_are_429_and_do_not_reach_the_server(self):
        with FakeServer() as one, FakeServer() as two, Proxy([one.port, two.port], ((r"rate=20r/s", "rate=1r/m"), (r"burst=40", "burst=3"))) as proxy:
            statuses = [ask(proxy.url, "/v1/models", authorization="Bearer a").status for _ in range(6)]
            self.assertEqual([200] * 4 + [429] * 2, statuses)
            self.assertEqual(200, ask(proxy.url, "/v1/models", authorization="Bearer b").status)
            self.assertEqual(5, len(one.seen) + len(two.seen))


class ReplicasTest(unittest.TestCase):
    """Two real servers behind the proxy."""

    @classmethod
    def setUpClass(cls):
        cls.replicas = [cls.enterClassContext(RealServer("--parallel", "2", "--prefix-cache", "16M")) for _ in range(2)]
        cls.proxy = cls.enterClassContext(Proxy([replica.port for replica in cls.replicas], QUICK))

    def ask(self, session, prompt, **more):
        body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, **more}
        return http_stream.answer(ask(self.proxy.url, body=body, x_session_affinity=session))

    def test_the_second_turn_of_a_conversation_finds_its_prefix_wherever_it_lives(self):
        for n in range(6):
            story = f"Once upon a time, number {n}, there was a little dog who lived in a garden. " * 8
            first, second = (self.ask(f"conversation {n}", story + more) for more in ("", "The dog was very happy."))
            cached = [answer.usage["prompt_tokens_details"]["cached_tokens"] for answer in (first, second)]
            self.assertEqual(0, cached[0])
            self.assertGreater(cached[1], first.usage["prompt_tokens"] // 2)
        served = [metric(parse_metrics(replica.get("/metrics")), "colibri_requests_submitted_total") for replica in self.replicas]
        self.assertGreater(min(served), 0, "both replicas have work")

    def test_a_stream_through_the_proxy_is_the_answer_without_it(self):
        through = self.ask("s", "The capital of", stream=True, stream_options={"include_usage": True})
        self.assertEqual((8, True), (through.usage["completion_tokens"], through.done))
        direct = http_stream.answer(ask(self.replicas[0].url, body={"prompt": "The capital of", "max_tokens": 8, "temperature": 0}))
        self.assertEqual(direct.text, through.text)

    def test_the_servers_own_refusals_pass_unchanged(self):
        exchange = ask(self.proxy.url, body={"prompt": "word " * 3000, "max_tokens": 4})
        self.assertEqual(400, exchange.status)
        self.assertIn("maximum context length is", json.loads(exchange.body)["error"]["message"])


if __name__ == "__main__":
    unittest.main()
