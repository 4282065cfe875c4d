"""What the disk allows: where a model's experts lie, how fast direct reads bring them, and the time that follows for a token."""
import json
import math
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

import machine


@dataclass
class Layout:
    """The places of a model's weights, from its headers alone."""
    layers: int = 0
    dense_bytes: int = 0  # that every step reads: all but the embedding table and the experts
    embedding_bytes: int = 0
    experts: dict = field(default_factory=dict)  # (layer, expert) -> [(file, offset, bytes)]

    @property
    def expert_bytes(self):
        return sum(size for slices in self.experts.values() for _, _, size in slices)

    def bytes_wanted(self, activations):
        """Bytes of the experts that a run chose at least once; `activations` as in its statistics, per layer with experts."""
        layers = sorted({layer for layer, _ in self.experts})
        return sum(size for (layer, expert), slices in self.experts.items() if activations[layers.index(layer)][expert] > 0
                   for _, _, size in slices)

    def add_expert(self, layer, expert, file, offset, size):
        self.layers = max(self.layers, layer + 1)
        self.experts.setdefault((layer, expert), []).append((file, offset, size))

    def add_dense(self, size, is_embedding):
        if is_embedding:
            self.embedding_bytes += size
        else:
            self.dense_bytes += size


def of_gguf(path):
    from gguf import GGUFReader  # of the tools' environment
    layout = Layout()
    for tensor in GGUFReader(path).tensors:
        size, offset = int(tensor.n_bytes), int(tensor.data_offset)
        if "_exps" not in tensor.name:
            layout.add_dense(size, tensor.name == "token_embd.weight")
            continue
        n_experts = int(tensor.shape[-1])
        for expert in range(n_experts):
            layout.add_expert(int(tensor.name.split(".")[1]), expert, path, offset + expert * size // n_experts, size // n_experts)
    return layout


def of_safetensors(folder):
    layout = Layout()
    for file in sorted(folder.glob("*.safetensors")):
        with open(file, "rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            first, end = tensor["data_offsets"]
            words = name.split(".")
            if "experts" in words:
                layout.add_expert(int(words[2]), int(words[words.index("experts") + 1]), file, 8 + length + first, end - first)
            else:
                layout.add_dense(end - first, "embed_tokens" in name)
    return layout


def layout_of(path):
    return of_safetensors(path) if path.is_dir() else of_gguf(path)


@dataclass(frozen=True)
class Disk:
    bytes_per_second: float
    latency_seconds: float  # of one small read, when nothing else is under way
    depth: int

    @classmethod
    def measure(cls, layout, depth, environment=None):
        """Experts in random order, as decoding wants them, from the file that holds most of them."""
        files = [file for slices in layout.experts.values() for file, _, _ in slices]
        file = max(set(files), key=files.count)
        experts = list(layout.experts.values())
        random.Random(len(experts)).shuffle(experts)
        lines = "".join(f"{offset} {size}\n" for slices in experts for at, offset, size in slices if at == file)
        run = machine.run([machine.BUILD / "bin" / "direct_reads", file, depth], text_input=lines, environment=environment)
        return cls(**json.loads(run.output))


def allowed_seconds(layout, disk, memory_bandwidth, bytes_missed, misses):
    """Time of a decode step with so many misses: their bytes pass the disk, every layer that misses something waits once for a first answer, and
    the dense weights pass the memory."""
    waits = min(layout.layers, misses)
    return bytes_missed / disk.bytes_per_second + layout.dense_bytes / memory_bandwidth + waits * disk.latency_seconds


def slow(path, bytes_per_second, latency_seconds):
    """The environment in which reads of a file (or of a folder's files) pass a slow disk."""
    library = machine.BUILD / "lib" / "libio_shim.so"
    if not library.exists():
        raise machine.Failed(f"{library}: is not there; build with COLIBRI_TESTS")
    rule = f"on=read path={Path(path).resolve().name} rate={bytes_per_second:.0f} latency={latency_seconds}"
    return {"LD_PRELOAD": str(library), "IO_SHIM_RULES": rule}


def percentile(values, share):
    """The nearest rank, as the program computes its own."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1] if values else 0.0
