"""The engines: each measures one case with one setting in a process of its own, so that runs of different engines can alternate.

Every engine warms up in the process (llama-bench and the drivers do that themselves, Colibri runs one repetition that does not count), except
for the cold case, which is one token from a file that is not in the page cache, from the start of the program to its end.
"""
import json
from dataclasses import dataclass, field

import machine


@dataclass
class Sample:
    value: float
    detail: dict = field(default_factory=dict)


class Colibri:
    name = "colibri"
    kv_element_bytes = 4  # the setting kv_type is f32 unless told otherwise

    def __init__(self, program, levels, flags=()):
        self.program, self.levels, self.flags = program, levels, list(flags)

    def takes(self, model, case):
        return model.gguf.exists()

    def file(self, model):
        return model.gguf

    def settings(self, case):
        return [{"isa": level} for level in self.levels]

    def measure(self, model, case, threads, setting):
        command = [self.program, "bench", model.gguf, "--json", "--threads", threads, "--isa", setting["isa"], *self.flags]
        if case.kind == "cold":
            run = machine.run([*command, "-p", 1, "-n", 0, "-r", 1, "--warmup", 0])
            return Sample(run.seconds, {"load_seconds": json.loads(run.output)[0]["load_seconds"]})
        prompt, generate = (case.tokens, 0) if case.kind == "prefill" else (0, case.tokens)
        run = machine.run([*command, "-p", prompt, "-n", generate, "-r", 2, "--depth", case.depth, "--parallel", case.sequences])
        last = json.loads(run.output)[-1]
        phase = last["prefill" if case.kind == "prefill" else "decode"]
        return Sample(phase["tokens_per_second"], {"isa": last["isa"], **last["memory"], "load_seconds": last["load_seconds"]})


class LlamaCpp:
    name = "llama.cpp"
    kv_element_bytes = 2
    program = machine.llama("llama-bench")

    def takes(self, model, case):
        return self.program.exists() and model.gguf.exists() and case.kind != "parallel"

    def file(self, model):
        return model.gguf

    def settings(self, case):
        batches = (512, 2048) if case.kind == "prefill" and case.tokens > 512 else (512,)
        return [{"repack": repack, "ubatch": ubatch} for repack in (0, 1) for ubatch in batches]

    def measure(self, model, case, threads, setting):
        command = [self.program, "-m", model.gguf, "-t", threads, "-r", 1, "-o", "json", "--repack", setting["repack"],
                   "-b", max(2048, setting["ubatch"]), "-ub", setting["ubatch"]]
        if case.kind == "cold":
            return Sample(machine.run([*command, "-p", 1, "-n", 0, "--no-warmup"]).seconds)
        prompt, generate = (case.tokens, 0) if case.kind == "prefill" else (0, case.tokens)
        run = machine.run([*command, "-p", prompt, "-n", generate, "-d", case.depth])
        return Sample(json.loads(run.output)[0]["avg_ts"], {"peak_rss_bytes": run.peak_rss_bytes})


class DriverEngine:
    """An engine with a Python interface: a driver beside this file, run by the Python of the engine's environment."""
    environment = {}

    def takes(self, model, case):
        return self.python.exists() and self.file(model).exists() and case.kind != "parallel"

    def settings(self, case):
        return [{}]

    def measure(self, model, case, threads, setting):
        kind = "load" if case.kind == "cold" else case.kind
        prompt, generate = (case.depth, case.tokens) if kind == "decode" else (case.tokens, 1)
        run = machine.run([self.python, machine.ROOT / "bench" / self.driver, self.file(model), kind, "--threads", threads,
                           "--prompt", prompt, "--generate", generate], environment=self.environment)
        result = json.loads(run.output.splitlines()[-1])
        if kind == "load":
            return Sample(result["seconds"])
        return Sample(result["tokens"] / result["seconds"], {"peak_rss_bytes": run.peak_rss_bytes})


class OpenVino(DriverEngine):
    name = "openvino"
    kv_element_bytes = 1  # its default on CPUs is 8-bit
    python, driver = machine.HOME / "openvino" / "bin" / "python", "openvino_driver.py"

    def file(self, model):
        return model.openvino


class Vllm(DriverEngine):
    name = "vllm"
    kv_element_bytes = 2
    python, driver = machine.HOME / "vllm" / "bin" / "python", "vllm_driver.py"
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}

    def file(self, model):
        return model.hf


PEERS = {engine.name: engine for engine in (LlamaCpp, OpenVino, Vllm)}
