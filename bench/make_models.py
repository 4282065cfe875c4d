#!/usr/bin/env python3
"""Makes the model files that the benchmark measures; leaves alone what is there. Run with the tools' Python of install_peers.sh.

    bench/make_models.py [NAME]...      NAME: a model of bench/models.py (default: all that the installed peers can use)

Weights are random, geometry is real: see ../shared/tools. Files go to BENCH_MODELS (default BENCH_HOME/models); all of them need 23 GB.
"""
import argparse
import sys

import hf_to_gguf
import machine
import models


def run(*command, **environment):
    print("bench:", " ".join(str(word) for word in command), file=sys.stderr)
    machine.run(command, timeout=7200, environment=environment)


def synthetic(model):
    run(sys.executable, models.SHARED / "tools" / "synthetic_gguf.py", model.preset, model.gguf, *model.options)


def checkpoint(model):
    if not (model.hf / "config.json").exists():
        tokenizer = models.SHARED / "demo-model" / "hf"
        run(sys.executable, models.SHARED / "tools" / "synthetic_hf.py", model.hf, "--tokenizer", tokenizer)
    if not model.gguf.exists():
        hf_to_gguf.convert(model.hf, model.gguf, hf_to_gguf.quantised_type)
    exporter = machine.HOME / "openvino" / "bin" / "optimum-cli"
    if exporter.exists() and not (model.openvino / "openvino_model.bin").exists():
        run(exporter, "export", "openvino", "-m", model.hf, "--task", "text-generation-with-past", "--weight-format", "int4", "--sym",
            "--group-size", "64", "--ratio", "1.0", model.openvino, HF_HUB_OFFLINE="1")


def demo(model):
    """The trained model in the file type that its name says, quantised by llama.cpp's tool from BF16."""
    source = models.SHARED / "demo-model"
    bf16 = models.FOLDER / "colibri-tales-14m-bf16.gguf"
    if not bf16.exists():
        hf_to_gguf.convert(source / "hf", bf16, hf_to_gguf.unquantised_type, source / "colibri-tales-14m-q8_0.gguf")
    run(machine.llama("llama-quantize"), bf16, model.gguf, model.preset)


MAKERS = {"synthetic": synthetic, "checkpoint": checkpoint, "demo": demo}


def make(model):
    """Makes what is missing of one model."""
    models.FOLDER.mkdir(parents=True, exist_ok=True)
    if model.kind == "checkpoint" or not model.gguf.exists():
        MAKERS[model.kind](model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *models.MODELS])
    for name in parser.parse_args().names or models.MODELS:
        make(models.MODELS[name])


if __name__ == "__main__":
    main()
