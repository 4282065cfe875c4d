"""The other routes: Anthropic's messages, OpenAI's responses, models, tokenizing, experts, and the description of it all."""
import base64
import http.client
import json
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from server.api import chat, stream
from server.server import TIMEOUT, ServerTest


def say(text, **members):
    return {"model": "m", "max_tokens": 20, "temperature": 0, "messages": [{"role": "user", "content": text}]} | members


class MessagesTest(ServerTest):
    def test_a_whole_answer(self):
        answer = self.server.post("/v1/messages", say("Hello! Who are you?", system="Be kind.", max_tokens=60))
        self.assertEqual(200, answer.status, answer)
        body = answer.json()
        self.assertEqual(("message", "assistant", "end_turn", None), (body["type"], body["role"], body["stop_reason"], body["stop_sequence"]))
        self.assertEqual(["text"], [block["type"] for block in body["content"]])
        self.assertEqual(set(("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")), set(body["usage"]))
        count = self.server.post("/v1/messages/count_tokens", say("Hello! Who are you?", system="Be kind.")).json()["input_tokens"]
        self.assertEqual(count, body["usage"]["input_tokens"] + body["usage"]["cache_read_input_tokens"])

    def test_events_come_in_order(self):
        whole = self.server.post("/v1/messages", say("Tell me a story.")).json()
        with stream(self.server, "/v1/messages", say("Tell me a story.", stream=True)) as events:
            named = [(name, json.loads(data)) for name, data in events if name != "ping"]
        self.assertTrue(all(name == data["type"] for name, data in named))
        kinds = [name for name, _ in named]
        self.assertEqual(["message_start", "content_block_start"], kinds[:2])
        self.assertEqual(["content_block_stop", "message_delta", "message_stop"], kinds[-3:])
        self.assertEqual({"content_block_delta"}, set(kinds[2:-3]))
        self.assertEqual(whole["content"][0]["text"], "".join(data["delta"]["text"] for _, data in named[2:-3]))
        self.assertEqual("max_tokens", named[-2][1]["delta"]["stop_reason"])
        self.assertEqual(20, named[-2][1]["usage"]["output_tokens"])

    def test_the_stop_sequence_is_named(self):
        text = self.server.post("/v1/messages", say("Tell me a story.")).json()["content"][0]["text"]
        answer = self.server.post("/v1/messages", say("Tell me a story.", stop_sequences=["\x01", text[8:13]])).json()
        self.assertEqual(("stop_sequence", text[8:13]), (answer["stop_reason"], answer["stop_sequence"]))

    def test_errors_have_anthropics_envelope(self):
        for path, body, status, kind in (("/v1/messages", {}, 400, "invalid_request_error"), ("/v1/messages", b"{", 400, "invalid_request_error"),
                                         ("/v1/messages", say("Hi " * 3000), 400, "invalid_request_error"),
                                         ("/v1/messages/nothing", {}, 404, "not_found_error")):
            answer = self.server.post(path, body)
            self.assertEqual(status, answer.status, answer)
            self.assertEqual(("error", kind), (answer.json()["type"], answer.json()["error"]["type"]))


class ResponsesTest(ServerTest):
    def test_a_response_and_its_events(self):
        body = {"input": "Tell me a story.", "instructions": "Be brief.", "temperature": 0, "max_output_tokens": 12}
        whole = self.server.post("/v1/responses", body).json()
        self.assertEqual(("response", "incomplete", "max_output_tokens"), (whole["object"], whole["status"], whole["incomplete_details"]["reason"]))
        self.assertEqual(("Be brief.", "incomplete"), (whole["instructions"], whole["output"][0]["status"]))
        text = whole["output"][0]["content"][0]["text"]
        with stream(self.server, "/v1/responses", body | {"stream": True}) as events:
            named = [(name, json.loads(data)) for name, data in events]
        self.assertEqual(list(range(len(named))), [data["sequence_number"] for _, data in named])
        self.assertEqual(("response.created", "response.incomplete"), (named[0][0], named[-1][0]))
        self.assertEqual(text, "".join(data["delta"] for name, data in named if name == "response.output_text.delta"))
        self.assertEqual(text, named[-1][1]["response"]["output"][0]["content"][0]["text"])
        self.assertEqual(whole["usage"]["total_tokens"], named[-1][1]["response"]["usage"]["total_tokens"])


class InformationTest(ServerTest):
    def test_models(self):
        for path in ("/v1/models", "/models"):
            (model,) = self.server.get(path).json()["data"]
            self.assertEqual(("colibri-tales-14m-q8_0", "model", 2048), (model["id"], model["object"], model["max_model_len"]))
        self.server.wait_until(lambda: "n_params" in self.server.get("/v1/models").json()["data"][0]["meta"])
        model = self.server.get("/v1/models/colibri-tales-14m-q8_0").json()
        self.assertEqual((14453504, 4096, 32), tuple(model["meta"][name] for name in ("n_params", "n_vocab", "n_expert")))
        self.assert_error(self.server.get("/v1/models/other"), 404, "model_not_found", "other")

    def test_tokenizing_speaks_both_dialects(self):
        text = "Once upon a time <|im_end|> \u20ac"
        llama = self.server.post("/tokenize", {"content": text, "with_pieces": True}).json()
        vllm = self.server.post("/tokenize", {"prompt": text, "return_token_strs": True}).json()
        self.assertEqual([token["id"] for token in llama["tokens"]], vllm["tokens"])
        pieces = [token["piece"] if isinstance(token["piece"], str) else bytes(token["piece"]) for token in llama["tokens"]]
        self.assertEqual(text.encode(), b"".join(p.encode() if isinstance(p, str) else p for p in pieces))
        self.assertEqual((len(vllm["tokens"]), 2048), (vllm["count"], vllm["max_model_len"]))
        self.assertIn("<|im_end|>", vllm["token_strs"])
        plain = self.server.post("/tokenize", {"content": text, "parse_special": False}).json()["tokens"]
        self.assertGreater(len(plain), len(vllm["tokens"]))
        self.assertEqual({"content": text, "prompt": text}, self.server.post("/detokenize", {"tokens": vllm["tokens"]}).json())
        messages = chat("Hi")["messages"]
        prompt = self.server.post("/apply-template", {"messages": messages}).json()["prompt"]
        self.assertIn("<|im_start|>user\nHi<|im_end|>", prompt)
        self.assertEqual(self.server.post("/tokenize", {"content": prompt}).json()["tokens"],
                         self.server.post("/tokenize", {"messages": messages}).json()["tokens"])
        for path, body in (("/tokenize", {}), ("/detokenize", {"tokens": [4096]}), ("/detokenize", {"tokens": ["a"]}), ("/apply-template", {})):
            self.assertEqual(400, self.server.post(path, body).status, path)

    def test_one_connection_carries_many_answers_that_are_made_elsewhere(self):
        """While such an answer is made the connection is read already; once that read hit memory that was given back."""
        connection = http.client.HTTPConnection(*self.server.address, timeout=TIMEOUT)
        self.addCleanup(connection.close)
        for i in range(300):
            connection.request("POST", "/tokenize", json.dumps({"content": f"Once {i}"}))
            self.assertEqual(200, self.read(connection).status)
            connection.request("GET", "/v1/models")
            self.assertEqual(200, self.read(connection).status)

    @staticmethod
    def read(connection):
        response = connection.getresponse()
        response.read()
        return response

    def test_what_lm_eval_asks_of_the_tokenizer(self):
        self.server.wait_until(lambda: self.server.get("/tokenizer_info").json()["eos_token_id"] is not None)
        info = self.server.get("/tokenizer_info").json()
        self.assertEqual((None, 2), (info["bos_token"], info["eos_token_id"]))
        self.assertEqual(self.server.post("/detokenize", {"tokens": [2]}).json()["content"], info["eos_token"])

    def test_props_and_slots(self):
        props = self.server.get("/props").json()
        self.assertEqual((2048, 8), (props["default_generation_settings"]["n_ctx"], props["total_slots"]))
        self.assertIn({"key": "parallel", "value": "8", "from": "default"}, [s | {"from": "default"} for s in props["settings"]])
        self.assertEqual(32, props["model"]["n_experts"])
        self.assertEqual([], self.server.get("/slots").json())

    def test_embeddings_are_501(self):
        answer = self.server.post("/v1/embeddings", {"input": "a"})
        self.assert_error(answer, 501, "not_supported")
        self.assertEqual("not_supported_error", answer.json()["error"]["type"])

    def test_experts_and_their_stream(self):
        before = self.server.get("/v1/experts").json()
        self.assertEqual((4, 32), (len(before["layers"]), before["n_experts"]))
        with stream(self.server, "/v1/experts/stream", None) as events:
            frames = iter(events)
            first = json.loads(next(frames)[1])
            self.assertEqual((4, 32, 4), (first["layers"], first["experts"], first["top_k"]))
            self.assertEqual(4 * 4 * 32, len(base64.b64decode(first["total"])))
            usage = self.server.post("/v1/chat/completions", chat("Hello!", max_tokens=8)).json()["usage"]
            computed = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"] + usage["completion_tokens"] - 1
            seen = 0
            while seen < 4 * 4 * computed:
                counts = base64.b64decode(json.loads(next(frames)[1])["activations"])
                seen += sum(counts[i] + 256 * counts[i + 1] for i in range(0, len(counts), 2))
        self.assertEqual(4 * 4 * computed, seen)
        after = self.server.get("/v1/experts").json()
        total = [sum(sum(layer["activations"]) for layer in state["layers"]) for state in (before, after)]
        self.assertEqual(seen, total[1] - total[0])

    def test_the_page_comes_with_its_policy_and_is_not_sent_twice(self):
        page = self.server.get("/")
        self.assertEqual((200, "text/html; charset=utf-8"), (page.status, page.headers["content-type"]))
        self.assertIn("default-src 'self'", page.headers["content-security-policy"])
        self.assertNotIn("unsafe", page.headers["content-security-policy"])
        for path in re.findall(r'(?:src|href)="(/[^"]+)"', page.body.decode()):
            self.assertEqual(200, self.server.get(path).status, path)
        again = self.server.request("GET", "/", headers={"If-None-Match": page.headers["etag"]})
        self.assertEqual((304, b""), (again.status, again.body))

    def test_the_description_names_every_route(self):
        description = self.server.get("/openapi.json").json()
        for path, methods in description["paths"].items():
            concrete = re.sub(r"\{.*?\}", "colibri-tales-14m-q8_0", path)
            if path == "/v1/experts/stream":
                continue  # without an end
            for method in methods:
                answer = self.server.request(method.upper(), concrete, b"{}" if method == "post" else None)
                self.assertNotIn(answer.status, (404, 405, 500), path)
                self.assertIn(str(answer.status), description["paths"][path][method]["responses"], path)


class StrictTest(ServerTest):
    FLAGS = ("--strict-model", "--model-name", "tales", "--expert-activations", "--max-tokens", "5")

    def test_only_the_model_of_that_name_exists(self):
        self.assertEqual("tales", self.server.get("/v1/models").json()["data"][0]["id"])
        for path, body in (("/v1/chat/completions", chat("Hi", model="gpt-4o")), ("/v1/completions", {"prompt": "Hi", "model": "gpt-4o"})):
            self.assert_error(self.server.post(path, body), 404, "model_not_found", "gpt-4o", "tales")
        self.assertEqual(200, self.server.post("/v1/chat/completions", chat("Hi", model="tales")).status)

    def test_the_servers_settings_hold_where_the_request_says_nothing(self):
        answer = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 0}).json()
        self.assertIn("expert_activations", answer)
        self.assertEqual((5, "length"), (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]))
        self.assertEqual(5, self.server.post("/v1/chat/completions", chat("Tell me a story.", max_tokens=50)).json()["usage"]["completion_tokens"])


if __name__ == "__main__":
    unittest.main()
