"""The page in a real Chromium, against a server whose answers follow a script (fake_server.py): chat, branches, errors, storage."""

import json
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from browser import PageTest  # noqa: E402


class ChatTest(PageTest):
    def test_an_answer_streams_and_markdown_becomes_elements(self):
        self.open()
        self.say("Tell me a story")
        body = self.answer().locator(".body")
        self.assertEqual(body.locator("h4").inner_text(), "The hummingbird and the clock")
        self.assertEqual(body.locator("ol > li").count(), 2)
        self.assertEqual(body.locator("ol > li > ul > li").inner_text(), "It was not sure about the second one.")
        self.assertEqual(body.locator("strong").first.inner_text(), "hummingbird")
        self.assertIn("return seconds * rate", body.locator("pre").inner_text())
        self.assertEqual(body.locator("pre .code-word").all_inner_texts(), ["def", "return"])
        self.assertEqual(body.locator("tbody tr").count(), 2)
        link = body.locator("a")
        self.assertEqual(
            (link.get_attribute("href"), link.get_attribute("rel")),
            ("https://example.org/station", "noopener noreferrer"),
        )
        foot = self.answer().locator(".foot").inner_text()
        for part in ("tok/s", "to first", "tokens", "1,024", "cached"):
            self.assertIn(part, foot)
        self.assertIn("of 8,192 tokens", self.page.locator("#context").inner_text())
        [request] = self.state.requests()
        self.assertEqual(request["messages"], [{"role": "user", "content": "Tell me a story"}])
        self.assertEqual(
            (request["stream"], request["stream_options"], request["return_progress"], request["expert_activations"]),
            (True, {"include_usage": True}, True, True),
        )
        self.assertEqual(request["model"], "qwen3-30b-a3b")
        self.assertNotIn("temperature", request, "what nobody set is the model's own")

    def test_thinking_is_folded_and_opens(self):
        self.open()
        self.say("Tell me a story")
        thinking = self.answer().locator("details")
        self.assertFalse(thinking.locator(".thought").is_visible())
        self.assertIn("Thought for", thinking.locator("summary").inner_text())
        thinking.locator("summary").click()
        self.assertIn("Something small, with a bird in it.", thinking.locator(".thought").inner_text())
        self.say("And then?")
        self.assertIn("Something small", self.state.requests()[1]["messages"][1]["reasoning_content"])

    def test_stop_ends_the_answer_and_the_request(self):
        self.open()
        self.say("endless", wait=False)
        self.page.wait_for_selector("text=word9 ")
        self.assertEqual(self.answer().get_attribute("aria-busy"), "true")
        self.assertFalse(self.button("Send").is_visible())
        self.button("Stop").click()
        self.page.wait_for_selector(".badge:text('stopped')")
        text = self.answer().locator(".body").inner_text()
        self.page.wait_for_timeout(200)
        self.assertEqual(self.answer().locator(".body").inner_text(), text)
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "prompt")
        for _ in range(50):
            if self.state.gone:
                break
            self.page.wait_for_timeout(100)
        self.assertEqual(self.state.gone, 1, "the server saw that nobody reads")
        self.say("endless again", wait=False)
        self.page.wait_for_selector("article:last-child >> text=word3 ")
        self.page.keyboard.press("Escape")
        self.page.wait_for_selector("article:last-child .badge:text('stopped')")

    def test_an_edited_message_is_a_branch_and_the_old_one_stays(self):
        self.open()
        self.say("echo one")
        self.say("echo two")
        first = self.page.locator("#thread > article").first
        first.hover()
        first.get_by_role("button", name="Edit and send again").click()
        self.page.get_by_label("Edit message").fill("echo three")
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#send:visible")
        self.assertEqual(self.page.locator("#thread .body").all_inner_texts(), ["echo three", "three"])
        self.assertEqual(self.state.requests()[-1]["messages"], [{"role": "user", "content": "echo three"}])
        self.assertEqual(first.locator(".branches").inner_text().strip(), "2/2")
        first.get_by_role("button", name="Earlier version").click()
        self.assertEqual(self.page.locator("#thread .body").all_inner_texts(), ["echo one", "one", "echo two", "two"])
        self.assertEqual(
            self.page.evaluate("document.activeElement.ariaLabel"), "Later version", "the focus stays in the message"
        )

    def test_regenerate_keeps_every_version(self):
        self.open()
        self.say("echo one")
        for expected in ("2/2", "3/3"):
            self.answer().get_by_role("button", name="Regenerate").click()
            self.page.wait_for_selector(f"article:last-child .branches:has-text('{expected}')")
        self.assertEqual(
            [request["messages"] for request in self.state.requests()], [[{"role": "user", "content": "echo one"}]] * 3
        )
        self.answer().get_by_role("button", name="Earlier version").click()
        self.assertIn("2/3", self.answer().locator(".branches").inner_text())

    def test_delete_takes_what_followed_and_undo_brings_it_back(self):
        self.open()
        self.say("echo one")
        self.say("echo two")
        first = self.page.locator("#thread > article").first
        first.hover()
        first.get_by_role("button", name="Delete message").click()
        self.assertEqual(self.page.locator("#thread > article").count(), 0)
        self.button("Undo").click()
        self.assertEqual(self.page.locator("#thread .body").all_inner_texts(), ["echo one", "one", "echo two", "two"])

    def test_tool_calls_are_shown_and_their_results_sent(self):
        self.open()
        self.say("use the tools")
        calls = self.page.locator(".tool-call")
        self.assertEqual(calls.locator("strong").all_inner_texts(), ["weather", "time"])
        self.assertEqual(json.loads(calls.first.locator("pre").inner_text()), {"city": "Quito"})
        self.page.get_by_label("Result of weather").fill("18 degrees")
        self.page.get_by_label("Result of time").fill("noon")
        calls.nth(1).get_by_role("button", name="Give result").click()
        self.assertEqual(len(self.state.requests()), 1, "one result is missing")
        self.page.get_by_label("Result of weather").fill("18 degrees")
        self.page.locator(".tool-call").first.get_by_role("button", name="Give result").click()
        self.page.wait_for_selector("text=It says: noon; 18 degrees")
        sent = self.state.requests()[-1]["messages"]
        self.assertEqual(
            [call["function"] for call in sent[1]["tool_calls"]],
            [
                {"name": "weather", "arguments": '{"city": "Quito"}'},
                {"name": "time", "arguments": '{"zone": "America/Guayaquil"}'},
            ],
        )
        self.assertEqual([(m["role"], m["tool_call_id"]) for m in sent[2:]], [("tool", "call_1"), ("tool", "call_0")])

    def test_a_slow_prompt_shows_its_place_and_its_progress(self):
        self.state.gate = threading.Event()
        self.open()
        self.say("slow", wait=False)
        self.page.wait_for_selector("text=Waiting for 2 other requests")
        self.state.gate.set()
        bar = self.page.get_by_role("progressbar", name="Prompt read")
        bar.wait_for()
        self.page.wait_for_selector(
            "text=/Reading the prompt: 1,024 of 2,048 tokens, 256 known already, about . s left/"
        )
        self.assertEqual(float(bar.get_attribute("value")), 0.5)
        self.state.gate.set()
        self.page.wait_for_selector("text=Read it all.")
        self.assertEqual(bar.count(), 0)

    def test_an_answer_that_was_cut_says_so(self):
        self.open()
        self.say("truncated")
        self.assertEqual(self.answer().locator(".badge").inner_text(), "truncated")

    def test_a_full_context_is_explained(self):
        self.expected = ["status of 400"]
        self.open()
        self.say("overflow")
        alert = self.answer().get_by_role("alert").inner_text()
        self.assertIn("maximum context length is 8192 tokens, but the prompt has 9000", alert)
        self.assertIn("Delete earlier messages", alert)
        self.assertIn("req-17", alert)
        self.answer().get_by_role("button", name="New chat").click()
        self.assertEqual(self.page.locator("#thread > article").count(), 0)

    def test_errors_keep_what_came_and_can_be_tried_again(self):
        self.expected = ["status of 429"]
        self.open()
        self.say("busy")
        self.assertIn(
            "The queue is full: 64 requests wait. (request req-17) Try again in 3 s.",
            self.answer().get_by_role("alert").inner_text(),
        )
        self.say("broken")
        self.assertEqual(self.answer().locator(".body").inner_text(), "Half an answer")
        self.assertIn("expert 3 of layer 7", self.answer().get_by_role("alert").inner_text())
        self.say("disconnect")
        self.assertIn("The connection ended before the answer did.", self.answer().get_by_role("alert").inner_text())
        self.answer().get_by_role("button", name="Try again").click()
        self.page.wait_for_selector("article:last-child .branches:has-text('2/2')")
        said = self.state.requests()[-1]["messages"]
        self.assertEqual(
            [m["role"] for m in said], ["user", "assistant", "user"], "an answer that never began is no turn"
        )

    def test_a_server_that_is_gone_is_named(self):
        self.expected = ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]
        self.open()
        self.server.stop()
        self.say("hello")
        self.assertIn("The server does not answer", self.answer().get_by_role("alert").inner_text())

    def test_settings_go_into_the_request_and_survive_a_reload(self):
        self.open()
        self.button("Settings").click()
        self.assertEqual(self.page.get_by_label("Temperature").get_attribute("placeholder"), "0.7 (model)")
        self.page.get_by_label("System prompt of this chat").fill("Be brief.")
        self.page.get_by_label("Temperature").fill("0.25")
        self.page.get_by_label("Seed").fill("7")
        self.page.get_by_label("Tools").fill("[{]")
        self.button("Save").click()
        self.assertIn("Not JSON", self.page.locator("#settings .problem").inner_text())
        self.page.get_by_label("Tools").fill('[{"type": "function", "function": {"name": "weather"}}]')
        self.button("Save").click()
        self.say("hello")
        request = self.state.requests()[0]
        self.assertEqual(request["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual(
            (request["temperature"], request["seed"], request["tools"][0]["function"]["name"]), (0.25, 7, "weather")
        )
        self.assertNotIn("top_p", request)
        self.open()
        self.button("Settings").click()
        self.assertEqual(self.page.get_by_label("Temperature").input_value(), "0.25")

    def test_the_end_of_the_text_is_followed_only_while_the_reader_is_there(self):
        self.open()
        self.say("Tell me a story")
        self.state.token_seconds = 0.01
        self.say("endless", wait=False)
        self.page.wait_for_selector("text=word60 ")
        at_end = "(() => { const m = document.querySelector('#messages'); return m.scrollHeight - m.scrollTop - m.clientHeight < 60; })()"
        self.assertTrue(self.page.evaluate(at_end))
        self.page.evaluate("document.querySelector('#messages').scrollTop = 0")
        self.page.wait_for_selector("text=word120 ")
        self.assertEqual(self.page.evaluate("document.querySelector('#messages').scrollTop"), 0)
        self.button("Latest").click()
        self.assertTrue(self.page.evaluate(at_end))

    def test_a_chat_goes_on_answering_while_another_is_shown(self):
        self.open()
        self.state.token_seconds = 0.01
        self.say("Tell me a story", wait=False)
        self.page.wait_for_selector("details.thinking")
        self.button("New chat").click()
        self.say("echo meanwhile")
        self.assertEqual(self.answer().locator(".body").inner_text(), "meanwhile")
        self.page.locator("#chat-list .title", has_text="story").click()
        self.page.wait_for_selector("text=the hours were full again", timeout=20000)


class KeyTest(PageTest):
    def setUp(self):
        super().setUp()
        self.expected = ["status of 401"]
        self.state.key = "right-key"

    def give(self, key):
        self.page.get_by_label("API key", exact=True).and_(self.page.locator("input")).fill(key)
        self.button("Continue").click()

    def test_the_key_is_asked_for_once_sent_and_stored_nowhere(self):
        self.open(ready=False)
        self.page.wait_for_selector("text=This server wants an API key")
        self.give("wrong-key")
        self.page.wait_for_selector("text=The server refused this key")
        self.give("right-key")
        self.page.wait_for_selector("#model:not(:empty)", state="attached")
        self.say("hello")
        self.assertIn("Hello", self.answer().inner_text())
        stored = self.page.evaluate("""async () => {
            const databases = await indexedDB.databases();
            const chats = await new Promise((done) => { indexedDB.open("colibri").onsuccess = (event) => {
              event.target.result.transaction("chats").objectStore("chats").getAll().onsuccess = (all) => done(all.target.result); }; });
            return JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie, chats, databases, document.documentElement.outerHTML]);
        }""")
        self.assertIn("hello", stored)
        self.assertNotIn("right-key", stored)
        self.page.reload()
        self.page.wait_for_selector("text=This server wants an API key")

    def test_without_a_key_the_answer_says_what_is_missing(self):
        self.open(ready=False)
        self.page.wait_for_selector("text=This server wants an API key")
        self.button("Cancel").click()
        self.page.wait_for_selector("text=The experts need the API key")
        self.assertEqual(self.page.locator("dialog[open]").count(), 0, "who said no is not asked again and again")
        self.say("hello", wait=False)
        self.page.locator("#key[open]").wait_for()
        self.button("Cancel").click()
        self.assertIn("A valid API key is needed", self.answer().get_by_role("alert").inner_text())
        self.answer().get_by_role("button", name="Try again").click()
        self.give("right-key")
        self.page.wait_for_selector("article:last-child .branches:has-text('2/2')")
        self.assertIn("Hello", self.answer().inner_text())
        self.page.wait_for_selector("#experts canvas")
        self.assertEqual(self.page.locator("#model").inner_text(), "qwen3-30b-a3b")


class StorageTest(PageTest):
    def titles(self):
        return self.page.locator("#chat-list .title").all_inner_texts()

    def test_chats_survive_a_reload_and_can_be_searched(self):
        self.open()
        self.say("echo apples and pears")
        self.button("New chat").click()
        self.say("echo plums")
        self.open()
        self.assertEqual(self.titles(), ["echo plums", "echo apples and pears"])
        self.page.get_by_label("Search chats").fill("PEARS apples")
        self.assertEqual(self.titles(), ["echo apples and pears"])
        self.page.locator("#chat-list .title").click()
        self.assertEqual(
            self.page.locator("#thread .body").all_inner_texts(), ["echo apples and pears", "apples and pears"]
        )

    def test_a_deleted_chat_is_gone_and_can_be_brought_back(self):
        self.open()
        self.say("echo apples")
        self.page.locator("#chat-list li").hover()
        self.button("Delete chat echo apples").click()
        self.page.wait_for_selector("text=No chats yet")
        self.button("Undo").click()
        self.page.wait_for_selector("#chat-list .title")
        self.open()
        self.assertEqual(self.titles(), ["echo apples"])

    def test_what_is_exported_can_be_imported(self):
        self.open()
        self.say("Tell me a story")
        self.answer().get_by_role("button", name="Regenerate").click()
        self.page.wait_for_selector("article:last-child .branches:has-text('2/2')")
        with self.page.expect_download() as download:
            self.button("Export this chat").click()
        exported = json.loads(Path(download.value.path()).read_text())
        self.assertEqual(download.value.suggested_filename, "Tell-me-a-story.json")
        self.page.locator("#chat-list li").hover()
        self.button("Delete chat Tell me a story").click()
        self.page.set_input_files(
            "#import",
            files=[{"name": "chat.json", "mimeType": "application/json", "buffer": json.dumps(exported).encode()}],
        )
        self.page.wait_for_selector(".branches:has-text('2/2')")
        with self.page.expect_download() as download:
            self.button("Export all").click()
        [again] = json.loads(Path(download.value.path()).read_text())["chats"]
        self.assertEqual(again["nodes"], exported["nodes"])

    def test_a_file_that_is_no_chat_is_refused_by_name(self):
        self.open()
        for text in ("not json", "[]", '{"chats": [{"version": 7}]}', "null"):
            self.page.set_input_files(
                "#import", files=[{"name": "odd.json", "mimeType": "application/json", "buffer": text.encode()}]
            )
            self.page.wait_for_selector("text=odd.json was not imported")
            self.button("Dismiss").click()

    def test_a_tree_from_a_file_has_no_loops_and_keeps_only_what_is_known(self):
        self.open()
        problem = self.page.evaluate("""async () => {
          const { Conversation } = await import("/ui/tree.js");
          const node = (id, role, children, more = {}) => ({ id, role, content: id, children, chosen: 99, ...more });
          const loop = Conversation.fromJSON({ version: 1, id: "../x", title: 7, root: { children: ["a", "a", "missing", 5] },
            nodes: [node("a", "user", ["b"]), node("b", "assistant", ["a", "b", "c"], { toolCalls: [null, { name: {} }], stats: { tokensPerSecond: "fast" }, experts: { layers: [{ layer: -1 }, { layer: 2, experts: [[1, 2], ["x"], [3, -4]] }] } }),
                    node("c", "system", []), null, 4] });
          const b = loop.path()[1];
          if (loop.path().map((at) => at.id).join() !== "a,b") return "path " + loop.path().map((at) => at.id);
          if (loop.id === "../x" || loop.title !== "") return "names";
          if (JSON.stringify(b.toolCalls) !== JSON.stringify(Array(2).fill({ id: "", name: "", arguments: "" }))) return JSON.stringify(b.toolCalls);
          if (b.stats.tokensPerSecond !== null || JSON.stringify(b.experts) !== '{"layers":[{"layer":2,"experts":[[1,2]]}]}') return JSON.stringify(b);
          const long = { version: 1, root: { children: ["n0"] }, nodes: Array.from({ length: 9999 }, (_, i) => node("n" + i, i % 2 ? "assistant" : "user", ["n" + (i + 1)])) };
          const chain = Conversation.fromJSON(long);
          if (chain.path().length !== 9999) return "chain";
          chain.remove(chain.path()[0]);
          return chain.nodes.size === 0 ? "" : "rest";
        }""")
        self.assertEqual(problem, "")

    def test_another_tab_sees_a_new_chat(self):
        self.open()
        other = self.context.new_page()
        other.goto(self.server.url)
        other.wait_for_selector("#chat-list")
        self.say("echo apples")
        other.wait_for_selector("#chat-list .title:has-text('echo apples')")


if __name__ == "__main__":
    unittest.main()
