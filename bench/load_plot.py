"""The picture of one or several loads, as SVG: how soon first tokens came, when tokens were slow, and how many came."""
COLOURS = ("#0b6e4f", "#c8553d", "#4f6d8f", "#8d6a9f")


def token_times(result):
    """(time, gap before it) of every token but the first of its request."""
    for row in result["requests"]:
        at = row["at"] + row.get("first_token", 0)
        for gap in row["gaps"]:
            at += gap
            yield at, gap


def draw_first_tokens(axes, name, colour, result):
    values = sorted(row["first_token"] for row in result["requests"] if "first_token" in row)
    axes.step(values, [(n + 1) / len(values) for n in range(len(values))], where="post", color=colour, label=name)
    axes.set(xlabel="seconds to the first token", ylabel="share of requests", ylim=(0, 1.02))


def draw_gaps(axes, name, colour, result):
    points = list(token_times(result))
    axes.scatter([at for at, _ in points], [1e3 * gap for _, gap in points], s=2, color=colour, label=name, linewidths=0, rasterized=True)
    axes.set(xlabel="seconds of the run", ylabel="milliseconds between tokens", yscale="log")


def draw_throughput(axes, name, colour, result, width=1.0):
    counts = {}
    for at, _ in token_times(result):
        counts[int(at / width)] = counts.get(int(at / width), 0) + 1
    bins = range(max(counts, default=0) + 1)
    axes.plot([width * n for n in bins], [counts.get(n, 0) / width for n in bins], color=colour, label=name, linewidth=1)
    axes.set(xlabel="seconds of the run", ylabel="tokens per second")


def save(results, path):
    """`results`: {name: what load_report.result gave}."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(3, 1, figsize=(8, 9))
    for (name, result), colour in zip(results.items(), COLOURS):
        for panel, draw in zip(axes, (draw_first_tokens, draw_gaps, draw_throughput)):
            draw(panel, name, colour, result)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
