#!/usr/bin/env python3
"""A crowd around one server for a while: 64 clients that read streams, some slowly, some not at all, some until they just leave; 300 that do nothing.

    bench/soak_server.py MODEL MINUTES [SEED] [--colibri PROGRAM] [--flag=--memory=1G]...

Every answer must be, token for token, what the same request gave alone; one that was left or cut, its beginning. No reader may hold up the others,
memory must be flat, and when the crowd has gone, so have its connections and sequences. Says one line a minute, then what it found; exit status 1
when it found anything. `make soak-server` runs it. Standard library only.
"""
import argparse
import asyncio
import collections
import contextlib
import json
import random
import socket
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import http_stream
import load
import load_report
import machine
import servers

READERS, IDLE = 64, 300
PROMPTS = ("Once upon a time", "def ", "What is 7 + 5?", "The capital of", "dog (noun):", "Genesis 1\n1 In the beginning", "Tell me a story about",
           "It is a truth universally acknowledged")
ANSWER_TOKENS, CONTEXT = 384, 448
MANNERS = {"reads": 0.7, "reads slowly": 0.1, "stops reading": 0.05, "leaves": 0.15}
STALL_SECONDS = 120  # longer than the server should bear
GAP_SECONDS = 10  # between two tokens of a client that reads: far more than any step takes
LAST_SECONDS = 60  # for answers under way at the end
RSS_GROWTH = 12 << 20
SAMPLE_SECONDS = 5


@dataclass
class Crowd:
    server: servers.Server
    requests: list  # bodies
    random: random.Random
    end: float
    expected: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    counts: collections.Counter = field(default_factory=collections.Counter)
    gaps: list = field(default_factory=list)  # of clients that read, one of sixteen
    longest_gap: float = 0
    samples: list = field(default_factory=list)  # (seconds, bytes resident, open files)

    def find(self, what):
        self.findings.append(what)
        if len(self.findings) <= 50:
            print(f"soak: {what}", file=sys.stderr, flush=True)


def requests(source):
    """Greedy and sampled ones, each with its own prompt; long enough that nobody's buffers hold a whole answer."""
    bodies = []
    for n in range(3 * len(PROMPTS)):
        sampling = {"temperature": 0} if n % 3 == 0 else {"temperature": 1, "seed": source.randrange(1 << 31)}
        bodies.append({"prompt": f"{PROMPTS[n % len(PROMPTS)]} {n}", "max_tokens": ANSWER_TOKENS, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}, **sampling})
    return bodies


async def learn(crowd):
    """What each request gives alone."""
    for body in crowd.requests:
        crowd.expected.append(http_stream.answer(await crowd.server.target.send("POST", "/v1/completions", body)).text)


# ---- clients ---------------------------------------------------------------------------------------------------------


async def narrow_socket(port):
    """A connection whose reader the system gives hardly any buffer."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", port))
    return narrow


def behaviour(crowd, manner):
    """What a client does whenever something of its answer arrives."""
    loop = asyncio.get_running_loop()
    patience = crowd.random.randrange(1, 60)

    def pause(transport, seconds):
        transport.pause_reading()
        loop.call_later(seconds, lambda: None if transport.is_closing() else transport.resume_reading())

    def on_piece(exchange, transport):
        if manner == "leaves" and len(exchange.pieces) >= patience:
            transport.abort()
        elif manner == "reads slowly" and transport.is_reading():
            pause(transport, 0.2)
        elif manner == "stops reading" and len(exchange.pieces) == 1:
            pause(transport, STALL_SECONDS)
    return on_piece


async def reader(crowd):
    while time.monotonic() < crowd.end:
        n, manner = crowd.random.randrange(len(crowd.requests)), crowd.random.choices(list(MANNERS), MANNERS.values())[0]
        try:
            narrow = None if manner in ("reads", "leaves") else await narrow_socket(crowd.server.port)
        except OSError as error:
            crowd.find(f"no connection: {error}")
            await asyncio.sleep(1)
            continue
        exchange = await crowd.server.target.send("POST", "/v1/completions", crowd.requests[n], timeout=STALL_SECONDS + 480,
                                                  on_piece=behaviour(crowd, manner), socket=narrow)
        judge(crowd, n, manner, exchange)


def judge(crowd, n, manner, exchange):
    """A client that reads has the whole answer; another has it too, or a part of it from its beginning."""
    if exchange.status == 429:
        crowd.counts["refused: too many waiting"] += 1
        return
    try:
        answer = http_stream.answer(exchange) if manner == "reads" or not exchange.failure else http_stream.so_far(exchange)
    except http_stream.Broken as broken:
        if manner == "reads":
            crowd.find(f"request {n}: {broken}")
            return
        answer = http_stream.so_far(exchange)
    whole = answer.done and answer.usage and answer.usage["completion_tokens"] == ANSWER_TOKENS
    expected = crowd.expected[n]
    if answer.text != (expected if whole else expected[:len(answer.text)]):
        crowd.find(f"request {n}, a client that {manner}: another text: {answer.text[-60:]!r}")
    if manner == "reads":
        if not whole:
            crowd.find(f"request {n}: not all tokens: {answer.usage}, {answer.finish_reason}")
        gaps = [b - a for a, b in zip(answer.token_times, answer.token_times[1:])]
        crowd.gaps += gaps[::16]
        crowd.longest_gap = max(crowd.longest_gap, max(gaps, default=0))
        if max(gaps, default=0) > GAP_SECONDS:
            crowd.find(f"request {n}: a client that reads waited {max(gaps):.1f} s for a token")
    crowd.counts[f"{manner}, {'whole' if whole else 'a part'}"] += 1


async def idler(crowd, asks):
    """A connection that does nothing, opened again when the server has had enough of it."""
    while time.monotonic() < crowd.end:
        try:
            stream, writer = await asyncio.open_connection("127.0.0.1", crowd.server.port)
            if asks:
                writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(max(0.1, crowd.end - time.monotonic())):
                    while await stream.read(4096):
                        pass
            writer.close()
            crowd.counts["idle connections closed by the server"] += time.monotonic() < crowd.end
        except OSError as error:
            crowd.find(f"an idle client cannot connect: {error}")
        await asyncio.sleep(0.5)


async def watch(crowd, lag):
    begin, told = time.monotonic(), 0
    while time.monotonic() < crowd.end:
        await asyncio.sleep(SAMPLE_SECONDS)
        seconds = time.monotonic() - begin
        if crowd.server.process.poll() is not None:
            return crowd.find(f"the server has ended with {crowd.server.process.returncode}")
        crowd.samples.append((seconds, crowd.server.memory_bytes(), crowd.server.open_files()))
        if seconds // 60 > told:
            told = seconds // 60
            print(f"soak: {told:.0f} min: {sum(crowd.counts.values())} exchanges, {crowd.samples[-1][1] / 1e6:.1f} MB, {crowd.samples[-1][2]} files, "
                  f"{len(crowd.findings)} findings, this client late by {max(lag.overslept):.3f} s at most", flush=True)


async def gather(crowd):
    lag = load.Lag()
    watcher = asyncio.create_task(lag.watch())
    clients = [asyncio.create_task(reader(crowd)) for _ in range(READERS)] + [asyncio.create_task(idler(crowd, n % 2 == 0)) for n in range(IDLE)]
    await watch(crowd, lag)
    _, left = await asyncio.wait(clients, timeout=LAST_SECONDS)
    for client in left:  # those that had stopped reading, most of them
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    for client in clients:
        if not client.cancelled():
            client.result()  # a fault of this program is no finding
    crowd.counts["left at the end"] = len(left)
    watcher.cancel()
    return lag


# ---- judgement -------------------------------------------------------------------------------------------------------


def judge_memory(crowd):
    """(bytes in the first tenth, in the last)"""
    length = crowd.samples[-1][0] if crowd.samples else 0
    early = max((rss for at, rss, _ in crowd.samples if at <= max(length / 10, 2 * SAMPLE_SECONDS)), default=0)
    late = statistics.median([rss for at, rss, _ in crowd.samples if at >= 0.9 * length] or [0])
    if late > early + RSS_GROWTH:
        crowd.find(f"resident memory grows: {early / 1e6:.1f} MB in the first tenth of the time, {late / 1e6:.1f} MB in the last")
    return early, late


def judge_end(crowd, files_before):
    """Everybody has left: so have their connections."""
    for _ in range(100):
        files = crowd.server.open_files()
        if files <= files_before:
            return
        time.sleep(0.2)
    crowd.find(f"{files} open files when everybody has left, {files_before} before anybody came")


def soak(colibri, model, minutes, seed=1):
    source = random.Random(seed)
    with colibri.start(model, parallel=8, context=CONTEXT, options=("--max-queue", 2 * READERS)) as server:
        crowd = Crowd(server, requests(source), source, 0)
        asyncio.run(learn(crowd))
        files_before = server.open_files()
        crowd.end = time.monotonic() + 60 * minutes
        lag = asyncio.run(gather(crowd))
        early = late = 0
        if server.process.poll() is None:
            early, late = judge_memory(crowd)
            judge_end(crowd, files_before)
    if not crowd.counts["reads, whole"]:
        crowd.find("no client had a whole answer")
    numbers = {"minutes": minutes, "rss_early_bytes": early, "rss_late_bytes": late, "inter_token_seconds": load_report.percentiles(crowd.gaps) | {"max": crowd.longest_gap},
               "client_lag_seconds": load_report.percentiles(lag.overslept), "counts": dict(crowd.counts)}
    return {"findings": len(crowd.findings), "numbers": numbers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("minutes", type=float)
    parser.add_argument("seed", type=int, nargs="?", default=random.randrange(1 << 31))
    parser.add_argument("--colibri", default=machine.BUILD / "bin" / "colibri")
    parser.add_argument("--flag", action="append", default=[])
    args = parser.parse_args()
    load.hurry()
    print(f"soak: seed {args.seed}", flush=True)
    found = soak(servers.Colibri(args.colibri, args.flag), args.model, args.minutes, args.seed)
    print(json.dumps(found, indent=1))
    return 1 if found["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
