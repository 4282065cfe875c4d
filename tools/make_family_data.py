#!/usr/bin/env python3
"""Make weights and expected outputs for tests/data/checkpoints/NAME from the config.json that stands there.

    VENV/bin/python tools/make_family_data.py [--data tests/data] NAME...

A folder for every family that make_test_data.py does not make; that script's head says what VENV needs. Only config.json
is written by hand: as a published checkpoint of the family would have it, tiny, with sizes odd on purpose. Weights are
BF16 (what is published in F32 stays so), under the names and in the layouts that published checkpoints have: those that
transformers writes, changed by `publish` where its own differ. Towers and layers that a text model does not run are added
as a few small tensors (EXTRA), which a loader must leave alone.
"""
import argparse
import json
import re
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

import make_test_data as shared

MARGINS = {"greedy": 2e-3, "topk": 1e-4}
F32_NAMES = re.compile(r"(e_score_correction_bias|expert_bias|A_log|dt_bias|attn_sink|\.ape|hc_.*|ffn\.gate\.bias)$")
REFERENCE_TYPE = {"kimi_k2": "deepseek_v3"}  # published under a name that transformers does not have
REFERENCE_CLASS = {"PhiMoEForCausalLM": "PhimoeForCausalLM"}

NO_TOWERS = re.compile(r"(vision|visual|multi_modal|embed_vision|audio|mtp\.)")
EXTRA = {  # hidden 40; what a text model leaves alone
    "deepseek_v3": {"model.layers.2.eh_proj.weight": (40, 80), "model.layers.2.enorm.weight": (40,),
                    "model.layers.2.mlp.experts.0.up_proj.weight": (24, 40), "model.layers.2.shared_head.norm.weight": (40,)},
    "glm4_moe": {"model.layers.2.eh_proj.weight": (40, 80), "model.layers.2.enorm.weight": (40,),
                 "model.layers.2.self_attn.q_proj.weight": (64, 40)},
    "qwen3_next": {"mtp.fc.weight": (40, 80), "mtp.layers.0.mlp.experts.0.up_proj.weight": (24, 40), "mtp.norm.weight": (40,)},
    "qwen3_5_moe": {"model.visual.patch_embed.proj.weight": (16, 3, 1, 4, 4), "mtp.fc.weight": (40, 80)},
    "gemma3": {"vision_tower.vision_model.embeddings.patch_embedding.weight": (16, 3, 4, 4),
               "multi_modal_projector.mm_input_projection_weight": (16, 40)},
    "gemma4": {"model.vision_tower.patch_embedder.input_proj.weight": (16, 48), "model.embed_vision.embedding_projection.weight": (40, 16)},
    "llama4": {"vision_model.class_embedding": (16,), "multi_modal_projector.linear_1.weight": (40, 16)},
}
RAW_V4 = ((r"^model\.", ""), (r"^embed_tokens\.", "embed."), (r"^lm_head\.", "head."), (r"^hc_head\.hc_", "hc_head_"),
          (r"\.attn\.norm\.", ".attn.kv_norm."))


# ---- the model -------------------------------------------------------------------------------------------------------------

def reference_config(config):
    changed = dict(config, model_type=REFERENCE_TYPE.get(config["model_type"], config["model_type"]))
    changed["architectures"] = [REFERENCE_CLASS.get(name, name) for name in config["architectures"]]
    changed.pop("quantization_config", None)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(changed))
        return transformers.AutoConfig.from_pretrained(folder)


def build(config):
    parsed = reference_config(config)
    name = REFERENCE_CLASS.get(config["architectures"][0], config["architectures"][0])
    if name == "Llama4ForConditionalGeneration":  # which fails on text alone in transformers 5.24
        name, parsed = "Llama4ForCausalLM", parsed.text_config
    model = getattr(transformers, name)._from_config(parsed, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def text_size(config, key):
    return config.get("text_config", config)[key]


def fan_in(config, name, shape):
    columns = config["model_type"] in ("gpt_oss", "llama4") and ".experts." in name and len(shape) == 3
    return shape[-2 if columns else -1]


MXFP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def draw_mxfp4(name, shape):
    """Values that MXFP4 has, [experts, in, out]; their codes wait for `publish` in draw.codes."""
    experts, width, n_rows = shape
    codes = torch.randint(0, 16, (experts, n_rows, width // 32, 32), generator=draw.generator)
    scales = torch.randint(122, 125, (experts, n_rows, width // 32), generator=draw.generator)
    draw.codes[name] = (codes, scales)
    values = MXFP4_VALUES[codes] * torch.exp2(scales[..., None] - 127.0)
    return values.reshape(experts, n_rows, width).transpose(1, 2)


def draw(config, name, weight, noise):
    """Values that keep activations near 1 through all layers."""
    if "quantization_config" in config and re.search(r"experts\.(gate_up|down)_proj$", name):
        return draw_mxfp4(name, weight.shape)
    flat = weight.detach().float()
    if name.endswith("tid2eid"):
        n_experts, columns = config["n_routed_experts"], weight.shape[1]
        return torch.stack([(torch.randperm(n_experts, generator=draw.generator))[:columns] for _ in range(weight.shape[0])])
    if name.endswith("A_log"):
        return 0.8 * noise
    if name.endswith(("dt_bias", "sinks")):
        return 0.5 * noise
    if weight.dim() <= 1 or "norm" in name.split(".")[-2] or name.endswith("layer_scalar"):
        if torch.all(flat == 1):
            return 1 + 0.2 * noise
        return 0.2 * noise
    if name.endswith(("_fn", "_base", "position_bias")):
        return 0.3 * noise
    gain = 2.5 if re.search(r"\.(q_proj|q_b_proj|wq_b|wq)\b", name) else 1.0 if re.search(r"\b(gate|router)\b", name) else 1.4
    return gain * noise / fan_in(config, name, weight.shape) ** 0.5


def randomise(model, config, seed, initial):
    generator = draw.generator = torch.Generator().manual_seed(seed)
    draw.codes = {}
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            if NO_TOWERS.search(name) or "inv_freq" in name or name.endswith("embed_scale"):
                continue
            values = draw(config, name, initial[name], torch.randn(weight.shape, generator=generator))
            weight.copy_(values.bfloat16().float() if weight.is_floating_point() else values)
    model.tie_weights()


# ---- what it computes ------------------------------------------------------------------------------------------------------

class Recorder:
    """What routers choose, and how near any choice was to another one: every top-k in the forward pass is looked at."""

    def __init__(self, model, config):
        self.layers, self.margin = {}, 1.0
        layers = next(module for name, module in model.named_modules() if name.endswith("layers") and not NO_TOWERS.search(name))
        for index, layer in enumerate(layers):
            for module in layer.modules():
                kind = type(module).__name__
                if config["model_type"] == "llama4" and kind.endswith("Router"):
                    module.register_forward_hook(lambda _m, _in, out, index=index: self.record_scores(index, out[0]))
                elif config["model_type"] != "llama4" and kind.endswith("Experts"):
                    module.register_forward_pre_hook(lambda _m, args, index=index: self.record(index, args[1], args[2]))
                if kind == "PhimoeTopKRouter":
                    module.register_forward_pre_hook(lambda m, args: self.mixer_margin(m, args[0]))
        self.topk = torch.topk

    def record_scores(self, layer, scores):
        weights, ids = scores.max(dim=-1, keepdim=True)
        self.record(layer, ids, weights)

    def record(self, layer, ids, weights):
        order = weights.argsort(dim=-1, descending=True, stable=True)
        self.layers[layer] = (ids.gather(1, order), weights.gather(1, order))

    def mixer_margin(self, router, hidden):
        """Phi's router takes the largest twice and leaves out what is far below it: those borders are no top-k."""
        scores = torch.nn.functional.linear(hidden.reshape(-1, hidden.shape[-1]), router.weight)
        best = scores.topk(3, dim=-1).values
        limit = 2 * router.router_jitter_noise
        for largest in (best[:, :1], best[:, 1:2]):
            distance = (largest - scores) / scores.abs().clamp(min=largest)
            self.margin = min(self.margin, (distance - limit).abs().min().item())

    def measured(self, values, k, dim=-1, **options):
        found = self.topk(values, k, dim=dim, **options)
        if values.shape[dim] > k and values.is_floating_point():
            best = self.topk(values.float(), k + 1, dim=dim).values
            last, next_one = best.narrow(dim, k - 1, 1), best.narrow(dim, k, 1)
            real = last > -1e30  # else fewer than k may be chosen at all
            if real.any():
                self.margin = min(self.margin, (last - next_one)[real].min().item())
        return found

    def __enter__(self):
        torch.topk = self.measured
        self.method = torch.Tensor.topk
        torch.Tensor.topk = lambda values, k, dim=-1, **options: self.measured(values, k, dim, **options)
        return self

    def __exit__(self, *_):
        torch.topk, torch.Tensor.topk = self.topk, self.method


def logits_of(output):
    return output.logits[0].float().contiguous()


@torch.no_grad()
def expected_outputs(model, config, recorder):
    """Tensors for expected.safetensors and the smallest greedy gap; None where a choice has no margin."""
    vocabulary = min(text_size(config, "vocab_size"), 120)  # ids above are those of images
    tensors, gap = {}, 1e9
    recorder.margin = 1.0
    for length in reversed(shared.PROMPT_LENGTHS):
        ids = torch.randint(3, vocabulary, (length,), generator=torch.Generator().manual_seed(length))
        prompt = f"p{length}"
        with recorder:
            tensors[f"{prompt}.logits"] = logits_of(model(input_ids=ids[None], use_cache=False))
        if recorder.margin < MARGINS["topk"]:
            return None, gap
        tensors[f"{prompt}.input_ids"] = ids.int()
        for layer, (chosen, weights) in recorder.layers.items():
            tensors[f"{prompt}.moe.{layer}.ids"] = chosen.int()
            tensors[f"{prompt}.moe.{layer}.weights"] = weights.float().contiguous()
        chosen, gaps, again = greedy(model, ids, recorder)
        tensors[f"{prompt}.greedy_ids"] = torch.tensor(chosen, dtype=torch.int32)
        gap = min(gap, *gaps)
        # With a cache and without: a reference that disagrees with itself is none.
        assert (again - tensors[f"{prompt}.logits"]).abs().max() < 1e-3
        if gap < MARGINS["greedy"] or recorder.margin < MARGINS["topk"]:
            return None, gap
    return tensors, gap


def greedy(model, ids, recorder):
    past, step, chosen, gaps, first = None, ids[None], [], [], None
    with recorder:
        for _ in range(shared.N_GREEDY):
            output = model(input_ids=step, past_key_values=past, use_cache=True)
            logits = logits_of(output)
            first = logits if first is None else first
            past, best = output.past_key_values, recorder.topk(logits[-1], 2)
            chosen.append(best.indices[0].item())
            gaps.append((best.values[0] - best.values[1]).item())
            step = best.indices[None, :1]
    return chosen, gaps, first


def find_seed(config):
    model = build(config)
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    recorder = Recorder(model, config)
    for seed in range(1, 400):
        randomise(model, config, seed, initial)
        tensors, gap = expected_outputs(model, config, recorder)
        if tensors is not None:
            return model, tensors, {"seed": seed, "min_greedy_gap": gap, "min_topk_margin": recorder.margin}
    raise SystemExit("no seed has the margins")


# ---- the files -------------------------------------------------------------------------------------------------------------

def saved_tensors(model):
    """Names and layouts as transformers writes them."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(Path(folder) / "model.safetensors")


def published_name(kind, name):
    if kind == "llama4":
        return f"language_model.{name}"
    if kind == "deepseek_v4":
        for pattern, replacement in RAW_V4:
            name = re.sub(pattern, replacement, name)
    if kind == "kimi_linear":
        return re.sub(r"block_sparse_moe\.(gate|up|down)_proj", r"mlp.\1_proj", name)
    return name


def stacked(config, tensors):
    """Experts in one tensor, gates before ups, where transformers takes them apart on writing and the publisher did not."""
    out = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    n_experts = range(text_size(config, "num_experts"))
    for block in sorted({name.split(".experts.")[0] for name in tensors.keys() - out.keys()}):
        part = {kind: torch.stack([tensors[f"{block}.experts.{e}.{kind}_proj.weight"] for e in n_experts]) for kind in ("gate", "up", "down")}
        out[f"{block}.experts.gate_up_proj"] = torch.cat([part["gate"], part["up"]], dim=1)
        out[f"{block}.experts.down_proj"] = part["down"]
    return out


def is_published(config, name):
    expert = re.search(r"\.experts\.(\d+)\.", name)
    if config["model_type"] == "longcat_flash" and expert:  # those behind are no matrices
        return int(expert.group(1)) < config["n_routed_experts"]
    return not NO_TOWERS.search(name)


def publish(config, tensors):
    kind = config["model_type"]
    if kind == "qwen3_5_moe":
        tensors = stacked(config, tensors)
    out = {}
    for name, tensor in tensors.items():
        if not is_published(config, name):
            continue
        if name in draw.codes:
            codes, scales = (part.to(torch.uint8) for part in draw.codes[name])
            out[f"{name}_blocks"], out[f"{name}_scales"] = codes[..., 0::2] | codes[..., 1::2] << 4, scales
            continue
        name = published_name(kind, name)
        keep = F32_NAMES.search(name) or not tensor.is_floating_point()
        out[name] = tensor if keep else tensor.bfloat16()
    generator = torch.Generator().manual_seed(1)
    for name, shape in EXTRA.get(kind, {}).items():
        out[name] = torch.randn(shape, generator=generator).bfloat16()
    return {name: tensor.contiguous() for name, tensor in out.items()}


def write(folder, notes):
    config = json.loads((folder / "config.json").read_text())
    model, tensors, facts = find_seed(config)
    weights = publish(config, saved_tensors(model))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    save_file(tensors, folder / "expected.safetensors")
    facts = {"name": folder.name, "transformers": transformers.__version__, "torch": torch.__version__, **facts, "notes": notes}
    (folder / "expected.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{folder.name}: {sum(file.stat().st_size for file in folder.iterdir()) >> 10} KiB, {facts}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=shared.ROOT / "tests" / "data")
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in arguments.names:
        folder = arguments.data / "checkpoints" / name
        known = folder / "expected.json"
        write(folder, json.loads(known.read_text())["notes"] if known.exists() else [])


if __name__ == "__main__":
    main()
