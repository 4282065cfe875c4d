#!/usr/bin/env python3
"""Measures OpenVINO GenAI on one case and prints JSON: {"seconds", "tokens", "load_seconds"}. Run with the openvino environment's Python.

    openvino_driver.py MODEL_DIR prefill|decode|load --threads 2 [--prompt 512] [--generate 64] [--sequences 1]

prefill: seconds until the prompts' first tokens. decode: seconds of the steps after all sequences have their first token.
load: opens the model and generates one token from one.
"""
import argparse
import json
import time

import numpy as np
import openvino
import openvino_genai


def open_pipeline(args):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = max(args.prompt * args.sequences, 256)
    scheduler.max_num_seqs = args.sequences
    scheduler.cache_size = 1
    scheduler.enable_prefix_caching = False
    return openvino_genai.ContinuousBatchingPipeline(args.model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": args.threads})


class Bench:
    def __init__(self, args):
        self.args = args
        self.pipeline = open_pipeline(args)
        self.random = np.random.default_rng(1)
        self.requests = 0

    def add_sequences(self, prompt, generate):
        config = openvino_genai.GenerationConfig(max_new_tokens=generate, ignore_eos=True, do_sample=False)
        handles = []
        for _ in range(self.args.sequences):
            ids = openvino.Tensor(self.random.integers(0, 1000, (1, prompt)))
            handles.append(self.pipeline.add_request(self.requests, ids, config))
            self.requests += 1
        return handles

    def step_until(self, handles, tokens):
        """Steps until every sequence has so many tokens; says how many they have together."""
        counts = [0] * len(handles)
        while min(counts) < tokens and self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            for i, handle in enumerate(handles):
                while handle.can_read():
                    counts[i] += sum(len(output.generated_ids) for output in handle.read().values())
        return sum(counts)

    def prefill(self, prompt):
        handles = self.add_sequences(prompt, 1)
        start = time.perf_counter()
        self.step_until(handles, 1)
        return time.perf_counter() - start, prompt * len(handles)

    def decode(self, prompt, generate):
        handles = self.add_sequences(max(prompt, 1), generate + 1)
        first = self.step_until(handles, 1)
        start = time.perf_counter()
        rest = self.step_until(handles, generate + 1 - first // len(handles))
        return time.perf_counter() - start, rest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("case", choices=("prefill", "decode", "load"))
    for name, value in dict(threads=2, prompt=512, generate=64, sequences=1).items():
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    start = time.perf_counter()
    bench = Bench(args)
    load_seconds = time.perf_counter() - start
    if args.case == "load":
        bench.prefill(1)
        seconds, tokens = time.perf_counter() - start, 1
    elif args.case == "prefill":
        bench.prefill(args.prompt)  # warm-up
        seconds, tokens = bench.prefill(args.prompt)
    else:
        bench.decode(1, 4)
        seconds, tokens = bench.decode(args.prompt, args.generate)
    print(json.dumps({"seconds": seconds, "tokens": tokens, "load_seconds": load_seconds}))


if __name__ == "__main__":
    main()
