"""Negative log likelihood of the trained demo model, Colibri's and llama.cpp's, on the same windows of the same token ids.

Both score the second half of windows of 512 tokens, as llama.cpp's tool does: the token at p + 1 from the logits at p, for p from 256 on. A rest of
a text that fills no window is left out. llama-perplexity takes ids only with --kl-divergence, from a file that holds them beside a base
model's probabilities; here the base is the uniform distribution, and what the tool says about the base is not looked at.
"""
import json
import math
import re
import struct
import sys
import tempfile

import numpy as np

import machine
import make_models
import models

WINDOW = 512
SCORE_FROM = WINDOW // 2 + 1
FILES = ("colibri-tales-14m-q8_0", "colibri-tales-14m-q4_k_m")


def windows_of(program, model, text):
    """Token ids of the whole windows of a text."""
    line = machine.run([program, "tokenize", model.gguf, "--jsonl"], text_input=json.dumps(text.read_text()) + "\n").output
    ids = json.loads(line)
    return [ids[first:first + WINDOW] for first in range(0, len(ids) - WINDOW + 1, WINDOW)]


def ours(program, model, windows, *flags):
    """(mean negative log likelihood, scored tokens)"""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"prompts": windows}, file)
        file.flush()
        run = machine.run([program, "perplexity", model.gguf, "--tokens", file.name, "--window", WINDOW, "--score-from", SCORE_FROM, "--json",
                           *flags])
    result = json.loads(run.output)
    return result["mean_negative_log_likelihood"], result["scored_tokens"]


def write_base(file, windows, vocab_size):
    """llama.cpp's file of a base model: ids, then per scored position two floats (scale, least log probability) and a 16-bit code per token."""
    file.write(b"_logits_" + struct.pack("<3i", WINDOW, vocab_size, len(windows)))
    file.write(np.array(windows, np.int32).tobytes())
    codes = 2 * ((vocab_size + 1) // 2)
    position = struct.pack("<2f", 0.0, -math.log(vocab_size)) + bytes(2 * codes)
    for _ in windows:
        file.write(position * (WINDOW - SCORE_FROM))
    file.flush()


def theirs(model, windows, vocab_size):
    """Mean negative log likelihood. The tool may end before its log's thread has written the last lines, so it is asked again then."""
    with tempfile.NamedTemporaryFile() as base:
        write_base(base, windows, vocab_size)
        for _ in range(10):
            run = machine.run([machine.llama("llama-perplexity"), "-m", model.gguf, "-c", WINDOW, "-t", 2, "--kl-divergence",
                               "--kl-divergence-base", base.name])
            found = re.search(r"Mean PPL\(Q\) +: +([\d.]+)", run.output)
            if found:
                return math.log(float(found[1]))
    raise machine.Failed("llama-perplexity: no \"Mean PPL(Q)\" in its output, ten times")


def measure_text(program, model, text, vocab_size):
    windows = windows_of(program, model, text)
    mean, scored = ours(program, model, windows)
    if scored != len(windows) * (WINDOW - SCORE_FROM):
        raise machine.Failed(f"quality: {text.name}: {scored} tokens scored of {len(windows)} windows")
    return {"model": model.name, "text": text.stem, "tokens": scored, "colibri": mean, "llama.cpp": theirs(model, windows, vocab_size)}


def measure_model(program, model, folder):
    """One row per text, and one over all texts together, called "all"."""
    make_models.make(model)
    vocab_size = json.loads((folder / "hf" / "config.json").read_text())["vocab_size"]
    texts = [measure_text(program, model, text, vocab_size) for text in sorted((folder / "eval").glob("*.txt"))]
    tokens = sum(row["tokens"] for row in texts)
    means = {engine: sum(row[engine] * row["tokens"] for row in texts) / tokens for engine in ("colibri", "llama.cpp")}
    return [*texts, {"model": model.name, "text": "all", "tokens": tokens, **means}]


def measure(program):
    """The rows of every file; a file that an engine refuses leaves the others alone."""
    rows = []
    for name in FILES if machine.llama("llama-perplexity").exists() else ():
        try:
            rows += measure_model(program, models.MODELS[name], models.SHARED / "demo-model")
        except machine.Failed as failure:
            print(f"bench: left out: {failure}", file=sys.stderr)
    return rows
