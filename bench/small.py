"""The two things that are measured in nanoseconds: the router, beside torch, and what a forward pass costs besides its kernels."""
import json

import machine

ROUTER = ("route softmax, renormalised", "64 experts, top 2, 32 rows")


def router(program):
    """Nanoseconds per row of every instruction set, and of colibri_route and torch where the openvino environment has brought torch."""
    rows = json.loads(machine.run([program, "test", "router", "--json"]).output)
    result = {row["isa"]: row["nanoseconds"] for row in rows if (row["operation"], row["encoding"]) == ROUTER}
    python = machine.HOME / "openvino" / "bin" / "python"
    if python.exists():
        library = machine.BUILD / "lib" / "libcolibri.so"
        lines = machine.run([python, machine.ROOT / "bench" / "router_vs_torch.py", library]).output.splitlines()
        first = json.loads(lines[0])  # 64 experts, top 2
        result |= {"colibri_route": first["colibri"], "torch": first["torch"]}
    return result


def overhead(_program):
    """What bench/forward_overhead.cc prints for 32 rows of the olmoe geometry."""
    tool = machine.BUILD / "bin" / "forward_overhead"
    return json.loads(machine.run([tool, 32]).output) if tool.exists() else {}
