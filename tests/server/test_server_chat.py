"""POST /v1/chat/completions against a real server: whole and streamed answers, their order, numbers and limits."""
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from server.api import at_once, chat, stream, streamed_text
from server.server import ServerTest

CHAT = "/v1/chat/completions"
HELLO = "Hello! Who are you?"


class ChatTest(ServerTest):
    def ask(self, body, status=200):
        answer = self.server.post(CHAT, body)
        self.assertEqual(status, answer.status, answer)
        return answer.json()

    def text(self, body):
        return self.ask(body)["choices"][0]["message"]["content"]

    def test_a_whole_answer_has_what_strict_clients_want(self):
        answer = self.ask(chat(HELLO, model="any name", max_tokens=64))
        self.assertLessEqual({"id", "object", "created", "model", "choices", "usage", "timings"}, set(answer))
        self.assertEqual(("chat.completion", "any name"), (answer["object"], answer["model"]))
        self.assertTrue(answer["id"].startswith("chatcmpl-"))
        (choice,) = answer["choices"]
        self.assertEqual((0, "stop", None), (choice["index"], choice["finish_reason"], choice["logprobs"]))
        self.assertEqual("assistant", choice["message"]["role"])
        self.assertTrue(choice["message"]["content"].strip())
        self.assertNotIn("<|im_end|>", choice["message"]["content"])
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertEqual(0, usage["completion_tokens_details"]["reasoning_tokens"])
        self.assertEqual(usage["prompt_tokens"], answer["timings"]["prompt_n"] + answer["timings"]["cache_n"])
        self.assertEqual(usage["completion_tokens"], answer["timings"]["predicted_n"])
        prompt = self.server.post("/apply-template", {"messages": chat(HELLO)["messages"]}).json()["prompt"]
        ids = self.server.post("/tokenize", {"content": prompt}).json()["tokens"]
        self.assertEqual(len(ids), usage["prompt_tokens"])

    def test_tools_that_the_template_would_leave_out_are_refused(self):
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        answer = self.server.post(CHAT, chat(HELLO, tools=tools))
        self.assert_error(answer, 400, "unsupported_parameter", "chat template", "tools")
        self.assertEqual("tools", answer.json()["error"]["param"])
        self.ask(chat(HELLO, tools=tools, tool_choice="none", max_tokens=2))

    def test_a_stream_is_the_whole_answer_in_the_order_that_clients_rely_on(self):
        whole = self.ask(chat(HELLO))
        with stream(self.server, CHAT, chat(HELLO, stream=True, stream_options={"include_usage": True})) as events:
            self.assertEqual("no-cache", events.headers["cache-control"])
            self.assertEqual("no", events.headers["x-accel-buffering"])
            chunks = events.chunks()
        self.assertNotIn(b"\nid:", events.raw)
        self.assertEqual(1, len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}))
        self.assertEqual("chat.completion.chunk", chunks[0]["object"])
        self.assertEqual({"role": "assistant", "content": ""}, chunks[0]["choices"][0]["delta"])
        self.assertEqual(whole["choices"][0]["message"]["content"], streamed_text(chunks))
        reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
        self.assertEqual([None] * (len(reasons) - 1) + [whole["choices"][0]["finish_reason"]], reasons)
        self.assertEqual({}, chunks[-2]["choices"][0]["delta"])
        self.assertEqual([], chunks[-1]["choices"])
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(whole["usage"][name], chunks[-1]["usage"][name])

    def test_no_usage_chunk_that_nobody_asked_for(self):
        with stream(self.server, CHAT, chat(HELLO, stream=True)) as events:
            chunks = events.chunks()
        self.assertTrue(all(len(chunk["choices"]) == 1 and "usage" not in chunk for chunk in chunks))

    def test_the_same_request_gives_the_same_tokens_alone_and_among_others(self):
        sampled = chat("Tell me a story.", temperature=0.9, seed=7, max_tokens=40)
        alone = self.text(sampled)
        others = [chat(f"Count to {i}. Tell me a story about a cat.", temperature=1, seed=i, max_tokens=40) for i in range(8)]
        crowd = at_once([lambda body=body: self.text(body) for body in [sampled, *others, sampled]])
        self.assertEqual([alone, alone], [crowd[0], crowd[-1]])
        with stream(self.server, CHAT, sampled | {"stream": True}) as events:
            self.assertEqual(alone, streamed_text(events.chunks()))

    def test_n_answers_count_seeds_on(self):
        body = chat("Tell me a story.", temperature=1, seed=100, max_tokens=16)
        single = [self.text(body | {"seed": 100 + i}) for i in range(3)]
        answer = self.ask(body | {"n": 3})
        self.assertEqual([0, 1, 2], [choice["index"] for choice in answer["choices"]])
        self.assertEqual(single, [choice["message"]["content"] for choice in answer["choices"]])
        self.assertEqual(self.ask(body)["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"], "a prompt counts once")
        with stream(self.server, CHAT, body | {"n": 3, "stream": True}) as events:
            chunks = events.chunks()
        self.assertEqual(single, [streamed_text(chunks, i) for i in range(3)])

    def test_without_a_seed_answers_differ(self):
        body = chat("Tell me a story.", temperature=2, max_tokens=30)
        self.assertGreater(len({self.text(body) for _ in range(4)}), 1)

    def test_stop_strings_cut_exactly_wherever_tokens_end(self):
        whole = self.text(chat(HELLO, max_tokens=40))
        for i in range(1, len(whole) - 5, 3):
            stop = whole[i:i + 5]
            expected = whole[:whole.index(stop)]
            with self.subTest(stop):
                answer = self.ask(chat(HELLO, max_tokens=40, stop=["\x01", stop]))["choices"][0]
                self.assertEqual((expected, "stop"), (answer["message"]["content"], answer["finish_reason"]))
        with stream(self.server, CHAT, chat(HELLO, max_tokens=40, stop=whole[3:9], stream=True)) as events:
            self.assertEqual(whole[:whole.index(whole[3:9])], streamed_text(events.chunks()))
        self.assertEqual("", self.text(chat(HELLO, max_tokens=40, stop=whole[0])), "the stop string is the whole answer's beginning")

    def test_limits_of_length(self):
        answer = self.ask(chat(HELLO, max_tokens=3))
        self.assertEqual("length", answer["choices"][0]["finish_reason"])
        self.assertEqual(3, answer["usage"]["completion_tokens"])
        self.assertEqual(2, self.ask(chat(HELLO, max_tokens=3, max_completion_tokens=2))["usage"]["completion_tokens"])

    def test_logprobs_belong_to_the_text(self):
        answer = self.ask(chat(HELLO, logprobs=True, top_logprobs=3))["choices"][0]
        entries = answer["logprobs"]["content"]
        self.assertEqual(answer["message"]["content"].encode(), b"".join(bytes(entry["bytes"]) for entry in entries))
        for entry in entries:
            top = entry["top_logprobs"]
            self.assertEqual(3, len(top))
            self.assertEqual((entry["token"], entry["logprob"]), (top[0]["token"], top[0]["logprob"]), "greedy")
            self.assertEqual(sorted((t["logprob"] for t in top), reverse=True), [t["logprob"] for t in top])
        with stream(self.server, CHAT, chat(HELLO, logprobs=True, top_logprobs=3, stream=True)) as events:
            chunks = events.chunks()
        streamed = [e for c in chunks for choice in c["choices"] for e in (choice.get("logprobs") or {"content": []})["content"]]
        self.assertEqual(entries, streamed)

    def test_logit_bias_forbids_and_forces(self):
        first = lambda **members: self.ask(chat(HELLO, max_tokens=1, logprobs=True, **members))["choices"][0]["logprobs"]["content"][0]["token"]
        token = self.server.post("/tokenize", {"content": first()}).json()["tokens"][0]
        self.assertNotEqual(first(), first(logit_bias={str(token): -100}))
        star = self.server.post("/tokenize", {"content": "*"}).json()["tokens"][0]
        self.assertEqual("***", self.text(chat(HELLO, max_tokens=3, logit_bias={str(star): 100})))

    def test_json_is_always_valid(self):
        for seed in range(4):
            answer = self.ask(chat("Give me an object.", temperature=1, seed=seed, max_tokens=300,
                                   response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {
                                       "type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
                                       "required": ["a", "b"], "additionalProperties": False}}}))["choices"][0]
            if answer["finish_reason"] == "stop":
                value = json.loads(answer["message"]["content"])
                self.assertEqual({"a", "b"}, set(value))
                self.assertIn(value["b"], ("x", "y"))

    def test_expert_activations_on_request(self):
        answer = self.ask(chat(HELLO, expert_activations=True, max_tokens=5))
        layers = answer["expert_activations"]["layers"]
        self.assertEqual([0, 1, 2, 3], [layer["layer"] for layer in layers])
        computed = answer["usage"]["prompt_tokens"] - answer["usage"]["prompt_tokens_details"]["cached_tokens"] + 4
        for layer in layers:
            counts = [count for _, count in layer["experts"]]
            self.assertEqual(sorted(counts, reverse=True), counts)
            self.assertEqual(4 * computed, sum(counts), "four experts for each computed token; the last is not computed")
        self.assertNotIn("expert_activations", self.ask(chat(HELLO, max_tokens=1)))
        with stream(self.server, CHAT, chat(HELLO, expert_activations=True, max_tokens=5, stream=True)) as events:
            chunks = events.chunks()
        self.assertEqual([len(chunks) - 1], [i for i, chunk in enumerate(chunks) if "expert_activations" in chunk])

    def test_progress_on_request(self):
        with stream(self.server, CHAT, chat("Hi. " * 400, stream=True, return_progress=True, max_tokens=1)) as events:
            chunks = events.chunks()
        progress = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
        self.assertTrue(progress)
        for one in progress:
            self.assertEqual({"total", "cache", "processed", "time_ms"}, set(one))
            self.assertLessEqual(one["processed"], one["total"])

    def test_context_overflow_names_the_numbers_before_any_work(self):
        context = self.server.get("/v1/models").json()["data"][0]["max_model_len"]
        for body in (chat("Hi " * 3000), chat("Hi " * 3000, stream=True)):
            answer = self.server.post(CHAT, body)
            self.assert_error(answer, 400, "context_length_exceeded", f"maximum context length is {context} tokens")

    def test_a_prompt_that_fills_the_context_but_for_one_token(self):
        context = self.server.get("/v1/models").json()["data"][0]["max_model_len"]
        for n, status in ((context - 1, 200), (context, 400)):
            answer = self.server.post("/v1/completions", {"prompt": [5] * n, "max_tokens": 5, "temperature": 0})
            self.assertEqual(status, answer.status)
            if status == 200:
                self.assertEqual(("length", 1), (answer.json()["choices"][0]["finish_reason"], answer.json()["usage"]["completion_tokens"]))

    def test_a_giant_prompt_is_refused_in_bounded_time(self):
        answer = self.server.post(CHAT, chat("All work and no play. " * 150000))
        self.assert_error(answer, 400, "context_length_exceeded", "maximum context length is")

    def test_mistakes_are_400_and_name_the_member(self):
        for members, param in (({"temperature": 3}, "temperature"), ({"n": 0}, "n"), ({"max_tokens": 0}, "max_tokens"),
                               ({"logit_bias": {"4096": 1}}, "logit_bias"), ({"tool_choice": "required"}, "tool_choice"),
                               ({"top_logprobs": 1}, "top_logprobs"), ({"messages": []}, "messages"), ({"grammar": "x"}, "grammar"),
                               ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]},
                                "messages[0].content[0].type"),
                               ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}}, None)):
            with self.subTest(members):
                answer = self.server.post(CHAT, chat(HELLO) | members)
                self.assertEqual(400, answer.status, answer)
                error = answer.json()["error"]
                self.assertEqual("invalid_request_error", error["type"])
                if param is not None:
                    self.assertEqual(param, error["param"])

    def test_malformed_bodies_are_400_with_their_place(self):
        for body in (b"", b"{", b"[]", b"null", b'{"messages": [}', b'{"a": 1, "a": 2}', b'{"a": "\xff"}', b'{"a": "\\ud800"}',
                     b'{"a": NaN}', b'{"a": 1e999}', b"\x00", b"[" * 100000, b'{"a":' * 5000, b'{"messages": [{"role": "user", "content": "a\xc3"}]}'):
            with self.subTest(body[:40]):
                answer = self.server.request("POST", CHAT, body, {"Content-Type": "application/json"})
                self.assertEqual(400, answer.status, answer)
                self.assertIn("message", answer.json()["error"])
        self.assert_error(self.server.request("POST", CHAT, b'{\n "a": x}'), 400, "invalid_json", "line 2 column")

    def test_unknown_members_are_ignored_and_logged_once(self):
        for _ in range(2):
            self.ask(chat(HELLO, max_tokens=1, frobnicate=1, user="u", metadata={"a": "b"}))
        self.server.wait_log("frobnicate")
        self.assertEqual(1, sum("frobnicate" in line for line in self.server.log))


if __name__ == "__main__":
    unittest.main()
