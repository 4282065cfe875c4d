"""The page as `colibri serve` gives it: an answer of the demo model, its experts, and what the System tab reads, in a real Chromium."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from browser import PageTest  # noqa: E402
from server.server import Server  # noqa: E402


class RealServerTest(PageTest):
    def setUp(self):
        super().setUp()
        self.real = self.enterContext(Server("--expert-memory", "50%"))
        host, port = self.real.address
        self.server.url = f"http://{host}:{port}"

    def test_an_answer_and_its_experts(self):
        self.open()
        self.say("Tell me a story about a kite.")
        body = self.answer().locator(".body")
        self.assertGreater(len(body.inner_text()), 20)
        self.assertIn("tok/s", self.answer().locator(".foot").inner_text())
        self.assertIn("colibri-tales", self.page.locator("#model").inner_text())
        before = self.page.locator("#experts canvas >> nth=0").screenshot()
        self.say("And then?")
        self.assertNotEqual(before, self.page.locator("#experts canvas >> nth=0").screenshot(), "the experts' map shows that they worked")


if __name__ == "__main__":
    unittest.main(verbosity=2)
