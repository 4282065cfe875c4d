"""What bench/streaming.py measures: a function per case, which gives rows of one form.

A row: case, engine, setting, round, unit, value, and what that engine said of it. Engines alternate inside a round; every run is a process of its
own, under a memory limit, from a cold page cache and without heat of earlier runs.
"""
import json
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import disk
import machine
import make_models
import models

LIMITED = models.SHARED / "tools" / "with_memory_limit"
THROTTLE = (300e6, 0.005)  # bytes per second, seconds of latency
DECODED, TAIL = 64, 500  # tokens
PEERS_DECODED = 8  # of engines that may need two seconds for each
ALLOWED = 1.1  # decode time, times what the misses allow


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


@dataclass
class Bench:
    """How this run measures: the programs, the peaks, and the rows that it has gathered."""
    program: Path
    flags: list
    rounds: int
    depth: int
    memory_bandwidth: float
    peers: bool
    make: bool
    layouts: dict = field(default_factory=dict)

    def model(self, name):
        """Path of a model, made when that is allowed."""
        model = models.STREAMED.get(name) or models.MODELS[name]
        path = model.hf if model.kind == "bf16" else model.gguf
        if not path.exists() and not self.make:
            raise machine.Failed(f"{path}: is not there; --make makes it")
        make_models.make(model)
        return path

    def layout(self, path):
        if path not in self.layouts:
            self.layouts[path] = disk.layout_of(path)
        return self.layouts[path]

    def disk(self, path, environment=None):
        machine.drop_from_page_cache(path)
        return disk.Disk.measure(self.layout(path), self.depth, environment)

    def colibri(self, command, path, *options, limit=None, environment=None):
        """(the program's JSON, hits of the group's limit)"""
        words = [self.program, command, path, "--json", "--heat-file", "off", *self.flags, *options]
        run = limited(words, limit, environment)
        return json.loads(run.output), limit_hits(run.errors)

    def llama(self, path, *options, limit=None):
        """llama-bench's rows; [] when it is not here."""
        program = machine.llama("llama-bench")
        if not (self.peers and program.exists() and path.is_file()):
            return []
        run = limited([program, "-m", path, "-o", "json", "--no-warmup", "--repack", 0, *options], limit)
        return json.loads(run.output)


def limited(words, limit, environment=None):
    """Runs a program with so much memory, or with all of it, from a cold page cache in the first case."""
    if limit and not LIMITED.exists():
        raise machine.Failed(f"{LIMITED}: is not there; set COLIBRI_SHARED")
    if environment:  # for the program alone, not for the tool that sets the limit
        words = ["env", *(f"{name}={value}" for name, value in environment.items()), *words]
    return machine.run([LIMITED, limit, *words] if limit else words)


def limit_hits(errors):
    """How often the group ran into its limit, as with_memory_limit says it for both kinds of groups; None without a limit."""
    found = re.search(r"limit hits: (?:.*\bmax )?(\d+)", errors)
    return int(found[1]) if found else None


def row(case, engine, round_number, value, unit, setting=None, **detail):
    return {"case": case, "engine": engine, "setting": setting or {}, "round": round_number, "value": value, "unit": unit, **detail}


def llama_rows(case, round_number, measured, setting):
    """The last repetition of each test: from a cold cache like the rows of Colibri, and like them not the first."""
    for test in measured:
        seconds = test["samples_ns"][-1] / 1e9
        tokens = test["n_prompt"] + test["n_gen"]
        yield row(case, "llama.cpp", round_number, tokens / seconds, "tokens_per_second", setting)


# ---- decode ----------------------------------------------------------------------------------------------------------


def decode_row(bench, case, round_number, path, speed, stats, repetition):
    """One repetition against the formula."""
    phase = stats["decode"]
    seconds, missed, misses = (number / phase["tokens"] for number in (phase["seconds"], phase["experts"]["bytes_read"], phase["experts"]["misses"]))
    allowed = disk.allowed_seconds(bench.layout(path), speed, bench.memory_bandwidth, missed, misses)
    return row(case, "colibri", round_number, 1 / seconds, "tokens_per_second", {"cache": repetition}, of_allowed=seconds / allowed,
               bytes_per_token=missed, hit_rate=phase["experts"]["hit_rate"], wait_seconds=phase["experts"]["wait_seconds"], io=stats["io"],
               disk_bytes_per_second=speed.bytes_per_second, latency_seconds=speed.latency_seconds, inter_token_seconds=phase["inter_token_seconds"],
               memory=stats["memory"], store=stats.get("store"))


def decode_rounds(bench, case, name, limit, throttle=None, peers=False):
    path = bench.model(name)
    environment = disk.slow(path, *throttle) if throttle else None
    for round_number in range(bench.rounds):
        speed = bench.disk(path, environment)
        repetitions, _ = bench.colibri("bench", path, "-p", 0, "-n", DECODED, "-r", 2, "--warmup", 0, limit=limit, environment=environment)
        for stats, repetition in zip(repetitions, ("cold", "warm")):
            yield decode_row(bench, case, round_number, path, speed, stats, repetition)
        if peers:
            yield from llama_rows(case, round_number, bench.llama(path, "-p", 0, "-n", PEERS_DECODED, "-r", 2, limit=limit), {"cache": "warm"})


def decode(bench):
    yield from decode_rounds(bench, "decode", models.RESIDENT, "2500M", peers=True)


def decode_bf16(bench):
    yield from decode_rounds(bench, "decode-bf16", "qwen3-30b-a3b-4l-bf16", "2500M")


def decode_throttled(bench):
    yield from decode_rounds(bench, "decode-throttled", models.RESIDENT, "2500M", throttle=THROTTLE)


# ---- prefill ---------------------------------------------------------------------------------------------------------


def prefill_rounds(bench, tokens, peers_batches):
    """A prompt from a cold start, where no expert is resident: beside the time of the disk and beside the same prompt with all experts resident."""
    case, path = f"prefill-{tokens}", bench.model(models.RESIDENT)
    layout = bench.layout(path)
    for round_number in range(bench.rounds):
        options = ("-p", tokens, "-n", 0, "-r", 1)
        speed = bench.disk(path)
        ((stats,), _) = bench.colibri("bench", path, *options, "--warmup", 0, limit="2500M")
        ((resident,), _) = bench.colibri("bench", path, *options, "--warmup", 1)
        read = stats["prefill"]["experts"]["bytes_read"]
        seconds, fastest = stats["prefill"]["seconds"], resident["prefill"]["seconds"]
        yield row(case, "colibri", round_number, tokens / seconds, "tokens_per_second", {"experts": "on disk"},
                  of_allowed=seconds / max(read / speed.bytes_per_second, fastest), bytes_read=read,
                  of_wanted_bytes=read / layout.bytes_wanted(stats["activations"]), read_seconds=read / speed.bytes_per_second,
                  resident_seconds=fastest, io=stats["io"], memory=stats["memory"], disk_bytes_per_second=speed.bytes_per_second, store=stats.get("store"))
        yield row(case, "colibri", round_number, tokens / fastest, "tokens_per_second", {"experts": "resident"})
        for batch in peers_batches:
            measured = bench.llama(path, "-p", tokens, "-n", 0, "-r", 1, "-b", max(2048, batch), "-ub", batch, limit="2500M")
            yield from llama_rows(case, round_number, measured, {"ubatch": batch})


def prefill_512(bench):
    yield from prefill_rounds(bench, 512, (512,))


def prefill_2048(bench):
    yield from prefill_rounds(bench, 2048, (512, 2048))


# ---- the large file --------------------------------------------------------------------------------------------------


def full(bench, limit):
    """Two lengths under the same limit: what the longer adds to the limit's hits comes from its tokens."""
    case, path = f"full-{limit}", bench.model(models.FULL)
    short, long = 16, 80
    speed, hits = bench.disk(path), {}
    for tokens in (short, long):
        ((stats,), hits[tokens]) = bench.colibri("bench", path, "-p", 0, "-n", tokens, "-r", 1, "--warmup", 0, "--io", "direct", limit=limit)
    per_token = (hits[long] - hits[short]) / (long - short)
    yield decode_row(bench, case, 0, path, speed, stats, "cold") | {"limit_hits": hits[long], "limit_hits_per_token": per_token}
    if bench.peers:
        yield from llama_rows(case, 0, bench.llama(path, "-p", 0, "-n", PEERS_DECODED, "-r", 2, limit=limit), {"cache": "warm"})


def full_6g(bench):
    yield from full(bench, "6G")


def full_10g(bench):
    yield from full(bench, "10G")


def first_token(bench):
    """Loading and a prompt of 16 tokens, against reading the dense weights and the experts that this prompt needs."""
    path = bench.model(models.FULL)
    layout = bench.layout(path)
    for round_number in range(bench.rounds):
        speed = bench.disk(path)
        ((stats,), _) = bench.colibri("bench", path, "-p", 16, "-n", 0, "-r", 1, "--warmup", 0, limit="6G")
        seconds = stats["load_seconds"] + stats["time_to_first_token_seconds"]
        needed = layout.dense_bytes + layout.embedding_bytes + layout.bytes_wanted(stats["activations"])
        yield row("first-token", "colibri", round_number, seconds, "seconds", of_allowed=seconds * speed.bytes_per_second / needed, bytes_needed=needed,
                  load_seconds=stats["load_seconds"], disk_bytes_per_second=speed.bytes_per_second, io=stats["io"])


# ---- policies and tails ----------------------------------------------------------------------------------------------


def written(bench, path, prompt, *options):
    result, _ = bench.colibri("run", path, "-f", prompt, "-n", 300, "--temperature", 0, "--ignore-eos", *options)
    return result["tokens"], result["stats"]["decode"]["experts"]


def policies(bench):
    """The trained model with a part of its experts: the same tokens as with all, and how many of them it found."""
    path, texts = bench.model("colibri-tales-14m-q8_0"), sorted((models.SHARED / "demo-model" / "eval").glob("*.txt"))
    with tempfile.TemporaryDirectory() as folder:
        prompts = [Path(folder) / text.name for text in texts]
        for prompt, text in zip(prompts, texts):
            prompt.write_text(text.read_text()[:600])
        expected = [written(bench, path, prompt)[0] for prompt in prompts]
        for percent in (10, 25, 50, 75):
            for policy in ("lru", "lfu", "auto"):
                options = ("--expert-memory", f"{percent}%", "--expert-cache-policy", policy)
                runs = [written(bench, path, prompt, *options) for prompt in prompts]
                hits, misses = (sum(experts[key] for _, experts in runs) for key in ("hits", "misses"))
                yield row("policies", "colibri", 0, hits / (hits + misses), "hit_rate", {"experts": f"{percent} %", "policy": policy},
                          identical=[tokens for tokens, _ in runs] == expected)


def unexplained(bench, path, speed, steps):
    """(number of slow steps, number of those that took longer than their misses allow)"""
    middle = disk.percentile(steps["seconds"], 0.5)
    slow = [step for step in zip(steps["seconds"], steps["bytes_read"], steps["misses"]) if step[0] > 2 * middle]
    layout = bench.layout(path)
    allowed = [ALLOWED * disk.allowed_seconds(layout, speed, bench.memory_bandwidth, missed, misses) for _, missed, misses in slow]
    return len(slow), sum(seconds > limit for (seconds, _, _), limit in zip(slow, allowed))


def tail(bench):
    """Decode steps when half of the experts fit: the second 500, when the cache is in its steady state."""
    path = bench.model(models.RESIDENT)
    speed = bench.disk(path)
    options = ("-p", 0, "-n", TAIL, "-r", 2, "--warmup", 0, "--expert-memory", "50%", "--io", "direct")
    stats = bench.colibri("bench", path, *options, limit="4G")[0][-1]
    gaps, steps = stats["decode"]["inter_token_seconds"], stats["decode"].get("steps")
    explained = dict(zip(("slow_steps", "unexplained_steps"), unexplained(bench, path, speed, steps))) if steps else {}
    yield row("tail", "colibri", 0, gaps["p99"] / gaps["p50"], "p99_over_p50", hit_rate=stats["decode"]["experts"]["hit_rate"],
              inter_token_seconds=gaps, disk_bytes_per_second=speed.bytes_per_second, **explained)


CASES = {"decode": decode, "prefill-512": prefill_512, "prefill-2048": prefill_2048, "decode-bf16": decode_bf16, "decode-throttled": decode_throttled,
         "policies": policies, "tail": tail, "first-token": first_token, "full-6G": full_6g, "full-10G": full_10g}
