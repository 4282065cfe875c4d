"""From samples to what people read: medians and spreads, shares of the machine's peaks, ratios to peers, and the targets' table."""
import statistics

import cases
import engines
import models

CASES = {case.name: case for case in (*cases.SPEED, *cases.QUICK)}
KV_ELEMENT_BYTES = {"colibri": engines.Colibri.kv_element_bytes} | {name: peer.kv_element_bytes for name, peer in engines.PEERS.items()}
TARGET_MODEL, SMALL_MODEL = "qwen3-30b-a3b-12l-q4_k", "q3moe-1.3b-q4_0"


def summarise(samples):
    """One row per model, case, threads, engine and setting."""
    groups = {}
    for sample in samples:
        key = (sample["model"], sample["case"], sample["threads"], sample["engine"], tuple(sorted(sample["setting"].items())))
        groups.setdefault(key, []).append(sample)
    rows = []
    for (model, case, threads, engine, setting), group in groups.items():
        values = [sample["value"] for sample in group]
        rows.append({"model": model, "case": case, "threads": threads, "engine": engine, "setting": dict(setting), "runs": len(values),
                     "median": statistics.median(values), "least": min(values), "most": max(values), "unit": group[0]["unit"],
                     "detail": group[-1]["detail"]})
    return rows


def rows_of(summary, model, case, engine=None, threads=None):
    """Rows of one case; with `threads` None those of the most threads."""
    rows = [row for row in summary if row["model"] == model and row["case"] == case]
    threads = threads or max((row["threads"] for row in rows), default=0)
    return [row for row in rows if row["threads"] == threads and engine in (None, row["engine"])]


def best(rows):
    """The row with the best median, or None."""
    chosen = None
    for row in rows:
        if chosen is None or CASES[row["case"]].better(row["median"], chosen["median"]):
            chosen = row
    return chosen


def bound(row, peaks):
    """The best value that the machine allows for this row's case: bytes over bandwidth, or operations over peaks. None where neither says it, and
    for engines that read another file."""
    case, work = CASES[row["case"]], models.MODELS[row["model"]].work
    if row["engine"] not in ("colibri", "llama.cpp"):
        return None
    if case.kind in ("decode", "parallel"):
        depth = max(case.depth, 1) + case.tokens / 2
        seconds = work.step_bytes(case.sequences, depth, KV_ELEMENT_BYTES[row["engine"]]) / peaks.read_bandwidth(row["threads"])
        return case.sequences / seconds
    isa = row["detail"].get("isa")
    if case.kind != "prefill" or isa is None:
        return None
    quantised, floating = work.prefill_operations(case.tokens)
    return case.tokens / (quantised / peaks.operations("int8", isa, row["threads"]) + floating / peaks.operations("f32", isa, row["threads"]))


# ---- tables --------------------------------------------------------------------------------------------------------


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def number(value):
    return "" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else ""


def setting_text(row):
    return " ".join(f"{key} {value}" for key, value in row["setting"].items())


def ratio(row, other):
    """How many times better `row` is than `other`."""
    return row["median"] / other["median"] if row["unit"] != "seconds" else other["median"] / row["median"]


def speed_rows(summary, peaks):
    for row in sorted(summary, key=lambda r: (r["model"], list(CASES).index(r["case"]), -r["threads"], r["engine"])):
        limit = bound(row, peaks)
        leader = best(rows_of(summary, row["model"], row["case"], "colibri", row["threads"]))
        yield (row["case"], row["threads"], row["engine"], setting_text(row), number(row["median"]),
               f"{number(row['least'])} to {number(row['most'])}", percent(row["median"], limit),
               number(ratio(leader, row)) if leader and row["engine"] != "colibri" else "")


def speed_tables(summary, peaks):
    head = ("case", "threads", "engine", "setting", "median", "range", "of the bound", "Colibri is x times")
    text = ""
    for name in dict.fromkeys(row["model"] for row in summary):
        work = models.MODELS[name].work
        text += (f"\n### {name}\n\nA token of a lone sequence reads {work.step_bytes(1, 0, 0) / 1e6:.0f} MB of weights; a token of a prompt of "
                 f"512 takes {sum(work.prefill_operations(512)) / 512e9:.2f} G operations. Tokens per second; seconds for the cold case.\n\n")
        text += table(head, speed_rows([row for row in summary if row["model"] == name], peaks))
    return text


def peaks_table(peaks):
    rows = [("read", "", row["threads"], f"{row['gigabytes_per_second']:.1f} GB/s") for row in peaks.measured["read_bandwidth"]]
    rows += [(row["arithmetic"], f"{row['isa']}: {row['instructions']}", row["threads"], f"{row['gops']:.0f} GOP/s")
             for row in peaks.measured["arithmetic"]]
    return table(("what", "level", "threads", "peak"), rows)


def quality_table(rows):
    return table(("model", "text", "scored tokens", "Colibri", "llama.cpp", "difference"),
                 [(row["model"], row["text"], row["tokens"], f"{row['colibri']:.6f}", f"{row['llama.cpp']:.6f}",
                   f"{100 * (row['colibri'] / row['llama.cpp'] - 1):+.4f} %") for row in rows])


def memory_table(memory):
    return table(("model", "sequences", "peak, MB", "plan, MB", "keys and values in the plan, MB"),
                 [(row["model"], row["sequences"], *(f"{row[key] / 1e6:.1f}" for key in ("peak_rss_bytes", "planned_bytes", "kv_bytes")))
                  for row in memory["batches"]])


def tables(results, peaks):
    """Everything as Markdown."""
    text = (f"## {results['date']}, {results['machine']['cpu']}, {results['machine']['cores']} cores, commit {results['versions']['commit']}\n\n"
            + peaks_table(peaks) + speed_tables(results["summary"], peaks))
    if results.get("quality"):
        text += "\n### Mean negative log likelihood of the demo model\n\n" + quality_table(results["quality"])
    if results.get("memory"):
        text += "\n### Resident memory\n\n" + memory_table(results["memory"])
    head = ("what", "target", "measured", "met")
    return text + "\n### Targets\n\n" + table(head, [[row[key] for key in head] for row in results["targets"]])


# ---- targets -------------------------------------------------------------------------------------------------------


def target(what, wanted, value, met, unit=""):
    """A row of the targets' table; `value` None: this run did not measure it."""
    measured = "not measured" if value is None else f"{number(value)}{unit}"
    return {"what": what, "target": wanted, "measured": measured, "met": "" if value is None else "yes" if met(value) else "no"}


def at_least(what, least, value, unit=" x"):
    return target(what, f">= {least}{unit}", value, lambda v: v >= least, unit)


def at_most(what, most, value, unit):
    return target(what, f"<= {most}{unit}", value, lambda v: v <= most, unit)


def against(summary, model, case, peer, isa=None):
    """Ratio of Colibri (at that level) to the peer's best setting."""
    own = best([row for row in rows_of(summary, model, case, "colibri") if isa in (None, row["detail"].get("isa"))])
    other = best(rows_of(summary, model, case, peer))
    return ratio(own, other) if own and other else None


def share_of_bound(summary, peaks, model, case):
    row = best(rows_of(summary, model, case, "colibri"))
    return 100 * row["median"] / bound(row, peaks) if row else None


def sharing(summary, sequences):
    """Decode of several sequences in one step against one: percent of what the bytes of the experts' union allow."""
    one, many = (best(rows_of(summary, TARGET_MODEL, f"decode-{n}-sequences", "colibri")) for n in (1, sequences))
    if not one or not many:
        return None
    work = models.MODELS[TARGET_MODEL].work
    allowed = sequences * work.step_bytes(1, 0, 0) / work.step_bytes(sequences, 0, 0)
    return 100 * many["median"] / one["median"] / allowed


def memory_growth(memory):
    """MB that the peak grows by from the first to the last number of sequences, planned keys and values left out."""
    if not memory or not memory["batches"]:
        return None
    first, last = memory["batches"][0], memory["batches"][-1]
    grown = {key: last[key] - first[key] for key in ("peak_rss_bytes", "kv_bytes")}
    return (grown["peak_rss_bytes"] - grown["kv_bytes"]) / 1e6


def beyond_plan(memory):
    """The worst distance of a peak from its plan, as percent of what is allowed: 2 % or 8 MB, whichever is larger."""
    distances = [100 * abs(row["peak_rss_bytes"] - row["planned_bytes"]) / max(0.02 * row["planned_bytes"], 8e6)
                 for row in (memory or {}).get("batches", [])]
    return max(distances, default=None)


def speed_targets(summary, peaks):
    decode = "decode-64-at-0"
    yield at_least("decode against llama.cpp's best setting, 12-layer qwen3-30b-a3b Q4_K", 1.5,
                   against(summary, TARGET_MODEL, decode, "llama.cpp"))
    yield at_least("decode, share of what the read bandwidth allows, the same file", 80, share_of_bound(summary, peaks, TARGET_MODEL, decode), " %")
    for tokens, amx in ((512, 5), (2048, 3.5)):
        case = f"prefill-{tokens}"
        yield at_least(f"prefill {tokens} against llama.cpp's best setting, VNNI", 2.5, against(summary, TARGET_MODEL, case, "llama.cpp", "avx512"))
        yield at_least(f"prefill {tokens} against llama.cpp's best setting, AMX", amx, against(summary, TARGET_MODEL, case, "llama.cpp", "amx"))
    for case in ("prefill-512", decode):
        yield at_least(f"{case} against OpenVINO GenAI int4, 1.3 G Qwen3-MoE", 1.5, against(summary, SMALL_MODEL, case, "openvino"))
    for sequences in (8, 16):
        yield at_least(f"decode of {sequences} sequences in one step, share of what the experts' union allows", 85, sharing(summary, sequences), " %")


def targets(results, peaks):
    """The table of the targets, computed from everything that this run measured."""
    rows = list(speed_targets(results["summary"], peaks))
    router, memory = results.get("router") or {}, results.get("memory")
    rows.append(at_most("router, 64 experts, top 2, per row on AVX-512", 15, router.get("colibri_route", router.get("avx512")), " ns"))
    rows.append(at_least("router against torch", 15, router["torch"] / router["colibri_route"] if "torch" in router else None))
    overhead = (results.get("overhead") or {}).get("overhead_seconds")
    rows.append(at_most("overhead of one forward, olmoe geometry, 32 rows", 0.15, overhead * 1e3 if overhead is not None else None, " ms"))
    rows.append(at_most("resident memory from 1 to 32 sequences, beyond planned keys and values", 12, memory_growth(memory), " MB"))
    rows.append(at_most("peak against plan, of the distance allowed (2 % or 8 MB)", 100, beyond_plan(memory), " %"))
    rows.append(at_most("program without a model", 20, memory["program_bytes"] / 1e6 if memory else None, " MB"))
    for row in results.get("quality") or []:
        if row["text"] == "all":
            rows.append(at_most(f"negative log likelihood above llama.cpp's, {row['model']}", 0.1, 100 * (row["colibri"] / row["llama.cpp"] - 1), " %"))
    return rows
