#!/usr/bin/env python3
"""Measures models that are larger than memory: Colibri against what its misses allow, and llama.cpp on the same file with the same memory.

    bench/streaming.py [--only CASE]... [--rounds N] [--make] [--no-peers] [--depth N] [--colibri PROGRAM] [--flag=--io=direct]...

Needs root and a memory controller: every run is under ../shared/tools/with_memory_limit, from a cold page cache, without heat of earlier runs and
without a warm-up, and alternates with its peers. Run it with the tools' Python of install_peers.sh. Cases: decode, prefill-512, prefill-2048,
decode-bf16, decode-throttled, policies, tail, and on the 17 GB file first-token, full-6G, full-10G; models that are missing are made with --make
only. Results: tables on stdout, JSON and Markdown in BENCH_HOME/results.
"""
import argparse
import datetime
import json
import statistics

import machine
import report
import run
import streaming_cases as cases


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(cases.CASES), metavar="CASE", help="may be repeated [all]")
    parser.add_argument("--rounds", type=int, default=3, help="how often every engine has its turn [3]")
    parser.add_argument("--make", action="store_true", help="make the models that are missing (17 and 5 GB)")
    parser.add_argument("--no-peers", action="store_true", help="Colibri alone")
    parser.add_argument("--depth", type=int, default=8, help="reads under way when the disk is measured: as many as the store has [8]")
    parser.add_argument("--colibri", default=machine.BUILD / "bin" / "colibri", help="the program to measure")
    parser.add_argument("--flag", action="append", default=[], help="another flag for Colibri, such as --flag=--io=direct")
    return parser.parse_args()


def gather(bench, names):
    """The rows of all cases; one that cannot be measured leaves the others alone, and its rows so far in place."""
    rows = []
    for name in names:
        cases.say(name)
        try:
            for row in cases.CASES[name](bench):
                rows.append(row)
                cases.say(f"  {row['engine']} {setting_text(row)}: {row['value']:.3g} {row['unit']}")
        except machine.Failed as failure:
            cases.say(f"left out: {failure}")
    return rows


def setting_text(row):
    return " ".join(f"{key} {value}" for key, value in row["setting"].items())


def groups(rows):
    """Rows of the same case, engine and setting together."""
    found = {}
    for row in rows:
        found.setdefault((row["case"], row["engine"], setting_text(row)), []).append(row)
    return found


def middle(rows, case, key="value", engine="colibri", **setting):
    """Median of one number over the rounds, of the setting with the best speed when several fit; None when nothing was measured."""
    fitting = [group for group in groups(rows).values() if group[0]["case"] == case and group[0]["engine"] == engine and
               all(group[0]["setting"].get(name) == value for name, value in setting.items())]
    if not fitting:
        return None
    best = max(fitting, key=lambda group: statistics.median(row["value"] for row in group))
    values = [row[key] for row in best if row.get(key) is not None]
    return statistics.median(values) if values else None


def times_llama(rows, case, **setting):
    own, other = middle(rows, case, **setting), middle(rows, case, engine="llama.cpp")
    return own / other if own and other else None


def decode_targets(rows):
    for case, what in (("decode", "12 layers of qwen3-30b-a3b, 4.3 GB, 2.5 GB of memory"), ("decode-bf16", "safetensors BF16, 4 layers, 2.5 GB of memory"),
                       ("decode-throttled", "the first, disk of 300 MB/s and 5 ms")):
        yield report.at_most(f"decode, {what}: time over what the misses allow", cases.ALLOWED, middle(rows, case, "of_allowed", cache="warm"), " x")
        yield report.at_most("the same from an empty cache", cases.ALLOWED, middle(rows, case, "of_allowed", cache="cold"), " x")
        if case == "decode":
            yield report.at_least("decode against llama.cpp", 1.5, times_llama(rows, case, cache="warm"))


def prefill_targets(rows):
    for tokens in (512, 2048):
        case, where = f"prefill-{tokens}", {"experts": "on disk"}
        yield report.at_most(f"prefill {tokens}, the same: expert bytes read, of those that it wants (2 % for whole blocks)", 1.02,
                             middle(rows, case, "of_wanted_bytes", **where), " x")
        yield report.at_most(f"prefill {tokens}: time over the larger of disk and resident time", 1.15, middle(rows, case, "of_allowed", **where), " x")
    yield report.at_least("prefill 2048 against llama.cpp", 2, times_llama(rows, "prefill-2048", experts="on disk"))


def large_targets(rows):
    for limit in ("6G", "10G"):
        found = [row for row in rows if row["case"] == f"full-{limit}" and row["engine"] == "colibri"]
        memory = found[0]["memory"] if found else None
        yield report.at_most(f"17 GB file, limit {limit}: peak of memory, of the budget", 100,
                             100 * memory["peak_rss_bytes"] / memory["budget_bytes"] if memory else None, " %")
        yield report.at_most(f"17 GB file, limit {limit}: hits of the limit per token, direct reads", 0,
                             found[0]["limit_hits_per_token"] if found else None, "")
    yield report.at_most("first token, 17 GB file, 6 GB of memory, 16 tokens: time over reading what it needs", 1.2,
                         middle(rows, "first-token", "of_allowed"), " x")


def policy_targets(rows):
    found = {(row["setting"]["experts"], row["setting"]["policy"]): row for row in rows if row["case"] == "policies"}
    identical = sum(row["identical"] for row in found.values())
    yield report.at_least("demo model, settings of cache with the tokens of a resident run", len(found) or 12, identical if found else None, "")
    margins = [100 * (found[share, "auto"]["value"] - max(found[share, other]["value"] for other in ("lru", "lfu")))
               for share in dict.fromkeys(share for share, _ in found) if (share, "auto") in found]
    yield report.at_least("demo model, hit rate of auto less the better of lru and lfu, worst share", -0.5, min(margins, default=None), " points")


def tail_targets(rows):
    yield report.at_most("decode steps, half of the experts in memory: P99 over P50", 1.5, middle(rows, "tail"), " x")
    yield report.at_most("steps over twice P50 that their misses do not explain", 0, middle(rows, "tail", "unexplained_steps"), "")


def targets(rows):
    return [target for part in (decode_targets, prefill_targets, large_targets, policy_targets, tail_targets) for target in part(rows)]


def share(value):
    return "" if value is None else f"{value:.2f}"


def megabytes(value):
    return "" if value is None else f"{value / 1e6:.1f}"


def table_rows(rows):
    for (case, engine, setting), group in groups(rows).items():
        values = [row["value"] for row in group]

        def of(key):
            numbers = [row[key] for row in group if row.get(key) is not None]
            return statistics.median(numbers) if numbers else None
        yield (case, engine, setting, f"{report.number(statistics.median(values))} {group[0]['unit'].replace('_', ' ')}",
               f"{report.number(min(values))} to {report.number(max(values))}", share(of("of_allowed")), share(of("hit_rate")),
               megabytes(of("bytes_per_token")), megabytes(of("disk_bytes_per_second")), group[-1].get("io", ""))


def tables(results):
    head = ("case", "engine", "setting", "median", "range", "time over allowed", "hit rate", "MB read per token", "disk, MB/s", "io")
    return (f"## {results['date']}, {results['machine']['cpu']}, {results['machine']['cores']} cores, commit {results['versions']['commit']}\n\n"
            + report.table(head, table_rows(results["samples"])) + "\n### Targets\n\n"
            + report.table(("what", "target", "measured", "met"), [tuple(row.values()) for row in results["targets"]]))


def save(results, text):
    folder = machine.HOME / "results"
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"streaming-{results['date'].replace(':', '')}"
    stem.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    stem.with_suffix(".md").write_text(text)
    cases.say(f"{stem}.json, .md")


def main():
    args = arguments()
    peaks = machine.Peaks.measure()
    bandwidth = peaks.read_bandwidth(machine.description()["cores"])
    bench = cases.Bench(args.colibri, args.flag, args.rounds, args.depth, bandwidth, not args.no_peers, args.make)
    rows = gather(bench, args.only or list(cases.CASES))
    results = {"format": 1, "date": datetime.datetime.now().isoformat(timespec="seconds"), "machine": machine.description(),
               "versions": run.versions(args), "memory_bytes_per_second": bandwidth, "samples": rows, "targets": targets(rows)}
    text = tables(results)
    print(text)
    save(results, text)


if __name__ == "__main__":
    main()
