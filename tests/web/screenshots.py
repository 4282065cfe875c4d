#!/usr/bin/env python3
"""Takes the pictures of docs/images: screenshots.py [URL OF A SERVER [WHAT TO SAY TO IT]]. Without one, from the scripted server.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import browser  # noqa: E402
import fake_server  # noqa: E402

PICTURES = [("page-light", {"width": 1160, "height": 740}, "light", 1), ("page-phone-dark", {"width": 360, "height": 740}, "dark", 1.5)]


def take(page, url, text, phone, path):
    page.goto(url)
    page.wait_for_selector("#model:not(:empty)", state="attached")
    page.fill("#prompt", text)
    page.keyboard.press("Enter")
    page.wait_for_selector("#thread .stat", state="attached", timeout=120000)
    page.evaluate("document.querySelector('#messages').scrollTop = 0")
    page.wait_for_timeout(1000)
    if phone:
        page.locator("#views [data-view=experts]").click()
        page.wait_for_timeout(1500)
    page.screenshot(path=path)
    print(path, path.stat().st_size)


def main(url=None, text="Tell me a story about a hummingbird."):
    browser.install_playwright()
    from playwright.sync_api import sync_playwright

    server = None
    if url is None:
        server = fake_server.Server().start()
        server.state.model, server.state.token_seconds, url = "scripted-example", 0.02, server.url
    folder = fake_server.ROOT / "docs/images"
    folder.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        chromium = browser.launch(playwright)
        for name, size, scheme, scale in PICTURES:
            page = chromium.new_context(viewport=size, color_scheme=scheme, device_scale_factor=scale).new_page()
            take(page, url, text, "phone" in name, folder / f"{name}.png")
            page.context.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
