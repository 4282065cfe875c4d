"""deploy/ray_serve.py on a Ray of this machine: answers and streams pass, conversations keep their replica, a server that dies is replaced.

Run by scripts/check_deploy.sh with the Python that has Ray; not part of the tests, for which Ray is too large.
"""
import asyncio
import json
import os
import signal
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "deploy")]
os.environ.setdefault("RAY_COLIBRI_PROGRAM", str(ROOT / "build" / "bin" / "colibri"))
os.environ |= {"RAY_COLIBRI_REPLICAS": "2", "RAY_COLIBRI_CPUS": "0", "COLIBRI_MODEL": str(ROOT / "models" / "colibri-tales-14m-q8_0.gguf"),
               "COLIBRI_HEAT_FILE": "off", "COLIBRI_PREFIX_CACHE": "16M", "COLIBRI_CONTEXT": "1024", "COLIBRI_DRAIN_TIMEOUT": "5", "PYTHONPATH": str(ROOT / "deploy"),
               "RAY_SERVE_ENABLE_HA_PROXY": "0"}

import http_stream  # noqa: E402
import ray  # noqa: E402
import ray_serve  # noqa: E402
from ray import serve  # noqa: E402

PORT = 18200


def ask(path, body=None, on_piece=None, **headers):
    target = http_stream.Target(f"http://127.0.0.1:{PORT}", headers)
    return asyncio.run(target.send("POST" if body else "GET", path, body, timeout=120, on_piece=on_piece))


def servers():
    """Process ids of the servers that replicas have started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = (folder.parent / (folder / "stat").read_text().rsplit(")", 1)[1].split()[1] / "cmdline").read_bytes()
        except OSError:
            continue
        if words[:2] == [os.environ["RAY_COLIBRI_PROGRAM"].encode(), b"serve"] and b"ray::" in parent:
            found.append(int(folder.name))
    return sorted(found)


class RayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        serve.run(ray_serve.app)

    @classmethod
    def tearDownClass(cls):
        serve.shutdown()
        ray.shutdown()

    def test_answers_pass_with_their_status(self):
        self.assertEqual("ok", json.loads(ask("/health").body)["status"])
        self.assertEqual(404, ask("/no/such/path").status)
        self.assertEqual(400, ask("/v1/completions", {"max_tokens": 1}).status)

    def test_a_stream_passes_in_pieces_and_whole(self):
        body = {"prompt": "Once upon a time", "max_tokens": 400, "temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        exchange = ask("/v1/completions", body)
        answer = http_stream.answer(exchange)
        self.assertTrue(answer.done)
        self.assertEqual(400, answer.usage["completion_tokens"])
        self.assertGreater(len(exchange.pieces), 5)
        once = http_stream.answer(ask("/v1/completions", {key: value for key, value in body.items() if not key.startswith("stream")}))
        self.assertEqual(once.text, answer.text)

    def test_a_conversation_keeps_its_replica(self):
        def cached(prompt):
            answer = http_stream.answer(ask("/v1/completions", {"prompt": prompt, "max_tokens": 2}, serve_multiplexed_model_id="conversation"))
            return answer.usage["prompt_tokens_details"]["cached_tokens"]
        cached("Hello")
        time.sleep(5)  # until Ray's proxies know who has the conversation
        for n in range(6):  # each prefix is where its first turn was answered, and nowhere else
            story = f"It was night number {n}, dark and stormy, and the rain fell in torrents. " * 8
            self.assertEqual(0, cached(story))
            self.assertGreater(cached(story + "Then"), 0)

    def test_zz_a_server_that_dies_is_replaced(self):
        before = servers()
        self.assertEqual(2, len(before))
        os.kill(before[0], signal.SIGKILL)
        for _ in range(240):
            if len(servers()) == 2 and before[0] not in servers():
                break
            time.sleep(0.5)
        self.assertNotIn(before[0], servers())
        self.assertEqual(2, len(servers()))
        self.assertEqual(200, ask("/health").status)


if __name__ == "__main__":
    unittest.main()
