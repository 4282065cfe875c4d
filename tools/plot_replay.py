#!/usr/bin/env python3
"""Draw what `colibri-replay --json` says: hit rate over capacity, one line per policy, as SVG.

    colibri-replay --json TRACE... | tools/plot_replay.py [--part all|decode|after_prompt] > hits.svg
"""
import argparse
import json
import sys

COLOURS = {"lru": "#c8553d", "lfu": "#4f6d8f", "auto": "#0b6e4f", "belady": "#888888"}
LEFT, TOP, WIDTH, HEIGHT = 50, 20, 480, 300


def place(capacity, rate):
    """Pixels of a point; both in percent."""
    return LEFT + WIDTH * capacity / 100, TOP + HEIGHT * (1 - rate / 100)


def line(x1, y1, x2, y2, colour):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def text(x, y, words, anchor="middle", colour="#333333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def axes():
    for percent in range(0, 101, 25):
        x, _ = place(percent, 0)
        _, y = place(0, percent)
        yield line(x, TOP, x, TOP + HEIGHT, "#dddddd")
        yield line(LEFT, y, LEFT + WIDTH, y, "#dddddd")
        yield text(x, TOP + HEIGHT + 16, f"{percent}%")
        yield text(LEFT - 6, y + 4, f"{percent}%", "end")
    yield text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, "share of all experts that fits")


def curve(policy, points, row):
    colour = COLOURS.get(policy, "#000000")
    pixels = [place(*point) for point in sorted(points)]
    yield f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)}"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in pixels)
    yield text(LEFT + WIDTH - 8, TOP + HEIGHT - 12 - 16 * row, policy, "end", colour)


def svg(results, part):
    curves = {}
    for result in results:
        hits = result[part]
        if hits["wanted"]:
            curves.setdefault(result["policy"], []).append((result["capacity_percent"], 100 * hits["hits"] / hits["wanted"]))
    size = f'width="{LEFT + WIDTH + 20}" height="{TOP + HEIGHT + 50}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">', *axes()]
    for row, (policy, points) in enumerate(reversed(curves.items())):
        parts += curve(policy, points, row)
    return "\n".join(parts + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="all", choices=("all", "decode", "after_prompt"))
    sys.stdout.write(svg(json.load(sys.stdin)["results"], parser.parse_args().part))


if __name__ == "__main__":
    main()
