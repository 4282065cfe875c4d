"""What the parity tests share: reading safetensors with the standard library, and running `colibri logits`."""
import array
import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
SHARED = Path(os.environ.get("COLIBRI_SHARED", ROOT.parent / "shared"))
BIN = os.environ.get("COLIBRI_BIN", str(ROOT / "build" / "bin" / "colibri"))
ARRAY_TYPES = {"F32": "f", "I32": "i"}


class Tensor:
    """Rows of numbers: values of the last dimension side by side."""

    def __init__(self, dtype, shape, data):
        self.shape = shape
        self.values = array.array(ARRAY_TYPES[dtype], data)

    def row(self, index):
        width = self.shape[-1]
        return self.values[index * width:(index + 1) * width]


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    return {name: Tensor(info["dtype"], info["shape"], body[slice(*info["data_offsets"])])
            for name, info in header.items() if name != "__metadata__"}


def safetensors_header(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))


def run_logits(model, prompts, n_continue, *flags, program=(BIN,)):
    """Bytes of the file that `colibri logits` writes for these prompts."""
    with tempfile.TemporaryDirectory() as folder:
        tokens, out = Path(folder) / "tokens.json", Path(folder) / "out.safetensors"
        tokens.write_text(json.dumps({"prompts": prompts}))
        done = subprocess.run([*program, "logits", str(model), "--tokens", str(tokens), "--out", str(out), "--continue", str(n_continue),
                               *flags], capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise AssertionError(f"colibri logits {model} {' '.join(flags)}: exit {done.returncode}: {done.stderr.strip()}")
        return out.read_bytes()


def parse_logits(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return read_safetensors(file.name)


def prompts_of(expected):
    """{prefix: ids} of the prompts in an expected.safetensors."""
    return {name.split(".")[0]: list(tensor.values) for name, tensor in expected.items() if name.endswith(".input_ids")}
