#!/usr/bin/env python3
"""Makes the model files that the benchmark measures; leaves alone what is there. Run with the tools' Python of install_peers.sh.

    bench/make_models.py [NAME]...      NAME: a model of bench/models.py (default: all that the installed peers can use)

Weights are random, geometry is real: see ../shared/tools. Files go to BENCH_MODELS (default BENCH_HOME/models); all of them need 23 GB,
those of streaming.py 22 GB more.
"""
import argparse
import shutil
import sys

import hf_to_gguf
import machine
import models


def run(*command, **environment):
    print("bench:", " ".join(str(word) for word in command), file=sys.stderr)
    machine.run(command, timeout=7200, environment=environment)


def whole(path, write):
    """Calls write(other path) and gives what it wrote its name: a run that was stopped leaves no half file behind."""
    part = path.with_name(path.name + ".part")
    if part.is_dir():
        shutil.rmtree(part)
    write(part)
    part.rename(path)


def synthetic(model):
    whole(model.gguf, lambda out: run(sys.executable, models.SHARED / "tools" / "synthetic_gguf.py", model.preset, out, *model.options))


def uniform(model):
    def write(out):
        run(sys.executable, models.SHARED / "tools" / "synthetic_gguf.py", model.preset, out, *model.options)
        run(sys.executable, machine.ROOT / "bench" / "uniform_routing.py", out)
    whole(model.gguf, write)


def checkpoint(model):
    tools, tokenizer = models.SHARED / "tools", models.SHARED / "demo-model" / "hf"
    exporter = machine.HOME / "openvino" / "bin" / "optimum-cli"
    if not model.hf.exists():
        whole(model.hf, lambda out: run(sys.executable, tools / "synthetic_hf.py", out, "--tokenizer", tokenizer))
    if not model.gguf.exists():
        whole(model.gguf, lambda out: hf_to_gguf.convert(model.hf, out, hf_to_gguf.quantised_type))
    if exporter.exists() and not model.openvino.exists():
        whole(model.openvino, lambda out: run(exporter, "export", "openvino", "-m", model.hf, "--task", "text-generation-with-past",
                                              "--weight-format", "int4", "--sym", "--group-size", "64", "--ratio", "1.0", out, HF_HUB_OFFLINE="1"))


def bf16(model):
    whole(model.hf, lambda out: run(sys.executable, models.SHARED / "tools" / "synthetic_hf.py", out, *model.options))


def demo(model):
    """The trained model in the file type that its name says, quantised by llama.cpp's tool from BF16."""
    source = models.SHARED / "demo-model"
    bf16 = models.FOLDER / "colibri-tales-14m-bf16.gguf"
    if not bf16.exists():
        template = source / "colibri-tales-14m-q8_0.gguf"
        whole(bf16, lambda out: hf_to_gguf.convert(source / "hf", out, hf_to_gguf.unquantised_type, template))
    whole(model.gguf, lambda out: run(machine.llama("llama-quantize"), *model.options, bf16, out, model.preset))


MAKERS = {"synthetic": synthetic, "uniform": uniform, "checkpoint": checkpoint, "bf16": bf16, "demo": demo}


def make(model):
    """Makes what is missing of one model."""
    models.FOLDER.mkdir(parents=True, exist_ok=True)
    made = model.hf if model.kind == "bf16" else model.gguf
    if model.kind == "checkpoint" or not made.exists():
        MAKERS[model.kind](model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *models.MODELS, *models.STREAMED])
    for name in parser.parse_args().names or models.MODELS:
        make((models.MODELS | models.STREAMED)[name])


if __name__ == "__main__":
    main()
