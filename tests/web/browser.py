"""A Chromium for the page's tests: Debian's, driven by Playwright from PyPI, which is installed beside the build on first use.

PageTest gives each case a fresh profile and a fresh server, and afterwards demands that the page threw nothing, broke no rule of
its security policy, logged no error that the case did not expect, and asked nobody but its own server.
"""

import fcntl
import os
import subprocess
import sys
import unittest
from pathlib import Path

import fake_server

HERE = Path(__file__).resolve().parent
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 360, "height": 740}


def build_folder():
    return Path(os.environ.get("COLIBRI_BIN", HERE.parents[1] / "build/bin/colibri")).resolve().parents[1]


def install_playwright():
    """Makes build/web-venv, and puts its packages on our path."""
    venv = build_folder() / "web-venv"
    python, done = venv / "bin/python", venv / "installed"
    wanted = (HERE / "requirements.txt").read_text()
    with open(build_folder() / "web-venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not done.exists() or done.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
            subprocess.run(
                [python, "-m", "pip", "install", "-q", "--only-binary", ":all:", "-r", HERE / "requirements.txt"],
                check=True,
            )
            done.write_text(wanted)
    sys.path.append(str(next(venv.glob("lib/python*/site-packages"))))


def launch(playwright):
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium has none for root
    return playwright.chromium.launch(executable_path="/usr/bin/chromium", args=[*sandbox, "--disable-dev-shm-usage"])


class PageTest(unittest.TestCase):
    viewport, options = WIDE, {}

    @classmethod
    def setUpClass(cls):
        install_playwright()
        from playwright.sync_api import sync_playwright

        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = launch(cls.playwright)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.server = fake_server.Server().start()
        self.addCleanup(self.server.stop)
        self.state = self.server.state
        self.complaints, self.asked, self.expected = [], [], []
        self.context = self.browser.new_context(viewport=self.viewport, **self.options)
        self.context.set_default_timeout(30000)
        self.addCleanup(self.context.close)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(f"threw {error}"))
        self.page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def tearDown(self):
        surprises = [text for text in self.complaints if not any(part in text for part in self.expected)]
        self.assertEqual(surprises, [])
        self.assertEqual(
            [url for url in self.asked if not url.startswith((self.server.url, "blob:" + self.server.url))], []
        )

    def open(self, ready=True):
        self.page.goto(self.server.url)
        if ready:
            self.page.wait_for_selector("#model:not(:empty)", state="attached")

    def say(self, text, wait=True):
        self.page.fill("#prompt", text)
        self.page.keyboard.press("Enter")
        if wait:
            self.page.wait_for_selector("#send:visible")

    def answer(self):
        """The last message."""
        return self.page.locator("#thread > article").last

    def button(self, name, **options):
        return self.page.get_by_role("button", name=name, exact=True, **options)
