#!/usr/bin/env python3
"""Make the data that long contexts are tested with: tests/data/rope_angles.safetensors and tests/data/long_context.safetensors.

    VENV/bin/python tools/make_long_data.py                    # both; 4k tokens
    VENV/bin/python tools/make_long_data.py --by-hand FILE     # logits at 32k and, where all layers have windows, 128k

rope_angles: cosines and sines at `positions`, NAME[.KIND].cos and .sin [n, pairs], of models in tests/data/checkpoints.
long_context: NAME.LENGTH.logits [n, V] of the positions NAME.LENGTH.positions of a prompt of LENGTH tokens; tests/long_context.py
has the prompt and what changes in the models' configs. A model with windows only sees few tokens back: its last rows come
from the last tokens of the prompt, at their true positions.
"""
import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

import make_family_data as family
import make_test_data as shared

sys.path.insert(0, str(shared.ROOT / "tests"))
import long_context  # noqa: E402

DATA = shared.ROOT / "tests" / "data"
POSITIONS = (1, 4095, 32767, 131071)
ANGLES = {"llama": [None], "mixtral": [None], "qwen3": [None], "deepseek_v3": [None], "gpt_oss": [None], "phimoe": [None], "minimax_m2": [None],
          "hunyuan_v1_moe": [None], "gemma3_text": ["full_attention", "sliding_attention"], "gemma4": ["full_attention", "sliding_attention"]}
LENGTH, BY_HAND, FAR = 4200, 32768, 131072
TAIL = 64  # rows of a model with windows that are computed for the last ROWS of them
ROWS = 8
FULL = ("qwen3", "llama", "qwen3_next", "nemotron_h")


def angles():
    positions = torch.tensor([POSITIONS])
    tensors = {"positions": positions[0].int()}
    for name, kinds in ANGLES.items():
        model = family.build(json.loads((DATA / "checkpoints" / name / "config.json").read_text()))
        rotary = next(module for key, module in model.named_modules() if key.endswith("rotary_emb") and "vision" not in key)
        for kind in kinds:
            cos, sin = rotary(torch.zeros(1, len(POSITIONS), 1), positions, *([kind] if kind else []))
            pairs = cos.shape[-1] if name == "gpt_oss" else cos.shape[-1] // 2
            key = f"{name}.{kind}" if kind else name
            tensors[f"{key}.cos"], tensors[f"{key}.sin"] = cos[0, :, :pairs].contiguous(), sin[0, :, :pairs].contiguous()
    return tensors


def load(name, attention):
    """The model with the weights of tests/data, which transformers reads by the names that are published."""
    folder = DATA / "checkpoints" / name
    config = family.reference_config(long_context.changed_config(folder, name))
    model = getattr(transformers, config.architectures[0])
    return model.from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation=attention).eval()


@torch.no_grad()
def rows_of(name, length, attention):
    model, ids = load(name, attention), torch.tensor([long_context.prompt(length)])
    first = torch.arange(length)[None] if length <= BY_HAND else torch.arange(length - TAIL, length)[None]
    hidden = model.model(input_ids=ids[:, first[0]], position_ids=first, use_cache=False).last_hidden_state
    kept = torch.cat([first[0][-ROWS:]] if length > BY_HAND else [torch.arange(0, length, length // ROWS)[1:], first[0][-2:]])
    logits = model.lm_head(hidden[0, kept - first[0, 0]])
    return {f"{name}.{length}.positions": kept.int(), f"{name}.{length}.logits": logits.contiguous()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by-hand", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.by_hand:
        tensors = rows_of("mistral", FAR, "eager")
        for name in FULL:  # without a mask of 32k x 32k numbers
            tensors |= rows_of(name, BY_HAND, "sdpa")
            print(name, flush=True)
        save_file(tensors, arguments.by_hand)
        return
    save_file(angles(), DATA / "rope_angles.safetensors")
    tensors = {}
    for name in long_context.CHANGES:
        tensors |= rows_of(name, LENGTH, "eager")
        print(name, flush=True)
    save_file(tensors, DATA / "long_context.safetensors")


if __name__ == "__main__":
    main()
