#!/usr/bin/env python3
"""The server as real clients use it: openai, anthropic, LangChain, lm-eval, curl, and Schemathesis as a fuzzer.

    scripts/clients.sh [-k PATTERN]

which makes the virtual environment (requirements.txt) that this needs. Model answers come from the demo model and from tiny
checkpoints whose logits transformers computed (tests/data/README.md).
"""
import asyncio
import json
import math
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import parity
from cli.harness import CHECKPOINT
from server.server import ServerTest

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def log_softmax(row):
    largest = max(row)
    rest = math.log(math.fsum(math.exp(x - largest) for x in row)) + largest
    return [x - rest for x in row]


class OpenAiTest(ServerTest):
    def setUp(self):
        import openai
        super().setUp()
        self.openai = openai
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)

    def chat(self, **members):
        return self.client.chat.completions.create(
            **{"model": "m", "messages": [{"role": "user", "content": "Hello! Who are you?"}], "temperature": 0, "max_tokens": 20} | members)

    def test_chat_whole_and_streamed(self):
        whole = self.chat(logprobs=True, top_logprobs=2)
        with self.chat(stream=True, stream_options={"include_usage": True}) as stream:
            chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(whole.choices[0].message.content, text)
        self.assertEqual(whole.usage.total_tokens, chunks[-1].usage.total_tokens)
        self.assertEqual(len(whole.choices[0].logprobs.content[0].top_logprobs), 2)

    def test_the_stream_helper_puts_the_answer_together(self):
        with self.client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "Hello!"}], temperature=0, max_tokens=20) as stream:
            for _ in stream:
                pass
            answer = stream.get_final_completion()
        self.assertEqual(self.chat(messages=[{"role": "user", "content": "Hello!"}]).choices[0].message.content, answer.choices[0].message.content)

    def test_async_requests_at_the_same_time(self):
        async def run():
            async with self.openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="none") as client:
                answers = await asyncio.gather(*(client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "Tell me a story."}], seed=i % 2, temperature=1, max_tokens=20) for i in range(8)))
            return [answer.choices[0].message.content for answer in answers]
        answers = asyncio.run(run())
        self.assertEqual(2, len(set(answers)))

    def test_completions_and_models(self):
        answer = self.client.completions.create(model="m", prompt=["Once upon a time", "The king"], max_tokens=8, temperature=0, logprobs=2, echo=True)
        self.assertTrue(answer.choices[1].text.startswith("The king"))
        self.assertIsNone(answer.choices[0].logprobs.token_logprobs[0])
        self.assertEqual("colibri-tales-14m-q8_0", self.client.models.list().data[0].id)
        self.assertEqual("colibri-tales-14m-q8_0", self.client.models.retrieve("colibri-tales-14m-q8_0").id)

    def test_responses(self):
        whole = self.client.responses.create(model="m", input="Tell me a story.", temperature=0, max_output_tokens=16)
        with self.client.responses.create(model="m", input="Tell me a story.", temperature=0, max_output_tokens=16, stream=True) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        self.assertEqual(whole.output_text, text)

    def test_errors_become_the_right_exceptions(self):
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": "Hi " * 5000}])
        self.assertEqual("context_length_exceeded", caught.exception.code)
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.chat(temperature=5)
        self.assertEqual("temperature", caught.exception.param)
        with self.assertRaises(self.openai.NotFoundError):
            self.client.models.retrieve("other")
        with self.assertRaises(self.openai.APIStatusError) as caught:
            self.client.embeddings.create(model="m", input="a")
        self.assertEqual(501, caught.exception.status_code)
        self.assertTrue(caught.exception.request_id)

    def test_a_forced_tool_call_and_its_result(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
        try:
            answer = self.chat(tools=tools, tool_choice="required", max_tokens=200)
        except self.openai.BadRequestError as error:  # this model's template knows no tools: said, not ignored
            self.assertIn("tool", str(error))
            return
        choice = answer.choices[0]
        if choice.finish_reason == "tool_calls":
            self.assertIn("city", json.loads(choice.message.tool_calls[0].function.arguments))

    def test_a_parsed_answer(self):
        import pydantic

        class Pair(pydantic.BaseModel):
            a: int
            b: bool
        answer = self.client.chat.completions.parse(model="m", messages=[{"role": "user", "content": "Two values."}], temperature=0,
                                                    max_tokens=100, response_format=Pair)
        if answer.choices[0].finish_reason == "stop":
            self.assertIsInstance(answer.choices[0].message.parsed, Pair)


class AnthropicTest(ServerTest):
    def setUp(self):
        import anthropic
        super().setUp()
        self.anthropic = anthropic
        self.client = anthropic.Anthropic(base_url=self.server.url, api_key="none", max_retries=0)
        self.addCleanup(self.client.close)

    def test_messages_whole_and_streamed(self):
        body = {"model": "m", "max_tokens": 20, "system": "Be kind.", "messages": [{"role": "user", "content": "Hello!"}],
                "extra_body": {"temperature": 0}}
        whole = self.client.messages.create(**body)
        with self.client.messages.stream(**body) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual((whole.content[0].text, whole.content[0].text), (text, final.content[0].text))
        self.assertEqual(whole.stop_reason, final.stop_reason)
        self.assertEqual(whole.usage.output_tokens, final.usage.output_tokens)
        count = self.client.messages.count_tokens(model="m", system="Be kind.", messages=body["messages"]).input_tokens
        self.assertEqual(count, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)

    def test_errors(self):
        with self.assertRaises(self.anthropic.BadRequestError):
            self.client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "Hi " * 5000}])


class LangChainTest(ServerTest):
    def test_chat_openai_invokes_and_streams(self):
        from langchain_openai import ChatOpenAI
        model = ChatOpenAI(base_url=self.server.url + "/v1", api_key="none", model="m", temperature=0, max_tokens=20, stream_usage=True)
        whole = model.invoke([("system", "Be kind."), ("human", "Hello!")])
        parts = list(model.stream([("system", "Be kind."), ("human", "Hello!")]))
        self.assertEqual(whole.content, "".join(part.content for part in parts))
        self.assertTrue(whole.content)
        self.assertGreater(whole.usage_metadata["output_tokens"], 0)
        self.assertEqual(whole.usage_metadata["output_tokens"], sum((part.usage_metadata or {"output_tokens": 0})["output_tokens"] for part in parts))


class LmEvalTest(ServerTest):
    MODEL = CHECKPOINT

    def model(self, **arguments):
        from lm_eval.models.openai_completions import LocalCompletionsAPI
        return LocalCompletionsAPI(base_url=self.server.url + "/v1/completions", model="m", max_retries=1, **arguments)

    def test_log_likelihoods_are_those_of_transformers(self):
        oracle = parity.read_safetensors(CHECKPOINT / "expected.safetensors")
        requests, expected = [], []
        for name in ("p12", "p40"):
            ids = list(oracle[f"{name}.input_ids"].values)
            rows = [log_softmax(list(oracle[f"{name}.logits"].row(i))) for i in range(len(ids))]
            for n in (1, 5, len(ids) - 1):
                requests.append((("", ""), ids[:n], ids[n:]))
                scores = [rows[i - 1][ids[i]] for i in range(n, len(ids))]
                expected.append((sum(scores), all(score == max(rows[i - 1]) for i, score in zip(range(n, len(ids)), scores))))
            greedy = list(oracle[f"{name}.greedy_ids"].values)
            requests.append((("", ""), ids, greedy[:1]))
            expected.append((max(rows[-1]), True))
        for batch_size in (1, 4):
            got = self.model(batch_size=batch_size)._loglikelihood_tokens(requests, disable_tqdm=True)
            for one, other in zip(expected, got):
                self.assertAlmostEqual(one[0], other[0], delta=1e-3)
                self.assertEqual(one[1], other[1])


class LmEvalTaskTest(ServerTest):
    def test_a_task_of_choices_ranks_as_the_model_does(self):
        from lm_eval import simple_evaluate
        from lm_eval.tasks import TaskManager
        folder = self.folder
        task = (HERE / "hellaswag_like.yaml").read_text()
        (folder / "task.yaml").write_text(task + f"dataset_kwargs:\n  data_files:\n    test: {HERE / 'hellaswag_like.jsonl'}\n")
        result = simple_evaluate(model="local-completions", tasks=["colibri_hellaswag_like"], log_samples=True, bootstrap_iters=0,
                                 task_manager=TaskManager(include_path=str(folder), include_defaults=False),
                                 model_args={"base_url": self.server.url + "/v1/completions", "model": "m", "num_concurrent": 2})
        samples = result["samples"]["colibri_hellaswag_like"]
        self.assertEqual(4, len(samples))
        tokenize = lambda text: self.server.post("/tokenize", {"content": text}).json()["tokens"]
        for sample in samples:
            for ending, (score, _) in zip(sample["doc"]["endings"], (response for response in sample["filtered_resps"])):
                context, whole = tokenize(sample["doc"]["ctx"]), tokenize(sample["doc"]["ctx"] + ending)
                answer = self.server.post("/v1/completions", {"prompt": whole, "max_tokens": 0, "echo": True, "logprobs": 0}).json()
                own = sum(answer["choices"][0]["logprobs"]["token_logprobs"][len(context):])
                self.assertAlmostEqual(own, float(score), delta=1e-3)
        self.assertGreaterEqual(result["results"]["colibri_hellaswag_like"]["acc,none"], 0.5)


class CurlTest(ServerTest):
    def curl(self, *args):
        return subprocess.run(["curl", "-sS", "--max-time", "60", *args], check=True, capture_output=True, text=True).stdout

    @unittest.skipUnless(shutil.which("curl"), "no curl")
    def test_curl(self):
        body = json.dumps({"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 5, "temperature": 0})
        url = self.server.url + "/v1/chat/completions"
        whole = json.loads(self.curl(url, "-H", "Content-Type: application/json", "-d", body))
        streamed = self.curl("-N", url, "-H", "Content-Type: application/json", "-d", body[:-1] + ', "stream": true}')
        self.assertTrue(streamed.endswith("data: [DONE]\n\n"))
        chunks = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
        self.assertEqual(whole["choices"][0]["message"]["content"], "".join(c["choices"][0]["delta"].get("content", "") for c in chunks))


class SchemathesisTest(ServerTest):
    FLAGS = ("--max-tokens", "4")

    def test_nothing_that_it_thinks_of_is_answered_wrongly(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [Path(sys.executable).parent / "schemathesis", "run", self.server.url + "/openapi.json", "--max-examples", "40",
                 "--exclude-path", "/v1/experts/stream", "--exclude-path", "/v1/embeddings", "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,"
                 "response_schema_conformance", "--exclude-checks", "unsupported_method", "--phases", "examples,coverage,fuzzing",
                 "--seed", "1", "--request-timeout", "60", "--continue-on-failure", "--no-color"],
                cwd=folder, capture_output=True, text=True, timeout=1800)
        self.assertEqual(0, done.returncode, done.stdout[-8000:] + done.stderr[-2000:])
        self.assertIsNone(self.server.process.poll(), "the server is still there")
        self.assertEqual(200, self.server.get("/ready").status)


if __name__ == "__main__":
    unittest.main(verbosity=2)
