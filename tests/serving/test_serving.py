"""What the benchmark of the server computes from what it has seen."""
import asyncio
import contextlib
import io
import random
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "tests" / "serving")]

import grouping  # noqa: E402
import http_stream  # noqa: E402
import prompts  # noqa: E402
import servers  # noqa: E402
import soak_server  # noqa: E402
from fake_openai import FakeServer, words  # noqa: E402


class GroupingTest(unittest.TestCase):
    def routes(self, source, domain):
        """Of a request that mostly wants its domain's experts."""
        counts = {}
        for _ in range(60):
            expert = source.choice(range(8 * domain, 8 * domain + 8)) if source.random() < 0.9 else source.randrange(48)
            counts[0, expert] = counts.get((0, expert), 0) + 1
        return counts

    def test_batches_are_of_one_domain_when_domains_fill_them(self):
        source = random.Random(1)
        domains = [n % 6 for n in range(48)]
        source.shuffle(domains)
        order = grouping.by_routes([self.routes(source, domain) for domain in domains], 8, 8)
        self.assertEqual(list(range(48)), sorted(order))
        for start in range(0, 48, 8):
            self.assertEqual(1, len({domains[n] for n in order[start:start + 8]}))

    def test_nothing_is_lost_when_requests_want_nothing(self):
        self.assertEqual([0, 1, 2, 3, 4], sorted(grouping.by_routes([{}] * 5, 2, 8)))


class MetricsTest(unittest.TestCase):
    PAGE = '# HELP a x\n# TYPE a counter\na{kind="one two"} 3\na{kind="b"} 4.5\nplain 1e+03\n'

    def test_a_page_is_read_and_summed_over_labels(self):
        values = servers.parse_metrics(self.PAGE)
        self.assertEqual((7.5, 1000), (servers.metric(values, "a"), servers.metric(values, "plain")))

    def test_a_metric_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(Exception, "no b"):
            servers.metric(servers.parse_metrics(self.PAGE), "b")


class SoakTest(unittest.TestCase):
    """The judge of the soak finds what must not be, and nothing else."""

    def setUp(self):
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def judged(self, manner, expected=None, **fake):
        body = {"prompt": "x", "max_tokens": soak_server.ANSWER_TOKENS, "stream": True}
        with FakeServer() as server:
            exchange = asyncio.run(http_stream.Target(server.url).send("POST", "/v1/completions", body | {"fake": fake}))
        crowd = soak_server.Crowd(None, [body], random.Random(1), 0, [expected or "".join(words(body))])
        soak_server.judge(crowd, 0, manner, exchange)
        return crowd

    def test_whole_answers_and_beginnings_of_answers_are_fine(self):
        self.assertEqual([], self.judged("reads").findings)
        self.assertEqual([], self.judged("leaves", cut=40).findings)
        self.assertEqual([], self.judged("stops reading", cut=7).findings)

    def test_another_text_is_found_whoever_gets_it(self):
        for manner, fake in (("reads", {}), ("leaves", {"cut": 40}), ("reads slowly", {})):
            self.assertEqual(1, len(self.judged(manner, expected="something else", **fake).findings))

    def test_a_lost_token_is_found(self):
        self.assertTrue(self.judged("reads", lost_token=5).findings)
        self.assertTrue(self.judged("reads", cut=40).findings)

    def test_memory_that_grows_is_found_and_memory_that_does_not_is_not(self):
        for growth, findings in ((0, 0), (20 << 20, 1)):
            crowd = soak_server.Crowd(None, [], random.Random(1), 0)
            crowd.samples = [(10 * n, 100 << 20 if n < 50 else (100 << 20) + growth, 9) for n in range(100)]
            soak_server.judge_memory(crowd)
            self.assertEqual(findings, len(crowd.findings))


class SourceTest(unittest.TestCase):
    def test_texts_of_every_kind_are_long_enough_for_its_prompts(self):
        for name, text in prompts.texts().items():
            self.assertGreater(len(text), 2 * prompts.CHARACTERS_PER_TOKEN * prompts.KINDS[name].prompt[1])


if __name__ == "__main__":
    unittest.main()
