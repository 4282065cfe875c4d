"""Resident memory: against the plan, with more sequences, and of the program itself."""
import json
import subprocess
import tempfile

import cases
import machine
import models

CONTEXT = 512
BATCHES = (1, 2, 4, 8, 16, 32)


def of_batches(program, model):
    """Peak and plan with so many sequences at once. Key and value bytes of the plan follow from the geometry."""
    rows = []
    for sequences in BATCHES:
        run = machine.run([program, "bench", model.gguf, "--json", "-p", 64, "-n", 8, "-r", 1, "--context", CONTEXT, "--parallel", sequences])
        memory = json.loads(run.output)[0]["memory"]
        rows.append({"model": model.name, "sequences": sequences, "peak_rss_bytes": memory["peak_rss_bytes"],
                     "planned_bytes": memory["planned_bytes"], "kv_bytes": sequences * model.work.kv_bytes(CONTEXT, 4)})
    return rows


def of_program(program):
    """Peak of the program at work without a model: it renders a chat template and waits for the next line."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
        template.flush()
        with subprocess.Popen([program, "template", "--template", template.name, "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as process:
            process.stdin.write(json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n")
            process.stdin.flush()
            if "hello" not in process.stdout.readline():
                raise machine.Failed("colibri template: no answer")
            with open(f"/proc/{process.pid}/status") as status:
                peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
            process.stdin.close()
    return peak


def measure(program):
    made = [models.MODELS[name] for name in cases.ALL_MODELS if models.MODELS[name].gguf.exists()]
    smallest = min(made, key=lambda model: model.gguf.stat().st_size, default=None)
    return {"program_bytes": of_program(program), "batches": of_batches(program, smallest) if smallest else []}
