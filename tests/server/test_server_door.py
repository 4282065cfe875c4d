"""Who may come in: hosts, pages of other origins, API keys, limits of a client. With routes of probe.cc."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server import BIN, Server, ServerTest  # noqa: E402

PROBE = Path(BIN).with_name("colibri-http-probe")


class HostAndOriginTest(ServerTest):
    PROGRAM = PROBE
    FLAGS = ("--allowed-host", "llm.example,Other.Example", "--cors-origin", "https://chat.example,http://localhost:3000")

    def test_addresses_and_known_names_are_served(self):
        for host in ("localhost", "LOCALHOST:8080", "a.localhost", "127.0.0.1:1", "[::1]:8080", "10.1.2.3", "llm.example", "llm.example.:80",
                     "other.example"):
            with self.subTest(host):
                self.assertEqual(200, self.server.get("/health", {"Host": host}).status)

    def test_other_names_are_refused_so_that_no_page_can_point_its_own_name_at_us(self):
        for host in ("evil.example", "llm.example.evil.example", "localhost.evil.example", "127.0.0.1.evil.example"):
            with self.subTest(host):
                self.assert_error(self.server.get("/health", {"Host": host}), 403, "host_not_allowed", host, "--allowed-host")

    def test_pages_of_allowed_origins_may_call_and_others_may_not(self):
        answer = self.server.post("/echo", b"x", {"Origin": "https://chat.example"})
        self.assertEqual((200, "https://chat.example", "Origin"),
                         (answer.status, answer.headers["access-control-allow-origin"], answer.headers["vary"]))
        for origin in ("https://evil.example", "https://chat.example.evil.example", "http://chat.example", "null",
                       "https://chat.example:444", "HTTPS://CHAT.EXAMPLE"):
            with self.subTest(origin):
                answer = self.server.post("/echo", b"x", {"Origin": origin})
                self.assert_error(answer, 403, "origin_not_allowed", origin)
                self.assertNotIn("access-control-allow-origin", answer.headers)

    def test_its_own_page_may_call(self):
        answer = self.server.post("/echo", b"x", {"Host": "llm.example", "Origin": "https://llm.example"})
        self.assertEqual(200, answer.status)
        self.assertNotIn("access-control-allow-origin", answer.headers)

    def test_a_preflight_is_answered(self):
        asked = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST",
                 "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}
        answer = self.server.request("OPTIONS", "/echo", headers=asked)
        self.assertEqual(204, answer.status)
        self.assertEqual("http://localhost:3000", answer.headers["access-control-allow-origin"])
        self.assertIn("POST", answer.headers["access-control-allow-methods"])
        self.assertEqual("authorization,content-type,x-stainless-os", answer.headers["access-control-allow-headers"])
        self.assertEqual(403, self.server.request("OPTIONS", "/echo", headers=asked | {"Origin": "https://evil.example"}).status)

    def test_streams_and_errors_carry_the_origin_too(self):
        for path in ("/stream", "/throw"):
            answer = self.server.post(path, b"", {"Origin": "https://chat.example"})
            self.assertEqual("https://chat.example", answer.headers["access-control-allow-origin"])


class KeysTest(ServerTest):
    PROGRAM = PROBE

    def setUp(self):
        super().setUp()
        self.keys = self.folder / "keys"
        self.keys.write_text("# ours\nalice:sk-alice-0123456789\n\nsk-second-0123456789\r\n")
        self.keyed = self.start("--api-key-file", self.keys)

    def client(self, headers):
        answer = self.keyed.post("/echo", b"", headers)
        return answer.headers["x-client"] if answer.status == 200 else answer.status

    def test_a_key_opens_and_names_its_client(self):
        for headers, client in (({"Authorization": "Bearer sk-alice-0123456789"}, "alice"), ({"authorization": "bearer   sk-alice-0123456789"}, "alice"),
                                ({"x-api-key": "sk-alice-0123456789"}, "alice"), ({"api-key": "sk-second-0123456789"}, "key-4")):
            self.assertEqual(client, self.client(headers))

    def test_anything_else_is_401_and_says_how(self):
        answer = self.keyed.post("/echo", b"")
        self.assert_error(answer, 401, "invalid_api_key", "Authorization: Bearer")
        self.assertEqual("Bearer", answer.headers["www-authenticate"])
        for value in ("Bearer ", "Bearer", "Bearer sk-alice-012345678", "Bearer sk-alice-01234567890", "Bearer alice:sk-alice-0123456789",
                      "Basic sk-alice-0123456789", "sk-alice-0123456789", "Bearer " + "x" * 10000):
            with self.subTest(value[:40]):
                self.assertEqual(401, self.client({"Authorization": value}))

    def test_health_and_ready_need_none_and_metrics_does(self):
        self.assertEqual((200, 200, 401), tuple(self.keyed.get(path).status for path in ("/health", "/ready", "/metrics")))
        self.assertEqual(200, self.keyed.get("/metrics", {"x-api-key": "sk-alice-0123456789"}).status)

    def test_no_key_is_ever_logged(self):
        self.client({"Authorization": "Bearer sk-wrong-0123456789"})
        self.client({"Authorization": "Bearer sk-alice-0123456789"})
        self.assertEqual(0, self.keyed.stop())
        self.assertNotIn("0123456789", "\n".join(self.keyed.log))

    def test_sighup_reads_the_keys_again(self):
        self.keys.write_text("bob:sk-bob-0123456789")
        self.keyed.signal(1)
        self.keyed.wait_until(lambda: self.client({"x-api-key": "sk-bob-0123456789"}) == "bob")
        self.assertEqual(401, self.client({"x-api-key": "sk-alice-0123456789"}))

    def test_a_bad_file_leaves_the_keys_as_they_were(self):
        for text in ("", "short\n", "a:b c d e f g h i\n", "# nothing\n"):
            self.keys.write_text(text)
            self.keyed.signal(1)
        self.keys.unlink()
        self.keyed.signal(1)
        self.keyed.wait_log("stay as they were")
        self.assertEqual("alice", self.client({"x-api-key": "sk-alice-0123456789"}))


class ClientLimitsTest(ServerTest):
    PROGRAM = PROBE
    FLAGS = ("--client-requests", "2", "--client-rate", "1000")

    def test_a_client_with_too_much_running_gets_429_and_health_does_not_count(self):
        lines = [self.server.connect() for _ in range(2)]
        for line in lines:
            line.send("POST /hold HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        self.server.wait_until(lambda: self.server.metrics()["colibri_http_running_requests"] == 3)
        answer = self.server.post("/echo", b"")
        self.assert_error(answer, 429, "rate_limit_exceeded", "2")
        self.assertEqual("1", answer.headers["retry-after"])
        self.assertEqual(200, self.server.get("/health").status)
        for line in lines:
            line.close()
        self.server.wait_until(lambda: self.server.post("/echo", b"").status == 200)

    def test_a_client_that_asks_too_often_is_told_when(self):
        server = self.start("--client-rate", "2")
        self.assertEqual([200, 200], [server.post("/echo", b"").status for _ in range(2)])
        answer = server.post("/echo", b"")
        self.assert_error(answer, 429, "rate_limit_exceeded", "2 requests per minute")
        self.assertIn(int(answer.headers["retry-after"]), range(1, 31))

    def test_behind_a_trusted_proxy_each_client_has_limits_of_its_own(self):
        server = self.start("--client-rate", "1", "--trusted-proxy", "127.0.0.1")
        ask = lambda address: server.post("/echo", b"", {"X-Forwarded-For": address}).status  # noqa: E731
        self.assertEqual([200, 200, 429, 200], [ask(address) for address in ("1.2.3.4", "5.6.7.8", "9.9.9.9, 1.2.3.4", "2001:db8::1")])


if __name__ == "__main__":
    unittest.main()
