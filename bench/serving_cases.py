"""What serving.py measures. Each case is a generator of rows: case, engine, setting, round, value, unit, and what else was seen. Engines alternate
inside a round; every server is a process of its own."""
import asyncio
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import disk
import grouping
import http_stream
import load
import load_report
import machine
import models
import prompts
import servers
from streaming_cases import row

STREAMS = (1, 2, 4, 8, 16)
SHORT = 16  # tokens of a prompt that should not matter
DEMO = "colibri-tales-14m-q8_0"
LIMIT = "2500M"  # of memory, where experts are to be streamed
SUSTAINED = 0.7  # of the rate that the peer's server reaches when it is never idle
ROOM = 8  # experts of each layer in memory: a quarter of those of the demo model
DOMAINS = ("bible", "chat", "dictionary", "novels", "python", "stories")


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


@dataclass
class Bench:
    """How this run measures."""
    colibri: servers.Colibri
    peers: list  # LlamaServer, or nothing
    rounds: int
    quick: bool
    cores: int
    memory_bandwidth: float
    plots: Path  # folder for pictures

    def path(self, name):
        path = (models.MODELS | models.STREAMED)[name].gguf
        if not path.exists():
            raise machine.Failed(f"{path}: is not there; bench/make_models.py {name} makes it")
        return path

    def sized(self, whole, quick):
        return quick if self.quick else whole

    def competitors(self, settings=None):
        """(engine, setting): all settings of a peer, or only these."""
        yield self.colibri, {}
        for peer in self.peers:
            yield from ((peer, setting) for setting in settings or peer.settings())


def vocabulary(path):
    """Number of tokens, of the header alone."""
    from gguf import GGUFReader  # of the tools' environment
    return len(GGUFReader(path).fields["tokenizer.ggml.tokens"].data)


def ask_all(server, asks, clients, requests):
    """A closed loop after one request that does not count; its result."""
    async def run():
        work = load.Load(server.target)
        await work.ask(next(asks), judge=False)
        await work.closed(asks, clients, requests)
        return work
    work = asyncio.run(run())
    return checked(work.result(), server), [http_stream.answer(exchange) for _, exchange in work.records]


def checked(result, server):
    if result["summary"]["errors"]:
        raise machine.Failed(f"{server.name}: {result['summary']['error_texts']}")
    return result


def ratio(percentiles):
    return percentiles["p99"] / percentiles["p50"]


# ---- several streams in one step ----------------------------------------------------------------------------------------


def allowed_gain(bench, streams, server, path, limit):
    """By how much so many streams together may be faster than one, if bytes are all that counts: of the dense weights and the union of the experts that
    uniform routing wants, from memory or, as far as they are not there, from the disk."""
    if not limit:
        work = models.STREAMED[models.RESIDENT].work
        return streams * work.step_bytes(1, 0, 0) / work.step_bytes(streams, 0, 0)
    layout, work = disk.layout_of(path), models.STREAMED[models.RESIDENT].work
    speed = disk.Disk.measure(layout, 8)
    missing = 1 - resident_share(server)

    def seconds(rows):
        missed = missing * work.experts_met(rows) / work.experts
        return disk.allowed_seconds(layout, speed, bench.memory_bandwidth, missed * layout.expert_bytes, missed * len(layout.experts))
    return streams * seconds(1) / seconds(streams)


def resident_share(server):
    """Of all experts, those in memory (1 in the description)."""
    layers = json.loads(server.get("/v1/experts"))["layers"]
    places = [place for layer in layers for place in layer["residency"]]
    return sum(place == 1 for place in places) / len(places)


def together(bench, case, limit):
    path, tokens = bench.path(models.RESIDENT), bench.sized(96, 12)
    vocabulary_size = vocabulary(path)
    counts = bench.sized(STREAMS, (1, 8))
    for round_number in range(bench.rounds):
        for engine, setting in bench.competitors([{"repack": 0}] if limit else None):
            with engine.start(path, parallel=max(counts), context=256, setting=setting, limit=limit) as server:
                lone = None
                for streams in counts:
                    asks = prompts.Asks({"chat": 1}, f"{case} {round_number} {streams}", vocabulary=vocabulary_size, fixed=(SHORT, tokens))
                    _, answers = ask_all(server, asks, streams, streams)
                    rate = load_report.steady_rate([answer.token_times for answer in answers])
                    if rate is None:
                        say(f"{engine.name}: {streams} streams were never under way together")
                        continue
                    lone = lone or rate
                    allowed = allowed_gain(bench, streams, server, path, limit) if engine is bench.colibri else None
                    yield row(case, engine.name, round_number, rate, "tokens_per_second", setting | {"streams": streams}, gain=rate / lone,
                              allowed_gain=allowed, of_allowed=rate / lone / allowed if allowed else None)


def streams_resident(bench):
    yield from together(bench, "streams-resident", None)


def streams_streamed(bench):
    yield from together(bench, "streams-streamed", LIMIT)


# ---- steady tokens while prompts arrive -----------------------------------------------------------------------------------


class Decoders:
    """Streams that begin together and are left `seconds` after the last of them has given its first token."""

    def __init__(self, target, asks, streams, seconds):
        self.target, self.asks, self.streams, self.seconds = target, asks, streams, seconds
        self.exchanges, self.started, self.begun, self.end = [], set(), asyncio.Event(), None

    async def run(self):
        await asyncio.gather(*(self._one(next(self.asks)) for _ in range(self.streams)))
        self.begun.set()  # also where a stream came to nothing: gaps() says so

    async def _one(self, ask):
        self.exchanges.append(await self.target.send("POST", ask.path, ask.body, on_piece=self._on_piece))

    def _on_piece(self, exchange, transport):
        now = time.monotonic()
        if b"data:" in exchange.pieces[-1][1]:  # no keep-alive
            self.started.add(id(exchange))
        if self.end is None and len(self.started) == self.streams:
            self.end = now + self.seconds
            self.begun.set()
        if self.end is not None and now > self.end:
            transport.abort()

    def gaps(self):
        times = [http_stream.so_far(exchange).token_times for exchange in self.exchanges]
        if self.end is None or not all(times):
            raise machine.Failed(f"not all streams gave tokens: {[exchange.failure or exchange.body[-200:] for exchange in self.exchanges]}")
        gaps = [b - a for of_one in times for a, b in zip(of_one, of_one[1:]) if self.end - self.seconds <= a and b <= self.end]
        if len(gaps) < 10 * self.streams:
            raise machine.Failed(f"only {len(gaps)} tokens in {self.seconds} s: too few for percentiles")
        return gaps


async def decode_beside_prompts(target, warmup, decoding, intruding, streams, seconds, period):
    """The gaps of `streams` streams while all of them are under way, and what became of the prompts that came every `period` seconds."""
    decoders, intruders = Decoders(target, decoding, streams, seconds), load.Load(target)
    await intruders.ask(next(warmup), judge=False)

    async def intrude():
        running = []
        await decoders.begun.wait()
        while time.monotonic() + period < (decoders.end or 0):
            await asyncio.sleep(period)
            running.append(asyncio.create_task(intruders.ask(next(intruding))))
        await asyncio.gather(*running)
    await asyncio.gather(decoders.run(), intrude())
    return decoders.gaps(), intruders.result()["summary"]


def steady(bench):
    path, seconds = bench.path(models.RESIDENT), bench.sized(60, 12)
    vocabulary_size = vocabulary(path)
    for round_number in range(bench.rounds):
        for engine, setting in bench.competitors([{"repack": 0}]):
            with engine.start(path, parallel=10, context=4096, setting=setting) as server:
                decoding = prompts.Asks({"chat": 1}, f"steady {round_number}", vocabulary=vocabulary_size, fixed=(SHORT, 4000))
                intruding = prompts.Asks({"chat": 1}, f"prompts {round_number}", vocabulary=vocabulary_size, fixed=(512, 1))
                warmup = prompts.Asks({"chat": 1}, f"warm-up {round_number}", vocabulary=vocabulary_size, fixed=(512, 8))
                gaps, intruders = asyncio.run(decode_beside_prompts(server.target, warmup, decoding, intruding, 8, seconds, 5))
                numbers = load_report.percentiles(gaps)
                yield row("steady", engine.name, round_number, ratio(numbers), "p99_over_p50", setting, inter_token_seconds=numbers,
                          first_token_seconds=intruders["first_token_seconds"], errors=intruders["errors"])


# ---- first tokens -----------------------------------------------------------------------------------------------------------


def first_token(bench):
    """Prompts of one length, one at a time."""
    path = bench.path(models.RESIDENT)
    vocabulary_size = vocabulary(path)
    for round_number in range(bench.rounds):
        for engine, setting in bench.competitors():
            with engine.start(path, parallel=8, context=1024, setting=setting) as server:
                asks = prompts.Asks({"chat": 1}, f"first {round_number}", vocabulary=vocabulary_size, fixed=(512, 4))
                result, _ = ask_all(server, asks, 1, bench.sized(100, 8))
                numbers = result["summary"]["first_token_seconds"]
                yield row("first-token", engine.name, round_number, ratio(numbers), "p99_over_p50", setting, first_token_seconds=numbers)


def sustained_rate(engine, path, setting, seed, vocabulary_size, requests):
    """Requests per second of a server that always has eight to work on."""
    with engine.start(path, parallel=8, context=2048, setting=setting) as server:
        result, _ = ask_all(server, prompts.Asks(prompts.MIXED, seed, vocabulary=vocabulary_size), 8, requests)
        return result["summary"]["requests_per_second"]


def arrivals(bench):
    """The same seeded arrivals for all: at 70 % of what the peer sustains, or of what Colibri does where there is no peer."""
    path = bench.path(models.RESIDENT)
    vocabulary_size, requests, settings = vocabulary(path), bench.sized(48, 10), [{"repack": 0}]
    reference, setting = (bench.peers[0], settings[0]) if bench.peers else (bench.colibri, {})
    sustained = sustained_rate(reference, path, setting, "sustained", vocabulary_size, requests)
    say(f"  {reference.name} sustains {sustained:.3g} requests per second")
    rate, drawn = SUSTAINED * sustained, {}
    for round_number in range(bench.rounds):
        for engine, setting in bench.competitors(settings):
            with engine.start(path, parallel=8, context=2048, setting=setting) as server:
                result = drawn[engine.name] = asyncio.run(open_loop(server.target, rate, bench.sized(120, 8) / rate, round_number, vocabulary_size))
                checked(result, server)
                summary = result["summary"]
                yield row("arrivals", engine.name, round_number, summary["first_token_seconds"]["p99"], "seconds", setting, rate=rate,
                          sustained_rate=sustained, inter_token_ratio=ratio(summary["inter_token_seconds"]), client=result["client"],
                          **{key: summary[key] for key in ("first_token_seconds", "inter_token_seconds", "request_seconds", "tokens_per_second")})
    import load_plot
    load_plot.save(drawn, bench.plots / "arrivals.svg")


async def open_loop(target, rate, seconds, seed, vocabulary_size):
    work = load.Load(target)
    asks = prompts.Asks(prompts.MIXED, f"arrivals {seed}", vocabulary=vocabulary_size)
    await work.ask(next(asks), judge=False)
    await work.open(asks, rate, seconds, seed)
    return work.result()


# ---- which requests are computed together -------------------------------------------------------------------------------------


def domain_asks(requests, seed):
    """Prompts of the demo model's own domains, in the random order in which they come; every request as long as the others."""
    folder, source = models.SHARED / "demo-model" / "eval", random.Random(seed)
    texts = {name: (folder / f"{name}.txt").read_text() for name in DOMAINS}
    asks = []
    for n in range(requests):
        name = DOMAINS[n % len(DOMAINS)]
        start = source.randrange(len(texts[name]) - 400)
        body = {"prompt": texts[name][start:start + 400], "max_tokens": 64, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        asks.append(prompts.Ask(name, "/v1/completions", body))
    source.shuffle(asks)
    return asks


def routes_of(bench, path, asks):
    """{(layer, expert): count} of each request, as it reports them itself."""
    with bench.colibri.start(path, parallel=8, context=512) as server:
        async def run():
            target = server.target
            return [await target.send("POST", ask.path, ask.body | {"expert_activations": True}) for ask in asks]
        answers = [http_stream.answer(exchange) for exchange in asyncio.run(run())]
    return [{(layer["layer"], expert): count for layer in answer.extra["expert_activations"]["layers"] for expert, count in layer["experts"]}
            for answer in answers]


def batching(bench):
    """Orders of the same requests, a quarter of the experts in memory. The random order is the one in which they come."""
    path, requests = bench.path(DEMO), bench.sized(192, 48)
    for round_number in range(bench.rounds):
        asks = domain_asks(requests, f"domains {round_number}")
        grouped = grouping.by_routes(routes_of(bench, path, asks), 8, ROOM)
        by_domain = sorted(asks, key=lambda ask: ask.kind)
        for name, order, policy, clients in (("random", asks, "fifo", 8), ("fifo", asks, "fifo", 64), ("routing", asks, "routing", 64),
                                             ("by domain", by_domain, "fifo", 8), ("offline", [asks[n] for n in grouped], "fifo", 8)):
            options = ("--expert-memory", "25%", "--batching", policy, "--max-queue", 128)
            with bench.colibri.start(path, parallel=8, context=512, options=options) as server:
                before = server.metrics()
                result, _ = closed(server, order, clients)
                after = server.metrics()
            hits, misses, read, rows, passes = (
                servers.metric(after, name) - servers.metric(before, name)
                for name in ("colibri_expert_hits_total", "colibri_expert_misses_total", "colibri_expert_read_bytes_total",
                             "colibri_batch_rows_sum", "colibri_batch_rows_count"))
            summary = result["summary"]
            yield row("batching", "colibri", round_number, misses / requests, "misses_per_request", {"order": name}, hit_rate=hits / (hits + misses), rows_per_pass=rows / passes,
                      bytes_read=read, tokens_per_second=summary["tokens_per_second"], first_token_seconds=summary["first_token_seconds"])


def closed(server, asks, clients):
    async def run():
        work = load.Load(server.target)
        await work.closed(iter(asks), clients, len(asks))
        return work
    work = asyncio.run(run())
    return checked(work.result(), server), work


# ---- the same tokens ------------------------------------------------------------------------------------------------------------


def same_tokens(bench):
    """One request alone, among eight others, after its prefix was kept, after that was pushed out: text and log probabilities."""
    path, asks = bench.path(DEMO), domain_asks(120, "same")
    for n, setting in enumerate(({"temperature": 0}, {"temperature": 1, "seed": 7})):
        for options in ((), ("--expert-memory", "25%")):
            options = ("--prefix-cache", "8M", *options)
            with bench.colibri.start(path, parallel=9, context=512, options=options) as server:
                yield row("same-tokens", "colibri", 0, asyncio.run(differing(server.target, asks[n], asks[n + 1:], setting)), "differing",
                          setting | {"experts": options[-1] if "--expert-memory" in options else "all"})


async def differing(target, ask, others, setting):
    """How many of the ways to ask gave something else than asking alone did."""
    body = {key: value for key, value in ask.body.items() if not key.startswith("stream")} | setting | {"logprobs": 1}

    async def told():
        answer = http_stream.answer(await target.send("POST", ask.path, body))
        return (answer.text, answer.logprobs), (answer.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    async def send(other):
        return http_stream.answer(await target.send("POST", other.path, other.body))
    alone, cached = await told()
    if cached:
        raise machine.Failed("a prefix was kept before anything was asked")
    results = [await told()]
    if not results[0][1]:
        raise machine.Failed("the same prompt again, and usage says that nothing of it was kept")
    crowd = [asyncio.create_task(send(other)) for other in others[:8]]
    results += [await told(), await told()]
    await asyncio.gather(*crowd)
    results.append(await after_others(told, send, others))
    if results[-1][1]:
        raise machine.Failed("a prefix was still there after a hundred other requests")
    return sum(result != alone for result, _ in results)


async def after_others(told, send, others):
    """Asks when other prompts have taken the place of its prefix."""
    for start in range(8, len(others), 8):
        await asyncio.gather(*(send(other) for other in others[start:start + 8]))
    return await told()


# ---- what the server adds, and its size --------------------------------------------------------------------------------------------


def overhead(bench):
    """Seconds per token of one stream through the server, against the engine alone: both decode after the same number of tokens."""
    path, tokens = bench.path(models.RESIDENT), bench.sized(256, 48)
    vocabulary_size = vocabulary(path)
    for round_number in range(bench.rounds):
        yield row("overhead", "colibri", round_number, servers.bench_decode(bench.colibri.program, path, bench.colibri.flags, tokens, SHORT),
                  "seconds_per_token", {"through": "engine"})
        with bench.colibri.start(path, parallel=1, context=512) as server:
            _, (answer,) = ask_all(server, prompts.Asks({"chat": 1}, round_number, vocabulary=vocabulary_size, fixed=(SHORT, tokens)), 1, 1)
        times = answer.token_times
        yield row("overhead", "colibri", round_number, (times[-1] - times[0]) / (len(times) - 1), "seconds_per_token", {"through": "server"})


def size(bench):
    """Of the program in one file (the target colibri_static), stripped; and which libraries it needs at run time."""
    program = machine.BUILD / "bin" / "colibri_static"
    if not program.exists():
        raise machine.Failed(f"{program}: is not there; ninja -C {machine.BUILD} colibri_static makes it")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "colibri"
        shutil.copy(program, copy)
        subprocess.run(["strip", copy], check=True)
        needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", copy], check=True, capture_output=True, text=True).stdout)
        yield row("size", "colibri", 0, copy.stat().st_size / 1e6, "megabytes", needed=needed)


CASES = {"streams-resident": streams_resident, "streams-streamed": streams_streamed, "steady": steady, "first-token": first_token,
         "arrivals": arrivals, "batching": batching, "same-tokens": same_tokens, "overhead": overhead, "size": size}
