"""The expert view and the system view in a real Chromium: what the stream says is what is drawn, read out, tabled and saved."""

import base64
import csv
import io
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from browser import PageTest  # noqa: E402
import fake_server  # noqa: E402

PIXELS = "(() => { const c = document.querySelector('#experts canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let h = 0; for (const x of d) h = (Math.imul(h, 31) + x) | 0; return h; })()"


class StillExperts:
    """Three layers of eight, all of it known; nothing moves after the first two frames."""

    def __init__(self):
        self.sent = 0

    def frame(self, first):
        self.sent += 1
        fresh = [0] * 24
        if self.sent == 2:
            fresh[8 + 3] = 5  # layer 4, expert 3
        total = list(range(24))
        bits = lambda *cells: base64.b64encode(sum(1 << cell for cell in cells).to_bytes(3, "little")).decode()
        frame = {
            "layers": 3,
            "experts": 8,
            "activations": base64.b64encode(struct.pack("<24H", *fresh)).decode(),
            "resident": bits(0, 1, 2, 11, 23),
            "reading": bits(12),
            "hit_rate": 0.75 if self.sent == 2 else None,
            "bytes_per_token": 3 << 20 if self.sent == 2 else None,
            "tokens_per_second": 12.5 if self.sent == 2 else None,
        }
        return (
            {
                **frame,
                "layer_numbers": [2, 4, 6],
                "top_k": 2,
                "total": base64.b64encode(struct.pack("<24I", *total)).decode(),
            }
            if first
            else frame
        )


class ExpertsTest(PageTest):
    def still(self):
        self.state.activity, self.state.frame_seconds = StillExperts(), 0.05
        self.open()
        self.page.wait_for_selector("[data-value=hit_rate]:text('75.0 %')")

    def cell(self):
        return self.page.locator("#cell").inner_text()

    def mode(self, name):
        self.page.locator("#experts .segments").get_by_role("button", name=name).click()

    def test_the_numbers_of_the_stream_are_shown(self):
        self.still()
        value = lambda name: self.page.locator(f"[data-value={name}]").inner_text()
        self.assertEqual(
            (value("tokens_per_second"), value("bytes_per_token"), value("resident")), ("12.5", "3.00 MiB", "5 / 24")
        )
        self.assertIn("Hit rate: 75 %", self.page.locator("#experts .spark svg").first.get_attribute("aria-label"))

    def test_the_arrow_keys_choose_a_cell_and_its_facts_are_read_out(self):
        self.still()
        self.page.locator("#experts canvas").focus()
        self.assertEqual(self.cell(), "Layer 2, expert 0: in memory, chosen 0 times, 0.0 % of the layer, rank 8 of 8.")
        for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
            self.page.keyboard.press(key)
        self.assertEqual(
            self.cell(),
            f"Layer 4, expert 3: in memory, chosen 16 times, {100 * 16 / 97:.1f} % of the layer, rank 1 of 8.",
        )
        self.page.keyboard.press("ArrowRight")
        self.assertIn("Layer 4, expert 4: being read, chosen 12 times", self.cell())
        for key, start in [
            ("End", "Layer 4, expert 7: on disk"),
            ("ArrowRight", "Layer 4, expert 7"),
            ("PageDown", "Layer 6, expert 7: in memory"),
            ("ArrowDown", "Layer 6"),
            ("Home", "Layer 6, expert 0"),
            ("PageUp", "Layer 2, expert 0"),
        ]:
            self.page.keyboard.press(key)
            self.assertTrue(self.cell().startswith(start), f"{key}: {self.cell()}")

    def test_pointing_and_clicking_find_the_same_cells(self):
        self.still()
        box = self.page.locator("#experts canvas").bounding_box()
        x, y = (
            box["x"] + 30 + 20 * 3 + 10,
            box["y"] + box["height"] / 2,
        )  # cells of a small model have their largest width, 20
        self.page.mouse.move(x, y)
        self.assertTrue(self.cell().startswith("Layer 4, expert 3: in memory"), self.cell())
        self.page.mouse.click(x, y)
        self.page.mouse.move(5, 300)
        self.assertTrue(self.cell().startswith("Layer 4, expert 3"), "a clicked cell stays")

    def test_the_table_says_what_the_drawing_shows(self):
        self.still()
        self.mode("Session")
        self.page.locator("#experts").get_by_role("button", name="Table").click()
        self.assertFalse(self.page.locator("#experts canvas").is_visible())
        rows = [row.split("\t") for row in self.page.locator("#experts tbody tr").all_inner_texts()]
        self.assertEqual(
            [row[:3] for row in rows], [["2", "3 of 8", "28"], ["4", "1 of 8", "97"], ["6", "1 of 8", "156"]]
        )
        self.assertTrue(rows[1][4].startswith("3 (16 %), 7 (15 %), 6 (14 %)"), rows[1])

    def until(self, changes):
        """Waits for half a second in which the drawing changes, or stays."""
        for _ in range(40):
            before = self.page.evaluate(PIXELS)
            self.page.wait_for_timeout(500)
            if (self.page.evaluate(PIXELS) != before) == changes:
                return True
        return False

    def test_the_drawing_lives_and_pauses(self):
        self.state.frame_seconds = 0.05
        self.open()
        self.page.wait_for_selector("#experts canvas")
        self.assertTrue(self.until(changes=True))
        self.button("Pause").click()
        self.assertTrue(self.until(changes=False))
        self.button("Go on").click()
        self.assertTrue(self.until(changes=True))

    def test_modes_and_places_look_different(self):
        self.still()
        seen = set()
        for mode in ("Session", "This answer"):
            self.mode(mode)
            seen.add(self.page.evaluate(PIXELS))
        self.button("Dark or light").click()
        seen.add(self.page.evaluate(PIXELS))
        self.assertEqual(len(seen), 3)
        colours = self.page.evaluate(
            """() => { const c = document.querySelector("#experts canvas"), d = c.getContext("2d");
          const at = (layer, expert, dx) => [...d.getImageData(30 + 20 * expert + dx, c.height / 3 * (layer + 0.5), 1, 1).data].join();
          return { memory: at(1, 3, 9), disk: at(1, 0, 9), corner: at(1, 0, 1), reading: at(1, 4, 1) }; }"""
        )
        self.assertEqual(len(set(colours.values())), 4, colours)

    def test_an_answer_shows_the_experts_that_wrote_it(self):
        self.open()
        self.say("Tell me a story")
        self.page.wait_for_selector("#experts canvas")
        self.answer().get_by_role("button", name="Show the experts of this answer").click()
        self.assertEqual(
            self.page.locator("#experts .segments [data-mode=answer]").get_attribute("aria-pressed"), "true"
        )
        self.page.locator("#experts").get_by_role("button", name="Table").click()
        used = fake_server.activations(
            __import__("random").Random(
                len(fake_server.words(fake_server.THOUGHT)) + len(fake_server.words(fake_server.STORY))
            )
        )["layers"][0]
        totals = {}
        for expert, times in used["experts"]:
            totals[expert] = times
        first = self.page.locator("#experts tbody tr").first.inner_text().split("\t")
        self.assertEqual((first[0], first[2]), (str(used["layer"]), str(sum(totals.values()))))
        self.assertIn("to first", self.answer().locator(".foot").inner_text())
        self.assertNotEqual(self.page.locator("[data-value=first]").inner_text(), "–")

    def test_csv_and_png_hold_what_is_shown(self):
        self.still()
        self.mode("Session")
        with self.page.expect_download() as download:
            self.button("CSV").click()
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
        self.assertEqual(len(rows), 24)
        self.assertEqual(rows[11], {"layer": "4", "expert": "3", "place": "in memory", "session": "16"})
        with self.page.expect_download() as download:
            self.button("PNG").click()
        self.assertEqual(Path(download.value.path()).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_the_stream_is_read_only_while_somebody_looks(self):
        self.open()
        self.page.wait_for_selector("#experts canvas")
        self.page.locator("#views").get_by_role("button", name="Experts").click()
        self.assertFalse(self.page.locator("#experts").is_visible())
        for _ in range(50):
            if self.state.gone:
                break
            self.page.wait_for_timeout(100)
        self.assertEqual(self.state.gone, 1)

    def test_a_server_without_experts_says_so(self):
        self.expected = ["status of 404"]
        self.state.experts = False
        self.open()
        self.page.wait_for_selector("text=This server does not tell about experts.")

    def test_a_stream_without_sense_is_refused_and_tried_again(self):
        self.state.activity = type("Odd", (), {"frame": lambda *_: {"layers": 1e9, "experts": -1}})()
        self.open()
        self.page.wait_for_selector("text=The expert stream has no sensible shape.")
        self.state.activity = fake_server.Experts()
        self.page.wait_for_selector("#experts canvas")


class SystemTest(PageTest):
    def open_system(self):
        self.open()
        self.page.locator("#views").get_by_role("button", name="System").click()
        self.page.wait_for_selector("#system >> text=Since the start")

    def test_the_plan_the_load_and_the_latencies_are_shown(self):
        self.open_system()
        text = self.page.locator("#system").inner_text()
        for part in (
            "840 of 1,536 (55 %)",
            "5.20 GiB",
            "8.00 GiB",
            "Keys and values",
            "avx2",
            "colibri 0.1.0",
            "8 min 32 s",
        ):
            self.assertIn(part, text)
        rows = {
            row.split("\t")[0]: row.split("\t")[1:]
            for row in self.page.locator("#system [aria-label=Latency] tbody tr").all_inner_texts()
        }
        self.assertEqual(rows["First token"], ["408 ms", "2.50 s", "100"])
        self.page.wait_for_selector("#system [aria-label=Now] >> text=/MiB.s/", timeout=8000)
        self.page.locator("#system summary").click()
        self.assertIn("expert_cache_policy\tauto\tdefault", self.page.locator("#system .settings").inner_text())

    def test_quantiles_are_those_of_prometheus(self):
        self.open()
        problem = self.page.evaluate("""async () => {
          const { parseMetrics, quantile, total } = await import("/ui/prometheus.js");
          const m = parseMetrics('# HELP x y\\nx_bucket{le="1"} 10\\nx_bucket{le="2"} 30\\nx_bucket{le="+Inf"} 40\\nx_sum 3\\nx_count 40\\ncolibri_c{a="q\\\\"}\\\\n,",b="2"} 1.5e3 1700000000\\nc{a="z"} 1\\nnan NaN\\n\\nodd');
          const near = (a, b) => a !== null && Math.abs(a - b) < 1e-12;
          if (!near(quantile(m, "x", 0.5), 1.5)) return "p50 " + quantile(m, "x", 0.5);
          if (!near(quantile(m, "x", 0.25), 1) || !near(quantile(m, "x", 0.99), 2)) return "edges";
          if (quantile(m, "none", 0.5) !== null || total(m, "none") !== null) return "missing";
          return total(m, "c") === 1501 && m.get("c")[0].labels.a === 'q"}\\n,' ? "" : JSON.stringify(m.get("c"));
        }""")
        self.assertEqual(problem, "")

    def test_loading_is_shown_until_the_model_is_there(self):
        self.expected = ["status of 503"]
        self.state.loading = True
        self.open(ready=False)
        self.page.wait_for_selector("text=The model is being loaded: 50 % of 5.00 GiB, about 7 s left")
        self.assertEqual(float(self.page.get_by_role("progressbar", name="Loading").get_attribute("value")), 0.5)
        self.state.loading = False
        self.page.wait_for_selector("#model:not(:empty)", state="attached")
        self.assertEqual(self.page.locator("#status").inner_text(), "")


if __name__ == "__main__":
    unittest.main()
