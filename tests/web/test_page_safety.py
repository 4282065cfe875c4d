"""Nothing that a model, a file, a server or the browser's storage says becomes markup, and the page can be used by everybody:
hostile text in every place, random Markdown, names and roles, contrast, keyboard, phones, reduced motion."""

import json
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from browser import PHONE, PageTest  # noqa: E402

HOSTILE = [
    "<script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    "<svg/onload=window.owned=1>",
    "<iframe srcdoc='<script>parent.owned=1</script>'></iframe>",
    "[a](javascript:window.owned=1)",
    "[a](JaVa\tScRiPt:window.owned=1)",
    "[a](&#106;avascript:window.owned=1)",
    "[a](data:text/html,<script>window.owned=1</script>)",
    "[a](vbscript:x)",
    "[a](//evil.example)",
    "![a](https://evil.example/x.png)",
    "![a](javascript:window.owned=1)",
    '<https://evil.example/" onmouseover=window.owned=1>',
    "<javascript:window.owned=1>",
    'https://evil.example/"onmouseover=window.owned=1',
    "`<b>` **<i onclick=window.owned=1>x</i>** _[x](javascript:1)_",
    '```html" onload="window.owned=1\n<script>window.owned=1</script>\n```',
    "| <script>window.owned=1</script> | b |\n|---|---|\n| <img src=x onerror=window.owned=1> | [c](javascript:1) |",
    "# <style>body{display:none}</style>",
    "> <base href=https://evil.example/>",
    "- <form action=https://evil.example><input name=q></form>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "</p></article></body><h1>out</h1>",
    "$$<script>window.owned=1</script>$$",
    "\\(<img src=x onerror=window.owned=1>\\)",
    "\u202etxt.exe",
    "\ud83d\ude00 \u0000 end",
]

AUDIT = """() => {
  const bad = [];
  for (const element of document.querySelectorAll("#thread *, #chats *, #system *, #bar *, #experts *")) {
    if (["script", "img", "iframe", "style", "form", "meta", "base", "object", "embed", "link"].includes(element.localName)
        && !element.matches("#bar h1 img, form.edit, .tool-call form")) bad.push(element.outerHTML);
    for (const { name, value } of element.attributes) if (/^on/.test(name) || /^(src|srcdoc|action|formaction)$/.test(name) && !element.matches("#bar h1 img")) bad.push(element.outerHTML);
    if (element.localName === "a" && (!/^(https?|mailto):/.test(element.href) || !element.rel.includes("noopener"))) bad.push(element.outerHTML);
  }
  if (window.owned) bad.push("ran");
  return bad;
}"""

# Random Markdown, its invariants, and streaming: what grew piece by piece looks like what came at once.
FUZZ = """async ([seed, rounds]) => {
  const { MarkdownView } = await import("/ui/markdown.js");
  let state = seed;
  const random = (n) => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.floor((state / 2 ** 32) * n); };
  const parts = ["*", "**", "***", "_", "__", "~~", "`", "``", "```", "```js\\n", "~~~\\n", "\\n", "\\n\\n", "# ", "###### ", "- ", "1. ", "10) ", "  ", "    ", "> ", "|", "|---|", ":-:|", "[", "]", "(", ")", "](", "![", "<", ">", "\\\\", "$", "$$", "\\\\(", "\\\\)",
    "https://a.example/x", "javascript:alert(1)", "mailto:a@b.example", "<script>", "</div>", "&lt;", "&#x6a;", "word", "ünïcode 鳥", "\\u202e", "\\t", "[x] ", "[ ] ", "---", "===", "0", "\\ud800", "\\r\\n", "<https://b.example>", "onerror=x"];
  const allowed = new Set("a br blockquote code del div em h3 h4 h5 h6 hr button li ol p path pre span strong svg table tbody td th thead tr ul".split(" "));
  const attributes = new Set("href target rel title class start role aria-label aria-hidden tabindex type viewBox d scope".split(" "));
  for (let round = 0; round < rounds; ++round) {
    const text = Array.from({ length: 1 + random(40) }, () => parts[random(parts.length)]).join("");
    const whole = document.createElement("div"), grown = document.createElement("div");
    new MarkdownView(whole).show(text);
    const growing = new MarkdownView(grown);
    for (let end = random(4); end < text.length; end += 1 + random(9)) growing.show(text.slice(0, end));
    growing.show(text);
    if (whole.innerHTML !== grown.innerHTML) return "streaming differs: " + JSON.stringify(text);
    for (const element of whole.querySelectorAll("*")) {
      if (!allowed.has(element.localName)) return element.localName + ": " + JSON.stringify(text);
      for (const { name, value } of element.attributes) if (!attributes.has(name) || (name === "href" && !/^(https?|mailto):/.test(value))) return name + "=" + value + ": " + JSON.stringify(text);
    }
    const letters = (string) => (string.match(/word|ünïcode|javascript/g) ?? []).length;
    if (letters(whole.textContent) < letters(text.replace(/\\[[ xX]\\]/g, "")) - letters(text.match(/```[^\\n]*|~~~[^\\n]*/g)?.join() ?? "") - letters(text.match(/\\]\\([^)]*/g)?.join() ?? "") - letters((text.match(/\\|.*\\n/g) ?? []).join())) return "text was lost: " + JSON.stringify(text);
  }
  return "";
}"""

HUGE = """async () => {
  const { MarkdownView } = await import("/ui/markdown.js");
  const { highlight } = await import("/ui/highlight.js");
  const n = 20000, bits = ["*", "**", "***a", "_", "`", "``` ", "[", "](", "[a](", "![", "<", "> ", "- ", "1. ", "|", "| a |\\n|---|\\n", "|-", "#", "# ", "\\\\(", "$", "$a", "~~", "https://", "https://a.b/)", "a ", " ", "\\n", "\\n\\n", "> - ", "  - a\\n", "[a](b \\"", "[a](<", "\\\\", "`a``", "*a _b ", "<https://", "- [ ] "];
  for (const bit of bits) for (const [head, tail] of [["", ""], ["x ", " x"], ["# ", "x"], ["```", "`"], ["a|b\\n---", "x"], ["[a](", "x"], ["` ", "x`"]]) {
    new MarkdownView(document.createElement("div")).show(head + bit.repeat(Math.ceil(n / bit.length)) + tail);
  }
  for (const language of ["js", "python", "html", "json", "sql", "sh", "diff", "c"]) for (const bit of ["\\"", "'", "`", "/*", "*/", "#", "//", "<!--", "\\\\", "0", "a(", "'''", "0x", "1e", " ", "-"]) highlight(bit.repeat(90000 / bit.length), language);
  return "done";
}"""

CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const luminance = ([r, g, b]) => [r, g, b].map((c) => (c /= 255, c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => { for (; element; element = element.parentElement) { const colour = rgba(getComputedStyle(element).backgroundColor); if (colour[3] > 0.99) return colour; } return [255, 255, 255, 1]; };
  const bad = new Set();
  let seen = 0;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const style = getComputedStyle(element);
    if (!own && !element.placeholder || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.disabled || element.closest(".visually-hidden, .skip, noscript") || !element.getClientRects().length) continue;
    ++seen;
    const text = rgba(own ? style.color : getComputedStyle(element, "::placeholder").color), [a, b] = [luminance(text), luminance(ground(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(`${element.localName}.${element.className} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return [seen, [...bad]];
}"""

UNNAMED = """() => [...document.querySelectorAll("button, a, input, textarea, select, canvas, progress, meter, dialog, [role], [tabindex='0']")].filter((element) => {
  if (!element.checkVisibility() || element.getAttribute("aria-hidden") === "true" || ["status", "alert", "log"].includes(element.getAttribute("role"))) return false;
  const labels = (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("") || [...(element.labels ?? [])].map((label) => label.textContent).join("");
  return !(element.getAttribute("aria-label") || labels || (["button", "a"].includes(element.localName) && element.textContent.trim()));
}).map((element) => element.outerHTML.slice(0, 160))"""


class SafetyTest(PageTest):
    def test_hostile_text_stays_text_wherever_it_comes_from(self):
        self.open()
        for text in HOSTILE:
            self.say(f"echo {text}")
            self.assertEqual(self.page.evaluate(AUDIT), [], text)
        shown = self.page.locator("#thread").inner_text()
        for part in (
            "<script>window.owned=1</script>",
            "onerror=window.owned=1",
            "javascript:window.owned=1",
            "</p></article></body>",
        ):
            self.assertIn(part, shown)

    def test_hostile_chats_stay_text(self):
        self.open()
        evil = "<img src=x onerror=window.owned=1>\n\n[x](javascript:window.owned=1)"
        chat = {
            "version": 1,
            "id": '"><script>window.owned=1</script>',
            "title": evil,
            "system": evil,
            "root": {"children": ["a"], "chosen": 0},
            "nodes": [
                {"id": "a", "role": "user", "content": evil, "children": ["b"]},
                {
                    "id": "b",
                    "role": "assistant",
                    "content": evil,
                    "reasoning": evil,
                    "finish": "tool_calls",
                    "error": evil,
                    "model": evil,
                    "toolCalls": [{"id": evil, "name": evil, "arguments": evil}],
                    "children": ["c"],
                },
                {"id": "c", "role": "tool", "toolCallId": evil, "content": evil, "children": []},
                {"id": "__proto__", "role": "user", "content": evil, "children": []},
            ],
        }
        self.page.set_input_files(
            "#import", files=[{"name": "<b>.json", "mimeType": "application/json", "buffer": json.dumps(chat).encode()}]
        )
        self.page.wait_for_selector(".tool-call")
        self.assertEqual(self.page.evaluate(AUDIT), [])
        self.open()
        self.page.locator("#chat-list .title").click()
        self.page.locator("summary").first.click()
        self.assertEqual(self.page.evaluate(AUDIT), [])

    def test_a_hostile_server_stays_text(self):
        self.state.model = "<img src=x onerror=window.owned=1>"
        self.state.metrics = (
            'colibri_requests_running{a="<script>"} <img>\ncolibri_time_to_first_token_seconds_bucket{le="<b>"} 1\n{{{\nx{y="'
            + "\\" * 5000
        )
        self.state.props = {
            "model_alias": "<b>",
            "build_info": "<script>",
            "plan": {"budget_bytes": "<b>", "dense_bytes": "<i>", "kv_bytes": -1},
            "settings": [{"key": "<script>window.owned=1</script>", "value": "<b>"}, {}],
            "default_generation_settings": {"n_ctx": "<b>", "params": "<b>"},
            "model": {"family": "<img src=x onerror=window.owned=1>", "n_layers": "<b>"},
        }
        self.open()
        self.page.locator("#views").get_by_role("button", name="System").click()
        self.page.wait_for_selector("#system >> text=Since the start")
        self.assertEqual(self.page.evaluate(AUDIT), [])
        self.assertEqual(self.page.locator("#model").inner_text(), self.state.model)

    def test_random_markdown_makes_only_harmless_elements_and_streams_to_the_same(self):
        self.open()
        for seed in range(4):
            self.assertEqual(self.page.evaluate(FUZZ, [seed, 700]), "")

    def test_no_markdown_takes_more_than_linear_time(self):
        self.open()
        self.assertEqual(self.page.evaluate(HUGE), "done")


class EverybodyTest(PageTest):
    def test_everything_has_a_name_and_the_page_its_landmarks(self):
        self.open()
        self.say("Tell me a story")
        self.say("use the tools")
        tree = self.page.locator("body").aria_snapshot()
        for part in (
            "- banner:",
            '- navigation "Views":',
            '- complementary "Chats":',
            '- main "Conversation":',
            '- region "Experts":',
            '- article "You":',
            '- article "Model":',
            '- form "Message":',
            '- heading "Colibri" [level=1]',
            '- textbox "Message"',
            '- textbox "Result of weather"',
            '- application "Experts by layer. Arrow keys choose one."',
            '- log "Announcements"',
            '- searchbox "Search chats"',
        ):
            self.assertIn(part, tree)
        self.assertNotRegex(tree, r"(?m)^\s*- (button|link|textbox|img|region)\s*:?$")
        self.assertEqual(self.page.evaluate(UNNAMED), [])
        self.page.locator("#views").get_by_role("button", name="System").click()
        self.page.wait_for_selector("#system >> text=Since the start")
        self.assertIn('- region "Memory plan"', self.page.locator("#system").aria_snapshot())
        self.button("Settings").click()
        self.assertIn('- dialog "Settings"', self.page.locator("body").aria_snapshot())
        self.assertEqual(self.page.evaluate(UNNAMED), [])

    def test_an_answer_is_announced_in_sentences(self):
        self.open()
        self.page.evaluate(
            """() => { window.heard = []; new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((node) => heard.push(node.textContent)))).observe(document.querySelector("#live"), { childList: true }); }"""
        )
        self.say("echo " + "The bird went up and down, and then it rested for a while. " * 8)
        self.page.wait_for_timeout(100)
        heard = self.page.evaluate("heard")
        self.assertEqual(heard[-1], "Answer complete.")
        self.assertLess(len(heard), 7)
        self.say("Tell me a story")
        heard = self.page.evaluate("heard")[len(heard) :]
        self.assertGreater(len(heard), 2)
        self.assertIn("Every morning she counted its ticks", "".join(heard))

    def test_text_has_contrast_in_both_themes(self):
        self.expected = ["status of 400"]
        self.open()
        self.say("Tell me a story")
        self.page.locator("summary").first.click()
        for text in ("use the tools", "overflow", "truncated"):
            self.say(text)
        self.page.locator("#views").get_by_role("button", name="System").click()
        self.page.wait_for_selector("#system >> text=Since the start")
        for theme in ("light", "dark"):
            self.assertEqual(self.page.evaluate("document.documentElement.dataset.theme"), theme)
            for view in ("System", "Experts"):
                if (
                    self.page.locator("#views").get_by_role("button", name=view).get_attribute("aria-pressed")
                    == "false"
                ):
                    self.page.locator("#views").get_by_role("button", name=view).click()
                seen, bad = self.page.evaluate(CONTRAST)
                self.assertGreater(seen, 60)
                self.assertEqual(bad, [], f"{theme}, {view}")
            self.button("Dark or light").click()

    def test_the_keyboard_reaches_everything_and_shows_where_it_is(self):
        self.open()
        self.say("Tell me a story")
        self.page.evaluate("document.activeElement.blur()")
        seen = []
        for _ in range(60):
            self.page.keyboard.press("Tab")
            name, outlined = self.page.evaluate(
                """() => { const at = document.activeElement, style = getComputedStyle(at);
              const composer = at.id === "prompt" && getComputedStyle(document.querySelector("#composer")).boxShadow !== "none";
              if (at === document.body) return ["BODY", true]; return [at.ariaLabel || at.id || at.textContent.trim().slice(0, 30), composer || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2)]; }"""
            )
            if seen and name == seen[0]:
                break
            seen.append(name)
            self.assertTrue(outlined or name == "BODY", name)
        start = seen.index("Skip to the message field")
        seen = seen[start:] + seen[:start]
        order = [
            "Skip to the message field",
            "Chats",
            "Experts",
            "System",
            "Dark or light",
            "New chat",
            "Search chats",
            "Edit and send again",
            "Copy code",
            "Regenerate",
            "prompt",
            "Settings",
            "Send",
            "Pause",
            "Session",
            "Experts by layer. Arrow keys choose one.",
        ]
        places = [
            next(
                (
                    i
                    for i, name in enumerate(seen)
                    if name in (wanted, {"New chat": "new-chat", "Chats": "Chats"}.get(wanted))
                ),
                None,
            )
            for wanted in order
        ]
        self.assertNotIn(None, places, list(zip(order, places)) + seen)
        self.assertEqual(places, sorted(places), seen)

    def test_the_theme_follows_the_system_until_it_is_chosen(self):
        theme = "document.documentElement.dataset.theme"
        self.page.emulate_media(color_scheme="dark")
        self.open()
        self.assertEqual(self.page.evaluate(theme), "dark")
        self.page.emulate_media(color_scheme="light")
        self.page.wait_for_selector("html[data-theme=light]")
        self.button("Dark or light").click()
        self.assertEqual(self.page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(17, 21, 20)")
        self.open()
        self.assertEqual(self.page.evaluate(theme), "dark")

    def test_reduced_motion_stops_what_moves(self):
        self.page.emulate_media(reduced_motion="reduce")
        self.open()
        self.say("endless", wait=False)
        self.page.wait_for_selector("text=word3 ")
        moving = self.page.evaluate("document.getAnimations().length")
        self.assertEqual(moving, 0)
        self.page.emulate_media(reduced_motion="no-preference")
        self.page.wait_for_timeout(100)
        self.assertGreater(self.page.evaluate("document.getAnimations().length"), 0)
        self.button("Stop").click()


class PhoneTest(PageTest):
    viewport, options = PHONE, {"has_touch": True, "is_mobile": True, "device_scale_factor": 2}

    def sideways(self):
        return self.page.evaluate(
            """() => [...document.querySelectorAll("body, body *")].filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".visually-hidden, .skip, .code pre, .table-scroll, .tool-call pre")
            && (element.getBoundingClientRect().right > innerWidth + 0.5 || element.getBoundingClientRect().left < -0.5)).map((element) => element.outerHTML.slice(0, 120))
            .concat(document.scrollingElement.scrollWidth > innerWidth ? ["scrolls"] : [])"""
        )

    def test_nothing_is_wider_than_a_phone(self):
        self.expected = ["status of 400"]
        self.open()
        self.assertEqual(self.sideways(), [])
        for text in (
            "Tell me a story",
            "use the tools",
            "overflow",
            "echo " + "x" * 400,
            "echo `" + "y" * 300 + "` https://a.example/" + "z" * 300,
        ):
            self.say(text)
            self.assertEqual(self.sideways(), [], text)
        for view in ("Experts", "System"):
            self.page.locator("#views").get_by_role("button", name=view).click()
            self.page.wait_for_selector(
                {"Experts": "#experts canvas", "System": "#system >> text=Since the start"}[view]
            )
            self.assertEqual(self.sideways(), [], view)
            self.assertFalse(self.page.locator("#chat").is_visible())
        self.page.locator("#views").get_by_role("button", name="Chat").click()
        self.button("Settings").click()
        self.assertEqual(self.sideways(), [])

    def test_the_list_of_chats_opens_over_the_chat_and_goes_away(self):
        self.open()
        self.say("echo apples")
        chats = self.page.locator("#chats")
        self.assertFalse(chats.is_visible())
        self.button("Chats").click()
        self.assertTrue(chats.is_visible())
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "search")
        self.page.keyboard.press("Escape")
        chats.wait_for(state="hidden")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "menu")
        self.button("Chats").click()
        self.button("New chat").click()
        chats.wait_for(state="hidden")
        self.assertEqual(self.page.locator("#thread > article").count(), 0)


if __name__ == "__main__":
    unittest.main()
