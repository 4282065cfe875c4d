#!/usr/bin/env python3
"""The router beside torch: softmax, topk and renormalise of the same 32 rows, one thread each.

usage: router_vs_torch.py [LIBCOLIBRI.SO]      (default: build/lib/libcolibri.so)

Needs a Python that has torch. Both sides run in turns, many short runs each; the fastest of each is the least disturbed. Prints one line of JSON per
case, nanoseconds per row, and checks that both choose the same experts. Calling C from Python costs about as much as routing 32 rows; a call for
no rows measures that, and the line shows our time with and without it (torch's includes its own dispatch, which every caller pays).
"""
import ctypes
import json
import pathlib
import sys
import time

CASES = [(64, 2), (128, 8), (512, 10)]  # experts, choices
ROWS = 32
ROUNDS, RUNS = 300, 20
SOFTMAX_RENORMALISED = 0  # colibri_router_kind


def seconds_per_run(function):
    start = time.perf_counter()
    for _ in range(RUNS):
        function()
    return (time.perf_counter() - start) / RUNS


def compare(torch, route, experts, k):
    logits = torch.randn(ROWS, experts, generator=torch.Generator().manual_seed(experts)) * 3
    ids, weights = torch.empty(ROWS, k, dtype=torch.int32), torch.empty(ROWS, k)

    def call_for(rows):
        arguments = (ctypes.c_void_p(logits.data_ptr()), ctypes.c_int64(rows), ctypes.c_int32(experts),
                     ctypes.c_int32(SOFTMAX_RENORMALISED), ctypes.c_int32(k), ctypes.c_void_p(ids.data_ptr()),
                     ctypes.c_void_p(weights.data_ptr()))
        return lambda: route(*arguments)

    ours, nothing = call_for(ROWS), call_for(0)

    def theirs():
        top, chosen = torch.topk(torch.softmax(logits, dim=-1), k, dim=-1)
        return top / top.sum(dim=-1, keepdim=True), chosen

    if ours() != 0:
        sys.exit("colibri_route refused its arguments")
    top, chosen = theirs()
    if not torch.equal(chosen.int(), ids) or not torch.allclose(top, weights, atol=1e-6):
        sys.exit(f"{experts} experts, top {k}: the two disagree")
    best = [float("inf")] * 3
    for _ in range(ROUNDS):
        best = [min(old, seconds_per_run(run)) for old, run in zip(best, (ours, nothing, theirs))]
    with_call, call, torchs = (seconds / ROWS * 1e9 for seconds in best)
    return {"experts": experts, "top_k": k, "colibri": with_call - call, "colibri_with_call": with_call, "torch": torchs}


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "build" / "lib" / "libcolibri.so"
    try:
        import torch
    except ImportError:
        sys.exit("this Python has no torch: python3 -m venv V && V/bin/pip install torch, then V/bin/python " + __file__)
    # PyDLL: the call keeps the interpreter's lock, as so short a call should.
    route = ctypes.PyDLL(sys.argv[1] if len(sys.argv) > 1 else str(default)).colibri_route
    torch.set_num_threads(1)
    with torch.inference_mode():
        for experts, k in CASES:
            print(json.dumps(compare(torch, route, experts, k)))


if __name__ == "__main__":
    main()
