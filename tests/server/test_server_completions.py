"""POST /v1/completions: prompts in four forms, echo and log probabilities as lm-eval reads them, compared with `colibri logits`."""
import json
import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import parity
from cli.harness import BARE, CHECKPOINT, CliTest
from server.api import stream
from server.server import ServerTest

COMPLETIONS = "/v1/completions"
PROMPTS = [[5, 9, 200, 31, 7, 7, 44], [8, 1], [300, 12, 5]]


def log_softmax(row):
    largest = max(row)
    rest = math.log(math.fsum(math.exp(x - largest) for x in row)) + largest
    return [x - rest for x in row]


def lm_eval_scores(choice, n_context):
    """What lm-eval's parse_logprobs makes of a choice: sum and whether every token is the most probable one."""
    tables = choice["logprobs"]
    scores, tops = tables["token_logprobs"][n_context:-1], tables["top_logprobs"][n_context:-1]
    return sum(scores), all(score == max(top.values()) for score, top in zip(scores, tops))


class CompletionsTest(ServerTest):
    MODEL = CHECKPOINT  # tiny, with a tokenizer

    def ask(self, body, status=200):
        answer = self.server.post(COMPLETIONS, {"temperature": 0} | body)
        self.assertEqual(status, answer.status, answer)
        return answer.json()

    def test_echo_gives_the_log_probabilities_of_the_model(self):
        answer = self.ask({"prompt": PROMPTS, "max_tokens": 1, "logprobs": 1, "echo": True, "seed": 1234})
        self.assertEqual([0, 1, 2], [choice["index"] for choice in answer["choices"]])
        case = CliTest()
        case.setUp()
        self.addCleanup(case.doCleanups)
        out = case.folder / "logits"
        case.run_ok("logits", CHECKPOINT, "--tokens", case.write("tokens.json", json.dumps({"prompts": PROMPTS})), "--out", out)
        logits = parity.read_safetensors(out)
        for i, (prompt, choice) in enumerate(zip(PROMPTS, answer["choices"])):
            tables = choice["logprobs"]
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                self.assertEqual(len(prompt) + 1, len(tables[name]), "the prompt and one generated token")
            self.assertIsNone(tables["token_logprobs"][0])
            self.assertIsNone(tables["top_logprobs"][0])
            for position in range(len(prompt)):
                expected = log_softmax(list(logits[f"logits.{i}"].row(position)))
                following = prompt[position + 1] if position + 1 < len(prompt) else max(range(len(expected)), key=expected.__getitem__)
                self.assertAlmostEqual(expected[following], tables["token_logprobs"][position + 1], places=4)
                top = tables["top_logprobs"][position + 1]
                self.assertAlmostEqual(max(expected), max(top.values()), places=4)
                self.assertIn(tables["token_logprobs"][position + 1], top.values(), "the same float in both tables")

    def test_greedy_continuations_are_recognised_as_such(self):
        answer = self.ask({"prompt": [5, 9, 200], "max_tokens": 4, "logprobs": 1, "echo": True})
        choice = answer["choices"][0]
        _, greedy = lm_eval_scores(choice, 3)
        self.assertTrue(greedy)

    def test_logprobs_zero_and_several(self):
        for n in (0, 1, 5, 20):
            choice = self.ask({"prompt": [5, 9, 200], "max_tokens": 2, "logprobs": n})["choices"][0]
            for top, own in zip(choice["logprobs"]["top_logprobs"], choice["logprobs"]["token_logprobs"]):
                self.assertIn(len(top), (max(n, 1), n + 1))
                self.assertIn(own, top.values())
        self.assertIsNone(self.ask({"prompt": [5], "max_tokens": 1})["choices"][0]["logprobs"])

    def test_batches_keep_their_order_and_equal_single_requests(self):
        prompts = [[5 + i, 9, 200 - i] for i in range(20)]
        batch = self.ask({"prompt": prompts, "max_tokens": 3})["choices"]
        self.assertEqual(list(range(20)), [choice["index"] for choice in batch])
        for prompt, choice in list(zip(prompts, batch))[::7]:
            self.assertEqual(self.ask({"prompt": prompt, "max_tokens": 3})["choices"][0]["text"], choice["text"])

    def test_n_answers_to_each_prompt(self):
        answer = self.ask({"prompt": [[5, 9], [7]], "n": 2, "best_of": 2, "max_tokens": 2, "temperature": 1, "seed": 3})
        self.assertEqual([0, 1, 2, 3], [choice["index"] for choice in answer["choices"]])
        self.assertEqual(3, answer["usage"]["prompt_tokens"])
        self.assertEqual(self.ask({"prompt": [7], "max_tokens": 2, "temperature": 1, "seed": 4})["choices"][0]["text"],
                         answer["choices"][3]["text"])

    def test_token_ids_get_nothing_in_front_and_text_is_the_tokenizers(self):
        self.assertEqual(3, self.ask({"prompt": [5, 9, 200], "max_tokens": 1})["usage"]["prompt_tokens"])
        ids = self.server.post("/tokenize", {"prompt": "Hello there"}).json()["tokens"]
        self.assertEqual(self.ask({"prompt": ids, "max_tokens": 6})["choices"][0]["text"],
                         self.ask({"prompt": "Hello there", "max_tokens": 6})["choices"][0]["text"])

    def test_echo_repeats_the_prompt_in_text_and_stream(self):
        body = {"prompt": "Hello w\u00f6rld \U0001f600", "max_tokens": 4, "echo": True, "logprobs": 2}
        whole = self.ask(body)["choices"][0]
        self.assertTrue(whole["text"].startswith(body["prompt"]), whole["text"])
        with stream(self.server, COMPLETIONS, {"temperature": 0, "stream": True} | body) as events:
            chunks = events.chunks()
        self.assertEqual(whole["text"], "".join(c["text"] for chunk in chunks for c in chunk["choices"]))
        tables = [c["logprobs"] for chunk in chunks for c in chunk["choices"] if c["logprobs"]]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            self.assertEqual(whole["logprobs"][name], [entry for table in tables for entry in table[name]])

    def test_echo_without_generating(self):
        choice = self.ask({"prompt": [5, 9, 200], "max_tokens": 0, "echo": True, "logprobs": 1})["choices"][0]
        self.assertEqual((3, "length"), (len(choice["logprobs"]["tokens"]), choice["finish_reason"]))

    def test_a_prompt_that_its_bytes_show_not_to_fit_is_refused_before_it_is_taken_apart(self):
        for path, member in ((COMPLETIONS, "prompt"), ("/tokenize", "content")):
            answer = self.server.post(path, {member: "1" * 3000000})
            self.assert_error(answer, 400, "context_length_exceeded", "3000000 bytes")

    def test_mistakes_are_400_and_blame_the_prompt(self):
        for members in ({"prompt": ""}, {"prompt": []}, {"prompt": [[]]}, {"prompt": [-1]}, {"prompt": [384]}, {"prompt": [[5], [99999]]},
                        {"prompt": {}}, {}, {"prompt": [[5] * 100000]}):
            answer = self.server.post(COMPLETIONS, members)
            self.assertEqual((400, "prompt"), (answer.status, answer.json()["error"]["param"]), members)
        for members, param in (({"suffix": "x"}, "suffix"), ({"best_of": 3}, "best_of"), ({"logprobs": -1}, "logprobs")):
            self.assertEqual(param, self.server.post(COMPLETIONS, {"prompt": [5]} | members).json()["error"]["param"])


class WithoutTokenizerTest(ServerTest):
    MODEL = BARE

    def test_token_ids_work_and_text_is_refused_by_name(self):
        answer = self.server.post(COMPLETIONS, {"prompt": [5, 9], "max_tokens": 2, "temperature": 0, "logprobs": 1, "echo": True})
        self.assertEqual(200, answer.status, answer)
        self.assertEqual(4, len(answer.json()["choices"][0]["logprobs"]["token_logprobs"]))
        for path, body in ((COMPLETIONS, {"prompt": "Hi"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
                           ("/tokenize", {"content": "Hi"}), ("/detokenize", {"tokens": [5]})):
            refused = self.server.post(path, body)
            self.assertEqual(400, refused.status, refused)
            self.assertIn("without a tokenizer", refused.json()["error"]["message"])


if __name__ == "__main__":
    unittest.main()
