#!/usr/bin/env python3
"""Load for a server that speaks OpenAI's API, and what its clients saw: time to first token, time between tokens, whole time, throughput, errors.

    bench/load.py URL --clients 8 --requests 64                     # closed loop: each client asks again when it has its answer
    bench/load.py URL --rate 0.5 --seconds 300                      # open loop: Poisson arrivals, whether or not there are answers
    ... --mix chat=0.6,code=0.3,document=0.1 | --prompt-tokens 512 --answer-tokens 64 --vocabulary 32768
    ... --route chat --model NAME --key FILE --seed 1 --json OUT.json --plot OUT.svg

Every request has a connection of its own, and its time begins before that is opened. Times are taken where the socket gives its bytes; how late
this process was in taking them is part of the result ("client"): distrust times that are not far above it. Every answer is checked: as many tokens
as were asked for, a finish reason, the end of the stream. Standard library only, but for --plot.
"""
import argparse
import asyncio
import gc
import json
import os
import random
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import http_stream
import load_report
import prompts


class Lag:
    """How late this process is: a sleeper that notes by how much it overslept, as late as bytes of a socket would be taken."""
    PERIOD = 0.005

    def __init__(self):
        self.overslept = []

    async def watch(self):
        while True:
            due = time.monotonic() + self.PERIOD
            await asyncio.sleep(self.PERIOD)
            self.overslept.append(time.monotonic() - due)


@dataclass
class Load:
    """One run: where its requests go, and what has become of them."""
    target: http_stream.Target
    timeout: float = 600
    records: list = field(default_factory=list)
    late: list = field(default_factory=list)  # of arrivals: how long after their time they were sent
    lag: Lag = field(default_factory=Lag)
    started: float = 0.0

    async def ask(self, ask, judge=True):
        exchange = await self.target.send("POST", ask.path, ask.body, timeout=self.timeout)
        if judge:
            self.records.append((ask, exchange))
        return exchange

    async def closed(self, asks, clients, requests=None, seconds=None):
        """`clients` at a time, until so many requests were sent or so much time is over; those under way are waited for."""
        end, left = time.monotonic() + (seconds or 1e9), requests if requests is not None else sys.maxsize

        async def client():
            nonlocal left
            while left > 0 and time.monotonic() < end:
                left -= 1
                await self.ask(next(asks))
        await self._watched(asyncio.gather(*(client() for _ in range(clients))))

    async def open(self, asks, rate, seconds, seed):
        """Arrivals at random times, known before the first is sent, so that every server gets the same."""
        times = arrivals(rate, seconds, seed)
        start, running = time.monotonic() + 0.01, []

        async def run():
            for at in times:
                await asyncio.sleep(max(0.0, start + at - time.monotonic()))
                self.late.append(time.monotonic() - start - at)
                running.append(asyncio.create_task(self.ask(next(asks))))
            await asyncio.gather(*running)
        await self._watched(run())

    async def _watched(self, work):
        watcher = asyncio.create_task(self.lag.watch())
        self.started = time.monotonic()
        try:
            await work
        finally:
            watcher.cancel()

    def result(self):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return load_report.result(self.records, self.started, self.lag.overslept, self.late, usage.ru_utime + usage.ru_stime)


def arrivals(rate, seconds, seed):
    """Times of a Poisson process: `rate` a second on average, for so many seconds."""
    source, times, at = random.Random(seed), [], 0.0
    while (at := at + source.expovariate(rate)) < seconds:
        times.append(at)
    return times


def hurry():
    """Bytes are taken when they come, also while a server keeps every core busy: where the system lets us."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -5)
    except OSError:
        pass


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the server, without /v1")
    loop = parser.add_mutually_exclusive_group(required=True)
    loop.add_argument("--clients", type=int, help="closed loop of so many clients")
    loop.add_argument("--rate", type=float, help="open loop of so many requests a second")
    parser.add_argument("--requests", type=int, help="closed loop: so many in all")
    parser.add_argument("--seconds", type=float, help="nothing new is asked after so long")
    parser.add_argument("--warmup", type=int, default=2, help="requests that do not count, one after the other, before all others [2]")
    parser.add_argument("--mix", type=prompts.parse_mix, default=prompts.MIXED, help="kinds and their shares [chat=0.6,code=0.3,document=0.1]")
    parser.add_argument("--prompt-tokens", type=int, help="the same length for all (with --answer-tokens)")
    parser.add_argument("--answer-tokens", type=int)
    parser.add_argument("--vocabulary", type=int, help="prompts are random token ids below this instead of texts")
    parser.add_argument("--texts", type=Path, help="a folder with chat.txt, code.txt and document.txt [files of this project]")
    parser.add_argument("--route", choices=("completions", "chat"), default="completions")
    parser.add_argument("--model", help="the request's model")
    parser.add_argument("--key", type=Path, help="a file with the API key")
    parser.add_argument("--extra", type=json.loads, default={}, help="more members of every request, as JSON")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one answer [600]")
    parser.add_argument("--json", type=Path, help="writes everything that was measured")
    parser.add_argument("--plot", type=Path, help="draws it (needs matplotlib)")
    args = parser.parse_args(argv)
    if (args.prompt_tokens is None) != (args.answer_tokens is None):
        parser.error("--prompt-tokens and --answer-tokens belong together")
    if args.rate and not args.seconds or args.clients and not (args.requests or args.seconds):
        parser.error("an open loop needs --seconds, a closed one --requests or --seconds")
    return args


async def run(args):
    fixed = (args.prompt_tokens, args.answer_tokens) if args.prompt_tokens else None
    headers = {"Authorization": f"Bearer {args.key.read_text().strip()}"} if args.key else {}
    load = Load(http_stream.Target(args.url, headers), args.timeout)

    def asks(seed):
        return prompts.Asks(args.mix, seed, route=args.route, vocabulary=args.vocabulary, fixed=fixed, model=args.model,
                            source=prompts.texts(args.texts) if args.texts else None, extra=args.extra)
    warmup = asks(f"warm-up {args.seed}")
    for _ in range(args.warmup):
        await load.ask(next(warmup), judge=False)
    if args.rate:
        await load.open(asks(args.seed), args.rate, args.seconds, args.seed)
    else:
        await load.closed(asks(args.seed), args.clients, args.requests, args.seconds)
    return load.result()


def main(argv=None):
    args = arguments(argv)
    hurry()
    gc.disable()
    result = asyncio.run(run(args))
    plan = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items() if value is not None}
    result = {"format": 1, "server": args.url, "plan": plan, **result}
    print(load_report.text(result))
    if args.json:
        args.json.write_text(json.dumps(result) + "\n")
    if args.plot:
        import load_plot
        load_plot.save({args.url: result}, args.plot)
    return 1 if result["summary"]["errors"] or not result["requests"] else 0


if __name__ == "__main__":
    sys.exit(main())
