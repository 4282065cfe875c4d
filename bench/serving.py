#!/usr/bin/env python3
"""Measures the server: Colibri's and llama.cpp's on the same file in turns, with real clients over HTTP, against each other and against what the machine allows.

    bench/serving.py [--only CASE]... [--rounds N] [--quick] [--no-peers] [--colibri PROGRAM] [--flag=--threads=2]...

Cases: streams-resident, streams-streamed (needs root and a memory controller, as streaming.py does), steady, first-token, arrivals, batching,
same-tokens, overhead, size; and soak with --only soak --minutes 30, which is soak_server.py. Run it with the tools' Python of install_peers.sh
after `make bench` has built and made what it needs; the models are those of models.py and are not made here. Results: tables on stdout; JSON,
tables and pictures in BENCH_HOME/results. See bench/README.md.
"""
import argparse
import datetime
import gc
import json
import statistics

import load
import machine
import report
import run
import servers
import serving_cases as cases
import soak_server
from streaming import groups, middle, setting_text


def soak(minutes):
    def measure(bench):
        gc.enable()
        found = soak_server.soak(bench.colibri, bench.path(cases.DEMO), minutes)
        yield cases.row("soak", "colibri", 0, found["findings"], "findings", **found["numbers"])
    return measure


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=[*cases.CASES, "soak"], metavar="CASE", help="may be repeated [all but soak]")
    parser.add_argument("--rounds", type=int, help="how often every engine has its turn [3; quick: 1]")
    parser.add_argument("--quick", action="store_true", help="a few minutes in all: to see that it runs, not for numbers")
    parser.add_argument("--no-peers", action="store_true", help="Colibri alone")
    parser.add_argument("--minutes", type=float, default=30, help="of the soak [30]")
    parser.add_argument("--colibri", default=machine.BUILD / "bin" / "colibri", help="the program to measure")
    parser.add_argument("--flag", action="append", default=[], help="another flag for Colibri, such as --flag=--kv-type=f16")
    return parser.parse_args()


def gather(bench, measures):
    """The rows of all cases; one that cannot be measured leaves the others alone, and its rows so far in place."""
    rows = []
    for name, measure in measures.items():
        cases.say(name)
        try:
            for row in measure(bench):
                rows.append(row)
                cases.say(f"  {row['engine']} {setting_text(row)}: {row['value']:.4g} {row['unit']}")
        except (machine.Failed, cases.http_stream.Broken) as failure:
            cases.say(f"left out: {failure}")
    return rows


# ---- targets ---------------------------------------------------------------------------------------------------------


def stream_targets(rows):
    for case, where in (("streams-resident", "resident"), ("streams-streamed", "streamed")):
        for streams in cases.STREAMS[1:]:
            share = middle(rows, case, "of_allowed", streams=streams)
            yield report.at_least(f"{streams} streams, {where}: gain over one, share of what the bytes of the experts' union allow", 80,
                                  100 * share if share else None, " %")
            own, other = middle(rows, case, streams=streams), middle(rows, case, engine="llama.cpp", streams=streams)
            yield report.at_least(f"{streams} streams, {where}: tokens per second against llama.cpp's server", 1, own / other if own and other else None)


def tail_targets(rows):
    yield report.at_most("8 streams, a 512-token prompt every 5 s: inter-token P99 over P50", 1.5, middle(rows, "steady"), " x")
    yield report.at_most("first token of 512-token prompts, one at a time: P99 over P50", 1.3, middle(rows, "first-token"), " x")
    own, other = middle(rows, "arrivals"), middle(rows, "arrivals", engine="llama.cpp")
    yield report.at_most("mixed arrivals at 70 % of llama.cpp's rate: first token P99, of llama.cpp's", 0.5, own / other if own and other else None, " x")
    yield report.at_most("the same: inter-token P99 over P50", 1.5, middle(rows, "arrivals", "inter_token_ratio"), " x")


def gained(rows):
    """Of the misses that the better order of those who know beforehand saves against the random one, the share that routing saves."""
    random, routing, offline, domain = (middle(rows, "batching", order=order) for order in ("random", "routing", "offline", "by domain"))
    if not (random and routing and offline and domain and random > min(offline, domain)):
        return None
    return 100 * (random - routing) / (random - min(offline, domain))


def other_targets(rows):
    yield report.at_least("batching by routes, a quarter of the experts in memory: misses saved, of what a known order saves", 50, gained(rows), " %")
    differing = [row["value"] for row in rows if row["case"] == "same-tokens"]
    yield report.at_most("answers that differ from asking alone", 0, sum(differing) if differing else None, "")
    yield report.at_most("findings of the soak", 0, middle(rows, "soak"), "")
    engine, server = (middle(rows, "overhead", through=through) for through in ("engine", "server"))
    yield report.at_most("time per token of one stream that the server adds", 2, 100 * (server / engine - 1) if engine and server else None, " %")
    yield report.at_most("the program, stripped", 12, middle(rows, "size"), " MB")


def targets(rows):
    return [target for part in (stream_targets, tail_targets, other_targets) for target in part(rows)]


# ---- results ---------------------------------------------------------------------------------------------------------


def details(rows):
    """Medians of what a row says besides its value: numbers, and P50/P99 of percentiles."""
    for key in dict.fromkeys(key for row in rows for key in row):
        values = [row[key] for row in rows if key not in ("case", "engine", "setting", "round", "value", "unit") and row.get(key) is not None]
        if values and all(isinstance(value, dict) and "p99" in value for value in values):
            yield f"{key.replace('_', ' ')} " + "/".join(f"{statistics.median(value[share] for value in values):.3g}" for share in ("p50", "p99"))
        elif values and all(isinstance(value, (int, float)) for value in values):
            yield f"{key.replace('_', ' ')} {report.number(statistics.median(values))}"


def table_rows(rows):
    for (case, engine, setting), group in groups(rows).items():
        values = [row["value"] for row in group]
        yield (case, engine, setting, f"{report.number(statistics.median(values))} {group[0]['unit'].replace('_', ' ')}",
               f"{report.number(min(values))} to {report.number(max(values))}", "; ".join(details(group)))


def tables(results):
    return (f"## {results['date']}, {results['machine']['cpu']}, {results['machine']['cores']} cores, commit {results['versions']['commit']}\n\n"
            + report.table(("case", "engine", "setting", "median", "range", "and"), table_rows(results["samples"])) + "\n### Targets\n\n"
            + report.table(("what", "target", "measured", "met"), [tuple(row.values()) for row in results["targets"] if row["met"]]))


def main():
    args = arguments()
    load.hurry()
    gc.disable()
    folder = machine.HOME / "results"
    folder.mkdir(parents=True, exist_ok=True)
    cores = machine.description()["cores"]
    llama = servers.LlamaServer(cores)
    bench = cases.Bench(servers.Colibri(args.colibri, args.flag), [] if args.no_peers or not llama.program.exists() else [llama],
                        args.rounds or (1 if args.quick else 3), args.quick, cores, machine.Peaks.measure().read_bandwidth(cores), folder)
    everything = cases.CASES | {"soak": soak(args.minutes)}
    rows = gather(bench, {name: everything[name] for name in args.only or cases.CASES})
    results = {"format": 1, "date": datetime.datetime.now().isoformat(timespec="seconds"), "machine": machine.description(),
               "versions": run.versions(args), "samples": rows, "targets": targets(rows)}
    text = tables(results)
    print(text)
    stem = folder / f"serving-{results['date'].replace(':', '')}"
    stem.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    stem.with_suffix(".md").write_text(text)
    cases.say(f"{stem}.json, .md")


if __name__ == "__main__":
    main()
