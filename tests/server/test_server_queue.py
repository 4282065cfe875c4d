"""Who waits and who goes: the bounded queue, clients that leave in the queue, the prompt or the answer, and slow readers."""
import json
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from server.api import chat, stream
from server.server import ServerTest

CHAT = "/v1/chat/completions"
SLOW = ("--isa", "scalar", "--threads", "1")  # so that answers take long enough to wait for
LONG = chat("Tell me a story.", max_tokens=2000, ignore_eos=True)


class Leaver:
    """A request whose client can be watched and can leave."""

    def __init__(self, server, body):
        self.line = server.connect()
        text = json.dumps(body)
        self.line.send(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}")

    def leave(self):
        self.line.close()


class UnreadAnswerTest(ServerTest):
    FLAGS = ("--parallel", "1", "--context", "2048")

    def test_a_client_that_takes_nothing_leaves_its_place_to_others_when_its_answer_is_made(self):
        line = self.server.connect()
        self.addCleanup(line.close)
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        text = json.dumps(chat("Tell me a story.", max_tokens=1900, ignore_eos=True, stream=True, logprobs=True, top_logprobs=5))
        line.send(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}")
        self.server.wait_until(lambda: self.server.metrics()["colibri_requests_running"] == 1)
        self.assertEqual(200, self.server.post(CHAT, chat("Hi", max_tokens=3)).status)
        metrics = self.server.metrics()
        self.assertEqual((1, 0), (metrics["colibri_http_running_requests"] - 1, metrics["colibri_http_slow_readers_total"]))
        self.assertGreater(metrics["colibri_http_queued_bytes"], 256 << 10)


class QueueTest(ServerTest):
    FLAGS = ("--parallel", "1", "--max-queue", "1", "--keep-alive", "1", *SLOW)

    def slots(self):
        return self.server.get("/slots").json()

    def wait_slots(self, running, waiting):
        def there():
            slots = self.slots()
            return (running, waiting) == (sum(s["is_processing"] for s in slots), sum(not s["is_processing"] for s in slots))
        self.server.wait_until(there)

    def begin(self, body=LONG):
        leaver = Leaver(self.server, body)
        self.addCleanup(leaver.leave)
        return leaver

    def test_one_runs_one_waits_the_next_is_told_when_to_come_back(self):
        first = self.begin()
        self.wait_slots(1, 0)
        second = self.begin()
        self.wait_slots(1, 1)
        for body in (chat("Hi"), chat("Hi", stream=True)):
            answer = self.server.post(CHAT, body)
            self.assert_error(answer, 429, "queue_full", "1 requests wait")
            self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        overloaded = self.server.post("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]})
        self.assertEqual((529, "overloaded_error"), (overloaded.status, overloaded.json()["error"]["type"]))
        second.leave()
        self.wait_slots(1, 0)
        first.leave()
        self.wait_slots(0, 0)
        self.assertEqual(200, self.server.post(CHAT, chat("Hi")).status)

    def test_a_client_that_leaves_ends_its_work_wherever_that_is(self):
        for body in (LONG, LONG | {"stream": True}, LONG | {"n": 4, "stream": True}, LONG | {"expert_activations": True},
                     chat("Hi. " * 480, max_tokens=1000, ignore_eos=True)):
            leaver = self.begin(body)
            self.server.wait_until(lambda: len(self.slots()) == 1)
            leaver.leave()
            self.wait_slots(0, 0)
        running = lambda: self.server.metrics()["colibri_sequences_running"]
        self.server.wait_until(lambda: running() == 0)
        self.assertEqual(200, self.server.post(CHAT, chat("Hi")).status)

    def test_a_waiting_stream_says_that_it_is_alive(self):
        first = self.begin()
        self.wait_slots(1, 0)
        with stream(self.server, CHAT, chat("Hi", stream=True, max_tokens=2)) as events:
            # The head came because a comment was due; now let it have its turn.
            first.leave()
            chunks = events.chunks()
        self.assertGreaterEqual(events.comments, 1)
        self.assertEqual("length", chunks[-1]["choices"][0]["finish_reason"])

    def test_the_place_in_the_queue_is_told_on_request(self):
        first = self.begin()
        self.wait_slots(1, 0)
        with stream(self.server, CHAT, chat("Hi", stream=True, max_tokens=2, return_progress=True)) as events:
            first.leave()
            chunks = events.chunks()
        self.assertTrue(all("choices" in chunk for chunk in chunks))


class QueueTimeoutTest(ServerTest):
    FLAGS = ("--parallel", "1", "--queue-timeout", "1", "--keep-alive", "30", *SLOW)

    def test_who_waits_too_long_is_sent_away(self):
        for _ in range(8):
            self.addCleanup(Leaver(self.server, LONG).leave)
        self.server.wait_until(lambda: len(self.server.get("/slots").json()) == 8)
        answer = self.server.post(CHAT, chat("Hi"))
        self.assert_error(answer, 429, "queue_timeout", "1 seconds")


class SlowReaderTest(ServerTest):
    def test_a_reader_that_takes_nothing_holds_up_nobody_and_loses_nothing(self):
        body = LONG | {"stream": True, "max_tokens": 1500, "logprobs": True, "top_logprobs": 20, "n": 3}  # more than the server keeps
        line = self.server.connect()
        self.addCleanup(line.close)
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)  # less, and the kernel takes minutes to widen its window again
        text = json.dumps(body)
        line.send(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}")

        def stuck():
            slots = self.server.get("/slots").json()
            if not slots:
                return False  # it has not begun
            before = slots[0]["n_decoded"]
            self.assertEqual(200, self.server.post(CHAT, chat("Hi", max_tokens=30, ignore_eos=True)).status)
            (slot,) = self.server.get("/slots").json()
            return before > 0 and slot["n_decoded"] == before
        self.server.wait_until(stuck)
        self.assertLess(self.server.metrics()["colibri_http_queued_bytes"], 5 << 20)
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        data = line.answer().body.decode()
        chunks = [json.loads(frame[6:]) for frame in data.split("\n\n") if frame.startswith("data: {")]
        entries = [e for c in chunks for choice in c["choices"] for e in (choice.get("logprobs") or {"content": []})["content"]]
        self.assertEqual(3 * 1500, len(entries))


if __name__ == "__main__":
    unittest.main()
