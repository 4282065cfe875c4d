"""The models that are measured, and how much work a token of each is: bytes read, operations done. From the GGUF header alone."""
import functools
import os
from dataclasses import dataclass, field
from pathlib import Path

import machine

SHARED = Path(os.environ.get("COLIBRI_SHARED", machine.ROOT.parent / "shared"))
FOLDER = Path(os.environ.get("BENCH_MODELS", machine.HOME / "models"))
FLOAT_TYPES = {"F32", "F16", "BF16"}


@dataclass(frozen=True)
class Model:
    name: str
    kind: str  # how make_models.py makes it
    preset: str = ""
    options: tuple = ()

    @property
    def gguf(self):
        return FOLDER / f"{self.name}.gguf"

    @property
    def hf(self):
        return FOLDER / f"{self.name}-hf"

    @property
    def openvino(self):
        return FOLDER / f"{self.name}-openvino-int4"

    @functools.cached_property
    def work(self):
        return Work.of_gguf(self.gguf)


MODELS = {model.name: model for model in (
    Model("qwen3-30b-a3b-12l-q4_k", "synthetic", "qwen3-30b-a3b", ("--layers", "12", "--vocab", "32768")),
    Model("qwen3-30b-a3b-12l-q8_0", "synthetic", "qwen3-30b-a3b",
          ("--layers", "12", "--vocab", "32768", "--experts", "Q8_0", "--dense", "Q8_0")),
    Model("olmoe-1b-7b-q4_0", "synthetic", "olmoe-1b-7b", ("--experts", "Q4_0", "--dense", "Q4_0")),
    Model("q3moe-1.3b-q4_0", "checkpoint"),
    Model("colibri-tales-14m-q8_0", "demo", "Q8_0"),
    Model("colibri-tales-14m-q4_k_m", "demo", "Q4_K_M"),
)}

# What streaming.py measures: larger than memory should be. "uniform": see uniform_routing.py.
RESIDENT = "qwen3-30b-a3b-12l-q4_k-uniform"
FULL = "qwen3-30b-a3b-q4_k-uniform"
STREAMED = {model.name: model for model in (
    Model(RESIDENT, "uniform", "qwen3-30b-a3b", ("--layers", "12", "--vocab", "32768")),
    Model(FULL, "uniform", "qwen3-30b-a3b"),
    Model("qwen3-30b-a3b-4l-bf16", "bf16", options=("--hidden", "2048", "--layers", "4", "--experts", "128", "--width", "768", "--heads", "32",
                                                     "--kv-heads", "4", "--head-dim", "128")),
)}


@dataclass
class Work:
    """Sizes of one model. Bytes as in the file: the kernels' encodings have the same."""
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    top_k: int
    dense_bytes: int = 0  # that every step reads: all but the embedding table and the experts
    expert_bytes: int = 0  # of all experts of all layers
    quantised: int = 0  # multiply-adds per row with quantised weights, head and experts not counted
    floating: int = 0  # the same with float weights
    head: int = 0
    per_expert: int = 0  # multiply-adds per row of one expert of every layer
    types: set = field(default_factory=set)

    @classmethod
    def of_gguf(cls, path):
        from gguf import GGUFReader  # of the tools' environment
        reader = GGUFReader(path)
        arch = reader.fields["general.architecture"].contents()
        value = {key.removeprefix(arch + "."): f.contents() for key, f in reader.fields.items() if key.startswith(arch)}
        work = cls(value["block_count"], value["attention.head_count"], value["attention.head_count_kv"], value["attention.key_length"],
                   value["expert_count"], value["expert_used_count"])
        names = {tensor.name for tensor in reader.tensors}
        for tensor in reader.tensors:
            work.add(tensor, tied="output.weight" not in names)
        return work

    def add(self, tensor, tied):
        kind, n = tensor.tensor_type.name, int(tensor.n_elements)
        self.types.add(kind)
        if "_exps" in tensor.name:
            self.expert_bytes += int(tensor.n_bytes)
            self.per_expert += n // self.experts
            return
        is_head = tensor.name == ("token_embd.weight" if tied else "output.weight")
        if tensor.name == "token_embd.weight" and not is_head:
            return
        self.dense_bytes += int(tensor.n_bytes)
        if is_head:
            self.head = n
        elif "norm" not in tensor.name:
            if kind in FLOAT_TYPES:
                self.floating += n
            else:
                self.quantised += n

    def kv_bytes(self, positions, bytes_per_element):
        """Keys and values of all layers."""
        return int(2 * self.layers * self.kv_heads * self.head_dim * bytes_per_element * positions)

    def experts_met(self, sequences):
        """Expected number of experts of a layer that a step of so many rows needs, when routing is uniform."""
        return self.experts * (1 - (1 - self.top_k / self.experts) ** sequences)

    def step_bytes(self, sequences, depth, kv_element_bytes):
        """Bytes that one decode step reads: each weight once, each sequence's keys and values."""
        experts = self.expert_bytes * self.experts_met(sequences) / self.experts
        return self.dense_bytes + experts + sequences * self.kv_bytes(depth, kv_element_bytes)

    def prefill_operations(self, tokens):
        """(with quantised weights, in floats) of a prompt; a multiply and an add count as two. Attention is causal."""
        quantised = tokens * (self.quantised + self.top_k * self.per_expert) + self.head
        attention = 2 * self.layers * self.heads * self.head_dim * tokens * (tokens + 1) / 2
        return 2 * quantised, 2 * (tokens * self.floating + attention)
