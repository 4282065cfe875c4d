"""The picture of a run: Colibri and its peers side by side, one panel per model, as SVG."""
import cases
import report

COLOURS = {"colibri": "#0b6e4f", "llama.cpp": "#c8553d", "openvino": "#4f6d8f", "vllm": "#8d6a9f"}
SHOWN = ("prefill-128", "prefill-512", "prefill-2048", "decode-64-at-0", "decode-64-at-4096")


def bars_of(summary, model):
    """{case: {engine: row}} with the best setting of each engine."""
    bars = {}
    for case in SHOWN:
        rows = report.rows_of(summary, model, case)
        bars[case] = {engine: report.best([row for row in rows if row["engine"] == engine]) for engine in {row["engine"] for row in rows}}
    return {case: rows for case, rows in bars.items() if rows}


def draw(axes, title, bars):
    """Speeds relative to Colibri's, with the tokens per second written on the bars."""
    engines = [name for name in COLOURS if any(name in rows for rows in bars.values())]
    for place, engine in enumerate(engines):
        for x, rows in enumerate(bars.values()):
            row, base = rows.get(engine), rows.get("colibri")
            if row is None or base is None:
                continue
            height, left = row["median"] / base["median"], x + 0.8 * (place / len(engines) - 0.5)
            axes.bar(left, height, 0.8 / len(engines), align="edge", color=COLOURS[engine], label=engine if x == 0 else None)
            axes.text(left + 0.4 / len(engines), height, report.number(row["median"]), ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(bars)), list(bars), fontsize=8)
    axes.set_ylabel("tokens per second, Colibri = 1", fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.legend(fontsize=7)


def save(results, path):
    """Writes the picture; nothing when there is nothing to show."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    models = [name for name in cases.ALL_MODELS if bars_of(results["summary"], name)]
    if not models:
        return
    figure, axes = pyplot.subplots(len(models), 1, figsize=(8, 2.8 * len(models)), squeeze=False)
    for panel, name in zip(axes[:, 0], models):
        draw(panel, name, bars_of(results["summary"], name))
    figure.tight_layout()
    figure.savefig(path)
