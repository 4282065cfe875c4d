"""What is measured: one table of cases, and which engines can take part in each."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    kind: str  # prefill, decode, parallel, cold
    tokens: int  # of the prompt, or generated
    depth: int = 0  # tokens that stand before the generated ones
    sequences: int = 1

    @property
    def name(self):
        return {"prefill": f"prefill-{self.tokens}", "decode": f"decode-{self.tokens}-at-{self.depth}",
                "parallel": f"decode-{self.sequences}-sequences", "cold": "cold-first-token"}[self.kind]

    @property
    def unit(self):
        return "seconds" if self.kind == "cold" else "tokens_per_second"

    def better(self, a, b):
        """Whether the value a is better than b."""
        return a < b if self.kind == "cold" else a > b


PREFILLS = tuple(Case("prefill", n) for n in (128, 512, 2048))
DECODES = tuple(Case("decode", 64, depth) for depth in (0, 4096))
PARALLELS = tuple(Case("parallel", 32, sequences=n) for n in (1, 8, 16))
COLD = Case("cold", 1)
SPEED = (*PREFILLS, *DECODES, *PARALLELS, COLD)
QUICK = (Case("prefill", 512), Case("decode", 64, 0))

# Which models go through which cases; 1 thread only where one thread tells something new.
ALL_MODELS = ("qwen3-30b-a3b-12l-q4_k", "qwen3-30b-a3b-12l-q8_0", "olmoe-1b-7b-q4_0", "q3moe-1.3b-q4_0")


def wanted(case, names):
    """Whether --only NAMES wants this case: its name or its kind."""
    return not names or case.name in names or case.kind in names


def plan(models, threads, names, quick):
    """(model name, threads, case) of everything to run, in order."""
    for model in models:
        for case in QUICK if quick and not names else SPEED:
            if not wanted(case, names):
                continue
            for n in threads:
                if n == max(threads) or case.kind in ("prefill", "decode"):
                    yield model, n, case
