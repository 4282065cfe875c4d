#!/usr/bin/env python3
"""The router beside torch: softmax, topk and renormalise of the same 32 rows, one thread each.

usage: router_vs_torch.py [LIBCOLIBRI.SO]      (default: build/lib/libcolibri.so)

Needs a Python that has torch (pip install torch --index-url https://download.pytorch.org/whl/cpu). Both sides run in
turns, many short runs each; the fastest of each is the least disturbed. Prints one line per case and checks that both
choose the same experts.
"""
import ctypes
import pathlib
import sys
import time

CASES = [(64, 2), (128, 8), (512, 10)]  # experts, choices
ROWS = 32
ROUNDS, RUNS = 300, 20
SOFTMAX_RENORMALISED = 0  # colibri_router_kind


def load(path):
    library = ctypes.CDLL(str(path))
    library.colibri_route.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32,
                                      ctypes.c_void_p, ctypes.c_void_p]
    return library.colibri_route


def seconds_per_run(function):
    start = time.perf_counter()
    for _ in range(RUNS):
        function()
    return (time.perf_counter() - start) / RUNS


def compare(torch, route, experts, k):
    logits = torch.randn(ROWS, experts, generator=torch.Generator().manual_seed(experts)) * 3
    ids, weights = torch.empty(ROWS, k, dtype=torch.int32), torch.empty(ROWS, k)

    # The arguments of ctypes are made once: what remains of the call costs about a microsecond and counts as ours.
    arguments = (ctypes.c_void_p(logits.data_ptr()), ctypes.c_int64(ROWS), ctypes.c_int32(experts),
                 ctypes.c_int32(SOFTMAX_RENORMALISED), ctypes.c_int32(k), ctypes.c_void_p(ids.data_ptr()),
                 ctypes.c_void_p(weights.data_ptr()))

    def ours():
        return route(*arguments)

    def theirs():
        top, chosen = torch.topk(torch.softmax(logits, dim=-1), k, dim=-1)
        return top / top.sum(dim=-1, keepdim=True), chosen

    if ours() != 0:
        sys.exit("colibri_route refused its arguments")
    top, chosen = theirs()
    if not torch.equal(chosen.int(), ids) or not torch.allclose(top, weights, atol=1e-6):
        sys.exit(f"{experts} experts, top {k}: the two disagree")
    best_ours = best_theirs = float("inf")
    for _ in range(ROUNDS):
        best_ours, best_theirs = min(best_ours, seconds_per_run(ours)), min(best_theirs, seconds_per_run(theirs))
    print(f"{experts:4} experts, top {k:2}, {ROWS} rows: colibri {best_ours / ROWS * 1e9:7.1f} ns per row, "
          f"torch {best_theirs / ROWS * 1e9:7.1f} ns per row, ratio {best_theirs / best_ours:5.1f}")


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "build" / "lib" / "libcolibri.so"
    try:
        import torch
    except ImportError:
        sys.exit("this Python has no torch: python3 -m venv V && V/bin/pip install torch, then V/bin/python " + __file__)
    route = load(sys.argv[1] if len(sys.argv) > 1 else default)
    torch.set_num_threads(1)
    with torch.inference_mode():
        for experts, k in CASES:
            compare(torch, route, experts, k)


if __name__ == "__main__":
    main()
