#!/usr/bin/env python3
"""Makes the routing of a synthetic GGUF model uniform, in place: the worst case of an expert cache.

    uniform_routing.py MODEL.gguf

Random block bytes have a mean, so after the first layer every token's state points the same way and a few experts get all the rows.
Here the norms before attention and experts are made small, so that a token's state stays its embedding through all layers, and the
routers lose the direction that all embeddings share. Sizes, types and all quantised weights stay as they are.
"""
import argparse
import struct
from pathlib import Path

import numpy as np

SIMPLE = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
F32, Q4_K = 0, 12
Q4_K_BYTES, Q4_K_VALUES = 144, 256
BRANCH_SCALE = 2.0**-20


class Header:
    """Metadata and tensor places of a GGUF file."""

    def __init__(self, file):
        self.file = file
        magic, _, tensors, pairs = struct.unpack("<4sIQQ", file.read(24))
        assert magic == b"GGUF"
        self.metadata = {self.string(): self.value(self.read("I")) for _ in range(pairs)}
        self.tensors = {}
        for _ in range(tensors):
            name = self.string()
            shape = [self.read("Q") for _ in range(self.read("I"))]
            self.tensors[name] = (shape, self.read("I"), self.read("Q"))
        alignment = self.metadata.get("general.alignment", 32)
        self.data = (file.tell() + alignment - 1) // alignment * alignment

    def read(self, kind):
        return struct.unpack("<" + kind, self.file.read(struct.calcsize("<" + kind)))[0]

    def string(self):
        return self.file.read(self.read("Q")).decode("utf-8", "replace")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner = self.read("I")
            return [self.value(inner) for _ in range(self.read("Q"))]
        return self.read(SIMPLE[kind])

    def array(self, name):
        shape, kind, offset = self.tensors[name]
        n = int(np.prod(shape))
        size = n * 4 if kind == F32 else n // Q4_K_VALUES * Q4_K_BYTES
        assert kind in (F32, Q4_K), name
        self.file.seek(self.data + offset)
        return np.frombuffer(self.file.read(size), dtype=np.float32 if kind == F32 else np.uint8).copy(), shape

    def write(self, name, values):
        self.file.seek(self.data + self.tensors[name][2])
        self.file.write(values.tobytes())


def mean_embedding(header, rows=4096):
    raw, (width, _) = header.array("token_embd.weight")
    blocks = raw.reshape(-1, width // Q4_K_VALUES, Q4_K_BYTES)[:rows]
    return np.mean([normalised(dequantise(row)) for row in blocks], axis=0)


def weaken_branches(header):
    for name in header.tensors:
        if name.endswith(("attn_norm.weight", "ffn_norm.weight")):
            header.write(name, header.array(name)[0] * np.float32(BRANCH_SCALE))


def normalised(x):
    return x / np.sqrt(np.mean(x * x))


def dequantise(blocks):
    out = []
    for block in blocks:
        d, dmin = block[:4].view(np.float16).astype(np.float32)
        s = block[4:16].astype(np.int32)
        scale = np.concatenate([s[0:4] & 63, (s[8:12] & 15) | (s[0:4] >> 6 << 4)])
        least = np.concatenate([s[4:8] & 63, (s[8:12] >> 4) | (s[4:8] >> 6 << 4)])
        q = block[16:].reshape(4, 32)
        q = np.stack([q & 15, q >> 4], axis=1).reshape(8, 32).astype(np.float32)
        out.append((d * scale[:, None] * q - dmin * least[:, None]).ravel())
    return np.concatenate(out)


def turn_routers(header, mean):
    for name in sorted(header.tensors):
        if not name.endswith("ffn_gate_inp.weight"):
            continue
        router, (width, _) = header.array(name)
        norm, _ = header.array(name.replace("ffn_gate_inp", "ffn_norm"))
        common = mean * norm
        rows = router.reshape(-1, width)
        rows -= np.outer(rows @ common, common) / np.dot(common, common)
        rows /= np.linalg.norm(rows * norm, axis=1, keepdims=True)
        header.write(name, rows.astype(np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    with open(parser.parse_args().model, "r+b") as file:
        header = Header(file)
        weaken_branches(header)
        turn_routers(header, mean_embedding(header))


if __name__ == "__main__":
    main()
