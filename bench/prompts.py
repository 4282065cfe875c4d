"""What a load asks for: kinds of requests, how long each is, and the bodies, all of it drawn from a seed.

Prompts are texts (slices of files, as many characters as the tokens take on average) or, with a vocabulary's size, random token ids of an exact
length: the same work for every server that has the file, shared by no two requests, so that no prefix cache answers instead of the model.
"""
import math
import random
from dataclasses import dataclass
from pathlib import Path

import machine

CHARACTERS_PER_TOKEN = 4
FILES = {"chat": ("docs/*.md",), "code": ("src/**/*.cc", "bench/*.py"), "document": ("docs/*.md", "*.md")}


@dataclass(frozen=True)
class Kind:
    """Lengths in tokens, drawn evenly on a logarithmic scale."""
    name: str
    prompt: tuple
    answer: tuple


CHAT = Kind("chat", (24, 160), (32, 96))
CODE = Kind("code", (160, 640), (48, 128))
DOCUMENT = Kind("document", (800, 1800), (16, 48))
KINDS = {kind.name: kind for kind in (CHAT, CODE, DOCUMENT)}
MIXED = {"chat": 0.6, "code": 0.3, "document": 0.1}


@dataclass
class Ask:
    kind: str
    path: str
    body: dict

    @property
    def max_tokens(self):
        return self.body["max_tokens"]


def parse_mix(text):
    """"chat=0.6,code=0.4" -> {"chat": 0.6, "code": 0.4}"""
    mix = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        if name not in KINDS:
            raise ValueError(f"no kind of request is called {name!r}; there are {', '.join(KINDS)}")
        mix[name] = float(share or 1)
    return mix


def texts(folder=None):
    """{kind: text}: of a folder with KIND.txt, or of this project's own files."""
    if folder:
        return {name: (Path(folder) / f"{name}.txt").read_text() for name in KINDS}
    return {name: "\n".join(file.read_text() for pattern in patterns for file in sorted(machine.ROOT.glob(pattern)))
            for name, patterns in FILES.items()}


class Asks:
    """Requests without end, the same ones for the same arguments.

    `route`: "completions" or "chat". `vocabulary`: prompts are ids below it (completions only), else texts. `fixed`: (prompt, answer) tokens of
    every request instead of its kind's. Answers have exactly the length asked for where the server knows ignore_eos.
    """

    def __init__(self, mix, seed, *, route="completions", vocabulary=None, fixed=None, model=None, source=None, extra=None):
        if vocabulary and route != "completions":
            raise ValueError("token ids are for /v1/completions")
        self.random, self.mix, self.route, self.vocabulary, self.fixed = random.Random(seed), mix, route, vocabulary, fixed
        self.extra = {"temperature": 0, "ignore_eos": True} | ({"model": model} if model else {}) | (extra or {})
        self.source = None if vocabulary else source or texts()

    def __iter__(self):
        return self

    def __next__(self):
        kind = KINDS[self.random.choices(list(self.mix), self.mix.values())[0]]
        prompt, answer = self.fixed or (self.length(kind.prompt), self.length(kind.answer))
        body = {"max_tokens": answer, "stream": True, "stream_options": {"include_usage": True}, **self.extra}
        content, name = self.content(kind, prompt), "fixed" if self.fixed else kind.name
        if self.route == "chat":
            return Ask(name, "/v1/chat/completions", body | {"messages": [{"role": "user", "content": content}]})
        return Ask(name, "/v1/completions", body | {"prompt": content})

    def length(self, bounds):
        low, high = bounds
        return round(math.exp(self.random.uniform(math.log(low), math.log(high))))

    def content(self, kind, tokens):
        if self.vocabulary:
            return [self.random.randrange(self.vocabulary) for _ in range(tokens)]
        text, size = self.source[kind.name], tokens * CHARACTERS_PER_TOKEN
        start = self.random.randrange(max(1, len(text) - size))
        return text[start:start + size]
