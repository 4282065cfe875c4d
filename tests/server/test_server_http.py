"""HTTP itself: what good and bad clients send, and that every answer is an answer. With routes of probe.cc."""
import socket
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server import BIN, Server, ServerTest  # noqa: E402

PROBE = Path(BIN).with_name("colibri-http-probe")
HOST = "Host: localhost\r\n"


def post(path, body, *headers, version="1.1"):
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"POST {path} HTTP/{version}\r\n{HOST}Content-Length: {len(body)}\r\n{lines}\r\n{body}"


class GoodClientsTest(ServerTest):
    PROGRAM = PROBE

    def test_keep_alive_answers_one_request_after_the_other_on_one_connection(self):
        with self.server.connect() as line:
            for body in ("one", "", "three" * 10000):
                line.send(post("/echo", body))
                answer = line.answer()
                self.assertEqual((200, body.encode(), "keep-alive"), (answer.status, answer.body, answer.headers["connection"]))

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.connect() as line:
            line.send("".join(post(f"/echo?{i}", f"body {i}") for i in range(100)))
            for i in range(100):
                answer = line.answer()
                self.assertEqual((f"body {i}".encode(), str(i)), (answer.body, answer.headers["x-query"]))

    def test_pipelined_requests_wait_for_a_stream_before_them(self):
        with self.server.connect() as line:
            line.send(post("/stream?frames=5&delay=5", "") + post("/echo", "after"))
            self.assertEqual(5, line.answer().body.count(b"data: "))
            self.assertEqual(b"after", line.answer().body)

    def test_a_request_may_come_byte_by_byte(self):
        with self.server.connect() as line:
            for byte in post("/echo", "slow"):
                line.send(byte)
            self.assertEqual(b"slow", line.answer().body)

    def test_an_empty_line_before_the_request_is_ignored(self):
        self.assertEqual(b"x", self.server.exchange("\r\n" + post("/echo", "x")).body)

    def test_http_1_0_is_answered_and_closed_and_needs_no_host(self):
        with self.server.connect() as line:
            line.send("GET /health HTTP/1.0\r\n\r\n")
            answer = line.answer()
            self.assertEqual((200, "close"), (answer.status, answer.headers["connection"]))
            self.assertTrue(line.is_closed())

    def test_http_1_0_may_ask_to_keep_the_connection(self):
        with self.server.connect() as line:
            for _ in range(2):
                line.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                self.assertEqual(200, line.answer().status)

    def test_a_stream_to_http_1_0_is_not_chunked(self):
        answer = self.server.exchange(post("/stream", "", version="1.0"))
        self.assertNotIn("transfer-encoding", answer.headers)
        self.assertTrue(answer.body.startswith(b"data: 0 xxxxxxxxxx\n\ndata: 1 "), answer)
        self.assertEqual(3, answer.body.count(b"\n\n"))

    def test_connection_close_closes(self):
        with self.server.connect() as line:
            line.send(f"GET /health HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n")
            self.assertEqual("close", line.answer().headers["connection"])
            self.assertTrue(line.is_closed())

    def test_chunked_bodies_are_put_together(self):
        for body, expected in (("5\r\nhello\r\n1;ext=1\r\n \r\n5\r\nworld\r\n0\r\n\r\n", b"hello world"), ("0\r\n\r\n", b""),
                               ("A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", b"0123456789")):
            with self.subTest(body), self.server.connect() as line:
                line.send(f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n{body}" + post("/echo", "next"))
                self.assertEqual(expected, line.answer().body)
                self.assertEqual(b"next", line.answer().body)

    def test_who_expects_100_is_told_to_continue(self):
        with self.server.connect() as line:
            line.send(f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            self.assertEqual(100, line.answer().status)
            line.send("body")
            self.assertEqual(b"body", line.answer().body)

    def test_who_expects_100_for_what_is_refused_gets_the_refusal_at_once(self):
        for path, status in (("/nothing", 404), ("/health", 405)):
            answer = self.server.exchange(f"POST {path} HTTP/1.1\r\n{HOST}Content-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            self.assertEqual(status, answer.status)
        answer = self.server.exchange(f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
        self.assert_error(answer, 413, "body_too_large", 4 << 20)
        self.assert_error(self.server.exchange(post("/echo", "x", "Expect: tea")), 417, "bad_expect")

    def test_head_is_get_without_the_body(self):
        with self.server.connect() as line:
            line.send(f"HEAD /health HTTP/1.1\r\n{HOST}\r\nGET /health HTTP/1.1\r\n{HOST}\r\n")
            head, get = line.answer("HEAD"), line.answer()
            self.assertEqual((200, 200), (head.status, get.status))
            self.assertEqual(str(len(get.body)), head.headers["content-length"])

    def test_options_says_what_a_path_knows(self):
        answer = self.server.request("OPTIONS", "/echo")
        self.assertEqual((204, {"GET", "HEAD", "POST", "PUT", "OPTIONS"}), (answer.status, set(answer.headers["allow"].split(", "))))
        self.assertNotIn("access-control-allow-origin", answer.headers)
        self.assertEqual(204, self.server.exchange(f"OPTIONS * HTTP/1.1\r\n{HOST}\r\n").status)

    def test_targets_may_be_escaped_absolute_and_have_a_query(self):
        for target, path, query in (("/ech%6f?a=%20b", "/echo", "a=%20b"), ("http://localhost:1/echo?x", "/echo", "x")):
            answer = self.server.exchange(f"GET {target} HTTP/1.1\r\n{HOST}\r\n")
            self.assertEqual((200, path, query), (answer.status, answer.headers["x-path"], answer.headers["x-query"]))

    def test_a_clients_request_id_comes_back_and_a_bad_one_is_replaced(self):
        self.assertEqual("abc-123", self.server.get("/health", {"X-Request-Id": "abc-123"}).headers["x-request-id"])
        for bad in ("", "a b", "x" * 129, 'a"b', "a;b"):
            self.assertRegex(self.server.get("/health", {"X-Request-Id": bad}).headers["x-request-id"], "^req-[0-9a-v]{24}$")
        ids = {self.server.get("/health").headers["x-request-id"] for _ in range(20)}
        self.assertEqual(20, len(ids))

    def test_a_body_of_the_largest_size_comes_through(self):
        body = b"x" * (4 << 20)
        self.assertEqual(body, self.server.post("/echo", body).body)

    def test_a_client_that_sends_far_too_much_still_reads_why_it_is_refused(self):
        self.assert_error(self.server.post("/echo", b"x" * (20 << 20)), 413, "body_too_large", 4 << 20)

    def test_the_head_of_a_stream_comes_before_its_first_frame(self):
        with self.server.connect() as line:
            line.send(post("/hold?stream=1", ""))
            head = line.head()
            self.assertEqual(("text/event-stream", "no-cache", "no"),
                             tuple(head.headers[name] for name in ("content-type", "cache-control", "x-accel-buffering")))

    def test_a_client_that_closed_its_side_still_gets_its_answer(self):
        with self.server.connect() as line:
            line.send(post("/echo", "x" * 1000000))
            line.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(1000000, len(line.answer().body))


class BadClientsTest(ServerTest):
    PROGRAM = PROBE

    BAD = {  # sent, status
        "no HTTP at all": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64, 400),
        "text": ("hello\r\n\r\n", 400),
        "HTTP/0.9": ("GET /\r\n\r\n", 400),
        "HTTP/2": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        "a version from the future": (f"GET / HTTP/9.9\r\n{HOST}\r\n", 400),
        "no host": ("GET /health HTTP/1.1\r\n\r\n", 400),
        "two hosts": (f"GET /health HTTP/1.1\r\n{HOST}{HOST}\r\n", 400),
        "an empty host": ("GET /health HTTP/1.1\r\nHost:\r\n\r\n", 400),
        "a host that is none": ("GET /health HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        "a host with a bad port": ("GET /health HTTP/1.1\r\nHost: localhost:99999\r\n\r\n", 400),
        "blanks in the target": (f"GET /a b HTTP/1.1\r\n{HOST}\r\n", 400),
        "a bad escape": (f"GET /%zz HTTP/1.1\r\n{HOST}\r\n", 400),
        "a cut escape": (f"GET /% HTTP/1.1\r\n{HOST}\r\n", 400),
        "a NUL in the path": (f"GET /a%00b HTTP/1.1\r\n{HOST}\r\n", 400),
        "a line feed in the path": (f"GET /a%0d%0ab HTTP/1.1\r\n{HOST}\r\n", 400),
        "a path that climbs": (f"GET /deep/../../etc/passwd HTTP/1.1\r\n{HOST}\r\n", 400),
        "an escaped path that climbs": (f"GET /deep/%2e%2e/x HTTP/1.1\r\n{HOST}\r\n", 400),
        "a header without a colon": (f"GET /health HTTP/1.1\r\n{HOST}nothing\r\n\r\n", 400),
        "a blank before the colon": (f"GET /health HTTP/1.1\r\n{HOST}a : b\r\n\r\n", 400),
        "a NUL in a header": (f"GET /health HTTP/1.1\r\n{HOST}a: b\0c\r\n\r\n", 400),
        "an empty header name": (f"GET /health HTTP/1.1\r\n{HOST}: b\r\n\r\n", 400),
        "a bare line feed": ("GET /health HTTP/1.1\nHost: localhost\n\n", 400),
        "two lengths": (f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        "length and chunks": (f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        "chunks and length": (f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400),
        "a negative length": (f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: -1\r\n\r\n", 400),
        "a length that is no number": (f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 0x10\r\n\r\n", 400),
        "a length beyond 64 bits": (f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 99999999999999999999999\r\n\r\n", 400),
        "a large length": (f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 18446744073709551615\r\n\r\n", 413),
        "a negative chunk": (f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n-2\r\nxx\r\n", 400),
        "a chunk beyond 64 bits": (f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nxx\r\n", 400),
        "a large chunk": (f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\nffffffff\r\nxx\r\n", 413),
        "a chunk without its end": (f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n2\r\nxxxx\r\n", 400),
        "an unknown encoding": (f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip\r\n\r\n", 501),
        "a compressed body": (f"POST /echo HTTP/1.1\r\n{HOST}Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 415),
        "a proxy's request": ("CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 400),
        "an unknown method": (f"BREW /echo HTTP/1.1\r\n{HOST}\r\n", 405),
        "a long target": (f"GET /{'a' * 20000} HTTP/1.1\r\n{HOST}\r\n", 431),
        "a long header": (f"GET /health HTTP/1.1\r\n{HOST}a: {'b' * 20000}\r\n\r\n", 431),
        "many headers": (f"GET /health HTTP/1.1\r\n{HOST}{''.join(f'h{i}: x{chr(13)}{chr(10)}' for i in range(100))}\r\n", 431),
        "a large head": (f"GET /health HTTP/1.1\r\n{HOST}{''.join(f'h{i}: {chr(97) * 5000}{chr(13)}{chr(10)}' for i in range(20))}\r\n", 431),
        "a head without an end": (b"GET / HTTP/1.1\r\n" + b"a" * 70000, 431),
    }

    def test_each_gets_an_answer_and_the_next_client_is_served(self):
        for name, (data, status) in self.BAD.items():
            with self.subTest(name):
                answer = self.server.exchange(data)
                self.assertEqual(status, answer.status, answer)
                self.assertEqual("application/json", answer.headers["content-type"])
                self.assertIn("message", answer.json()["error"])
                self.assertIn("x-request-id", answer.headers)
        self.assertEqual(200, self.server.get("/health").status)

    def test_a_hundred_headers_and_a_long_line_are_allowed(self):
        headers = "".join(f"h{i}: x\r\n" for i in range(98)) + f"long: {'x' * 16000}\r\n"
        self.assertEqual(200, self.server.exchange(f"GET /health HTTP/1.1\r\n{HOST}{headers}\r\n").status)

    def test_a_refused_upload_is_read_so_that_its_client_sees_the_answer(self):
        with self.server.connect() as line:
            line.send(f"POST /nothing HTTP/1.1\r\n{HOST}Content-Length: 3000000\r\n\r\n" + "x" * 3000000)
            answer = line.answer()
            self.assertEqual((404, "close"), (answer.status, answer.headers["connection"]))

    def test_errors_have_the_shape_of_their_path(self):
        self.assertEqual({"deep": 405}, self.server.exchange(post("/deep/x", "")).json())
        self.assertEqual({"deep": 404}, self.server.get("/deeper").json())
        self.assert_error(self.server.get("/nothing"), 404, "not_found", "/nothing")
        answer = self.server.exchange(post("/health", ""))
        self.assert_error(answer, 405, "method_not_allowed", "POST", "GET")
        self.assertEqual("GET, HEAD, OPTIONS", answer.headers["allow"])

    def test_a_route_that_throws_or_says_nothing_gives_500(self):
        for path in ("/throw", "/forget"):
            self.assert_error(self.server.post(path, b""), 500, "internal_error")
        self.server.wait_log("thrown by the probe")

    def test_many_connects_and_closes_leave_no_file_open(self):
        self.server.get("/health")
        before = self.server.open_files()
        for i in range(1000):
            with self.server.connect() as line:
                if i % 3 == 1:
                    line.send("GET /health HT")
                if i % 3 == 2:
                    line.send(post("/stream?frames=1000", ""))
        self.server.wait_until(lambda: self.server.open_files() <= before)
        self.server.wait_until(lambda: self.server.metrics()["colibri_http_running_requests"] == 1)

    def test_a_client_that_goes_is_noticed_while_nothing_is_written(self):
        with self.server.connect() as line:
            line.send(post("/hold", ""))
            self.server.wait_until(lambda: self.server.metrics()["colibri_http_running_requests"] == 2)
        self.server.wait_log("probe: gone")
        line = self.server.wait_log("path=/hold")
        for field in ("end=client_gone", "prompt_tokens=7", "cached_tokens=2", "generated_tokens=3"):
            self.assertIn(field, line)


class SlowClientsTest(ServerTest):
    PROGRAM = PROBE
    FLAGS = ("--header-timeout", "1", "--body-timeout", "1", "--idle-timeout", "2", "--write-timeout", "3")

    def test_a_head_that_trickles_gets_408(self):
        with self.server.connect() as line:
            line.send("GET /health HTTP/1.1\r\n")
            line.sock.settimeout(0.1)
            for _ in self.server.every(0):
                line.send("a: b\r\n")
                try:
                    if line.receive():
                        break
                except TimeoutError:
                    pass
            line.sock.settimeout(60)
            self.assert_error(line.answer(), 408, "request_timeout", "header-timeout")

    def test_a_body_that_does_not_come_gets_408(self):
        for framing in ("Content-Length: 10", "Transfer-Encoding: chunked"):
            answer = self.server.exchange(f"POST /echo HTTP/1.1\r\n{HOST}{framing}\r\n\r\n")
            self.assert_error(answer, 408, "request_timeout", "body-timeout")

    def test_a_large_body_that_came_fast_and_stops_gets_408_as_soon(self):
        with self.server.connect() as line:
            line.send(f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 3000000\r\n\r\n" + "x" * 2000000)  # at 16 KiB/s two minutes
            self.assert_error(line.answer(), 408, "request_timeout", "body-timeout")

    def test_an_idle_connection_is_closed_without_a_word(self):
        with self.server.connect() as line:
            self.assertTrue(line.is_closed())

    def test_a_client_that_takes_nothing_is_dropped_and_one_that_takes_slowly_is_served(self):
        with self.server.connect() as stuck, self.server.connect() as slow:
            stuck.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.send(post("/stream?frames=3000&bytes=10000", ""))
            slow.send(post("/stream?frames=300&bytes=10000", ""))
            n = 0
            while chunk := slow.sock.recv(100000):
                n += len(chunk)
                time.sleep(0.02)
                if n >= 3000000:
                    break
            self.assertGreaterEqual(n, 3000000)
            self.server.wait_until(lambda: self.server.metrics()["colibri_http_slow_readers_total"] == 1)
            self.assertIn("end=slow_client", self.server.wait_log("end=slow_client"))
            self.server.wait_until(lambda: self.server.metrics()["colibri_http_queued_bytes"] == 0)


class CrowdTest(ServerTest):
    PROGRAM = PROBE
    FLAGS = ("--max-connections", "50", "--max-body", "1M")

    def test_connections_beyond_the_limit_get_503_and_those_within_are_served(self):
        self.server.wait_until(lambda: self.server.metrics()["colibri_http_open_connections"] == 1)
        self.server.wait_until(lambda: self.server.open_files() < 20)
        lines = [self.server.connect() for _ in range(1000)]
        try:
            served = lines[:50]
            for line in served:
                line.send(post("/echo", "x"))
            for line in served:
                self.assertEqual(200, line.answer().status)
            answer = lines[60].answer()
            self.assert_error(answer, 503, "too_many_connections", 50)
            self.assertEqual("1", answer.headers["retry-after"])
            self.assertLess(self.server.open_files(), 400)
        finally:
            for line in lines:
                line.close()
        self.server.wait_until(lambda: self.server.get("/health").status == 200)

    def test_a_body_beyond_the_limit_gets_413_also_in_chunks(self):
        self.assert_error(self.server.exchange(post("/echo", "x" * (1 << 20) + "y")), 413, "body_too_large", 1 << 20)
        chunk = "10000\r\n" + "x" * 0x10000 + "\r\n"
        with self.server.connect() as line:
            line.send(f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n" + chunk * 17)
            self.assert_error(line.answer(), 413, "body_too_large")

    def test_a_handler_that_does_not_look_is_stopped(self):
        with self.server.connect() as line:
            line.send(post("/flood", ""))
            self.server.wait_log("path=/flood")
        self.assertIn("end=slow_client", self.server.wait_log("path=/flood"))
        metrics = self.server.metrics()
        self.assertEqual((1, 0), (metrics["colibri_http_slow_readers_total"], metrics["colibri_http_queued_bytes"]))


if __name__ == "__main__":
    unittest.main()
