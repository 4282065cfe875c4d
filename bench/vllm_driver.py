#!/usr/bin/env python3
"""Measures vLLM on the CPU on one case and prints JSON: {"seconds", "tokens", "load_seconds"}. Run with the vllm environment's Python.

    vllm_driver.py MODEL_DIR prefill|decode|load --threads 2 [--prompt 512] [--generate 64]

prefill: seconds until the prompt's first token. decode: seconds that `generate` more tokens take, beyond those of the first.
load: opens the model and generates one token from one.
"""
import argparse
import json
import os
import random
import time


class Bench:
    def __init__(self, args):
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{args.threads - 1}"  # before vllm is imported
        from vllm import LLM
        length = max(args.prompt + args.generate + 16, 1024)
        self.llm = LLM(model=args.model, dtype="bfloat16", max_model_len=length, max_num_seqs=8, max_num_batched_tokens=length,
                       enable_prefix_caching=False, enforce_eager=True, disable_log_stats=True)
        self.random = random.Random(1)

    def seconds(self, prompt, generate):
        from vllm import SamplingParams
        ids = [self.random.randrange(1000) for _ in range(max(prompt, 1))]
        start = time.perf_counter()
        self.llm.generate({"prompt_token_ids": ids}, SamplingParams(temperature=0, max_tokens=generate, ignore_eos=True, detokenize=False),
                          use_tqdm=False)
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("case", choices=("prefill", "decode", "load"))
    for name, value in dict(threads=2, prompt=512, generate=64).items():
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    start = time.perf_counter()
    bench = Bench(args)
    load_seconds = time.perf_counter() - start
    if args.case == "load":
        bench.seconds(1, 1)
        seconds, tokens = time.perf_counter() - start, 1
    elif args.case == "prefill":
        bench.seconds(args.prompt, 1)  # warm-up
        seconds, tokens = bench.seconds(args.prompt, 1), args.prompt
    else:
        bench.seconds(1, 4)
        first = bench.seconds(args.prompt, 1)
        seconds, tokens = bench.seconds(args.prompt, 1 + args.generate) - first, args.generate
    print(json.dumps({"seconds": seconds, "tokens": tokens, "load_seconds": load_seconds}))


if __name__ == "__main__":
    main()
