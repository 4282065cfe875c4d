#!/usr/bin/env python3
"""The trained demo model in every block type: negative log likelihood beside llama.cpp's, and beside the same weights expanded to F32.

    bench/block_types.py [--windows N] [TYPE]...        TYPE: a name of llama-quantize's list (default: all below); run with the tools' Python

Needs llama-perplexity, llama-quantize and, for the types that want an importance matrix, llama-imatrix. Texts, windows and scored positions are
those of quality.py, N windows of each text (default: all). One Markdown row per type:

- colibri, llama.cpp: mean negative log likelihood of the quantised file; ours with 8-bit activations, theirs with what they choose.
- float, expanded: ours with activations=float, of the quantised file and of one whose tensors the gguf package has expanded to F32. The two
  hold the same numbers, so what is between them is the order of additions and nothing else.
"""
import argparse
import collections
import dataclasses
import json
import tempfile
from pathlib import Path

from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize

import hf_to_gguf
import machine
import make_models
import models
import quality

PLAIN = ("F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",
         "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_M", "TQ1_0", "TQ2_0", "MXFP4_MOE")
WANT_MATRIX = ("Q2_K_S", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS")
MATRIX_WINDOWS = 100  # of the importance matrix: enough that every expert is met
DEMO = models.SHARED / "demo-model"
UNQUANTISED = models.Model("colibri-tales-14m-bf16", "demo")


@dataclasses.dataclass(frozen=True)
class File:
    """What quality.py wants to know of a model: where it lies."""
    gguf: Path


def importance_matrix():
    """From the texts that the types are then measured on: the matrix chooses what is rounded how, not what is compared."""
    path = models.FOLDER / "colibri-tales-14m-imatrix.gguf"

    def write(out):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
            text.write("\n".join(file.read_text() for file in sorted((DEMO / "eval").glob("*.txt"))))
            text.flush()
            make_models.run(machine.llama("llama-imatrix"), "-m", UNQUANTISED.gguf, "-f", text.name, "-o", out, "-c", quality.WINDOW,
                            "--chunks", MATRIX_WINDOWS, "-t", 2, "--no-ppl", "--output-format", "gguf")
    if not path.exists():
        make_models.whole(path, write)
    return path


def quantised(kind):
    options = ("--imatrix", importance_matrix()) if kind in WANT_MATRIX else ()
    model = models.Model(f"colibri-tales-14m-{kind.lower()}", "demo", kind, options)
    make_models.make(model)
    return model


def expand(source, out):
    """Writes the same model with every tensor as F32."""
    writer = GGUFWriter(out, hf_to_gguf.ARCHITECTURE)
    hf_to_gguf.copy_metadata(writer, source)
    for tensor in GGUFReader(source).tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type), raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def types_of(path):
    """Which types the file's tensors really have: rows of 128 values fit no block of 256, and llama-quantize mixes types by itself."""
    counts = collections.Counter(tensor.tensor_type.name for tensor in GGUFReader(path).tensors if tensor.tensor_type.name != "F32")
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def measure(program, kind, windows, vocab_size):
    model = quantised(kind)
    with tempfile.TemporaryDirectory(dir=models.FOLDER) as folder:
        expanded = File(Path(folder) / "f32.gguf")
        expand(model.gguf, expanded.gguf)
        reference, _ = quality.ours(program, expanded, windows, "--activations", "float")
    exact, _ = quality.ours(program, model, windows, "--activations", "float")
    result, _ = quality.ours(program, model, windows)
    return {"colibri": result, "llama.cpp": quality.theirs(model, windows, vocab_size), "float": exact, "expanded": reference,
            "tensors": types_of(model.gguf)}


def percent_worse(value, than):
    return f"{100 * (value / than - 1):+.4f} %"


def line(kind, row):
    values = [f"{row[key]:.5f}" for key in ("colibri", "llama.cpp", "float", "expanded")]
    return f"| {kind} | {row['tensors']} | {values[0]} | {values[1]} | {percent_worse(row['colibri'], row['llama.cpp'])} | " \
           f"{values[2]} | {values[3]} | {percent_worse(row['float'], row['expanded'])} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=machine.BUILD / "bin" / "colibri")
    parser.add_argument("--windows", type=int, help="windows of each text; default: all")
    parser.add_argument("types", nargs="*", metavar="TYPE", default=[*PLAIN, *WANT_MATRIX])
    arguments = parser.parse_args()
    make_models.make(models.MODELS["colibri-tales-14m-q8_0"])  # makes the unquantised file too
    texts = sorted((DEMO / "eval").glob("*.txt"))
    windows = [window for text in texts for window in quality.windows_of(arguments.program, UNQUANTISED, text)[:arguments.windows]]
    vocab_size = json.loads((DEMO / "hf" / "config.json").read_text())["vocab_size"]
    print(f"{len(windows)} windows, {len(windows) * (quality.WINDOW - quality.SCORE_FROM)} scored tokens\n")
    print("| type | tensors | colibri | llama.cpp | difference | float | expanded | difference |\n|---|---|---|---|---|---|---|---|", flush=True)
    for kind in arguments.types:
        try:
            print(line(kind, measure(arguments.program, kind, windows, vocab_size)), flush=True)
        except machine.Failed as failure:
            print(f"| {kind} | {failure} |", flush=True)


if __name__ == "__main__":
    main()
