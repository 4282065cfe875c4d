#!/usr/bin/env python3
"""Make tests/data: tiny checkpoints with random weights, and the outputs that transformers computes for them.

    python3 -m venv VENV && VENV/bin/pip install torch transformers safetensors gguf numpy
    VENV/bin/python tools/make_test_data.py [--out tests/data] [NAME...]

checkpoints/NAME/  Hugging Face folders, BF16, with expected.safetensors and expected.json
gguf/NAME-TYPE*    GGUF files. NAME-f32 holds the weights of checkpoints/NAME and shares its expected outputs; NAME-q8_0 has
                   NAME-q8_0.expected.safetensors: the outputs of the dequantised weights with float32 activations
tests/data/README.md describes the tensors. Sizes are odd on purpose: inner dimensions are multiples of 8 but not of 16 or 32.
Each seed is tried until every greedy choice and every top-k border has a margin, so any float32 engine must choose the same.
"""
import argparse
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "tests" / "data" / "tiny_tokenizer"
PROMPT_LENGTHS = (12, 40)
N_GREEDY = 16
MIN_GREEDY_GAP = 2e-3
MIN_TOPK_MARGIN = 1e-4


@dataclass
class Case:
    name: str
    config: dict  # config.json as a published checkpoint of the family would have it
    notes: list[str]
    shards: int = 1
    fused_experts: bool = False
    tokenizer: bool = False
    gguf_types: list[str] = field(default_factory=list)
    gguf_split: bool = False  # in two files
    checkpoint: bool = True  # False: exists as GGUF only


def config(architecture, model_type, **keys):
    common = {"architectures": [architecture], "model_type": model_type, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
              "num_hidden_layers": 3, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
              "torch_dtype": "bfloat16", "vocab_size": 320}
    return common | keys


def mixtral(**keys):
    return config("MixtralForCausalLM", "mixtral", **({
        "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 24, "num_local_experts": 6,
        "num_experts_per_tok": 2, "rope_theta": 1e6, "rms_norm_eps": 1e-5, "sliding_window": None} | keys))


def qwen2_moe(**keys):
    return config("Qwen2MoeForCausalLM", "qwen2_moe", **({
        "hidden_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 56, "num_experts": 6,
        "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40, "num_experts_per_tok": 3, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "norm_topk_prob": False, "use_sliding_window": False, "sliding_window": 2048,
        "max_window_layers": 3, "rope_theta": 1e6} | keys))


def qwen3_moe(**keys):
    return config("Qwen3MoeForCausalLM", "qwen3_moe", **({
        "hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "attention_bias": False,
        "intermediate_size": 56, "num_experts": 6, "moe_intermediate_size": 24, "num_experts_per_tok": 3, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "norm_topk_prob": True, "use_sliding_window": False, "sliding_window": None, "rope_theta": 1e6,
        "rope_scaling": None} | keys))


def olmoe(**keys):
    return config("OlmoeForCausalLM", "olmoe", **({
        "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 24, "num_experts": 7,
        "num_experts_per_tok": 4, "norm_topk_prob": False, "clip_qkv": None, "attention_bias": False, "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5} | keys))


# Q8_0 needs inner dimensions that are multiples of 32; everything else stays odd.
Q8 = {"hidden_size": 64, "num_hidden_layers": 2, "torch_dtype": "float32"}

CASES = [
    Case("mixtral", mixtral(num_hidden_layers=2), ["two files", "head_dim = hidden_size / heads"], shards=2, gguf_types=["F32"]),
    Case("qwen2_moe", qwen2_moe(num_hidden_layers=4, decoder_sparse_step=2, norm_topk_prob=True),
         ["layers 0 and 2 are dense (decoder_sparse_step = 2)", "top-k weights renormalised", "gated shared expert"]),
    Case("qwen3_moe", qwen3_moe(vocab_size=384), ["has a tokenizer", "head_dim 24"], tokenizer=True, gguf_types=["F32"],
         gguf_split=True),
    Case("qwen3_moe_fused", qwen3_moe(
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, attention_bias=True, num_experts=10, moe_intermediate_size=8,
        num_experts_per_tok=4, mlp_only_layers=[0], norm_topk_prob=False, tie_word_embeddings=True,
        rope_scaling={"rope_type": "linear", "factor": 4.0}),
         ["experts.gate_up_proj [E, 2I, H] and experts.down_proj [E, H, I] in one tensor each", "tied head", "q, k, v, o bias",
          "layer 0 is dense (mlp_only_layers)", "no renormalisation", "linear RoPE scaling"], fused_experts=True),
    Case("olmoe", olmoe(clip_qkv=1.5), ["clip_qkv after the norms", "one key/value head of three", "full-row q/k norm"]),
    Case("llama", config(
        "LlamaForCausalLM", "llama", hidden_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=24, attention_bias=True,
        mlp_bias=False, intermediate_size=88, rms_norm_eps=1e-5, rope_theta=500000.0,
        rope_scaling={"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 32,
                      "rope_type": "llama3"}), ["dense", "llama3 RoPE scaling", "q, k, v, o bias"]),
    Case("qwen3", config(
        "Qwen3ForCausalLM", "qwen3", hidden_size=56, num_attention_heads=3, num_key_value_heads=1, head_dim=24, attention_bias=False,
        intermediate_size=72, tie_word_embeddings=True, use_sliding_window=False, sliding_window=None, max_window_layers=3,
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}),
         ["dense", "tied head", "linear RoPE scaling, written as rope_parameters"]),
    Case("mixtral", mixtral(**Q8, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32), [], checkpoint=False,
         gguf_types=["Q8_0"]),
    Case("qwen2_moe", qwen2_moe(**Q8, num_attention_heads=4, num_key_value_heads=2, moe_intermediate_size=32,
                                shared_expert_intermediate_size=96), [], checkpoint=False, gguf_types=["Q8_0"]),
    Case("qwen3_moe", qwen3_moe(**Q8, num_key_value_heads=1, vocab_size=384, moe_intermediate_size=32), [], checkpoint=False,
         tokenizer=True, gguf_types=["Q8_0"]),
    Case("olmoe", olmoe(**Q8, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32), [], checkpoint=False,
         gguf_types=["Q8_0"]),
]


# ---- weights -------------------------------------------------------------------------------------------------------------

def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def empty_model(case):
    """A model of the case's config, read from a config.json as a user's would be."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(case.config))
        parsed = transformers.AutoConfig.from_pretrained(folder)
    return AutoModelForCausalLM.from_config(parsed, dtype=torch.float32, attn_implementation="eager").eval()


def randomise(model, seed):
    """Weights that keep activations near 1 through all layers, already rounded to BF16."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if name.endswith("norm.weight"):
                values = 1 + 0.2 * noise
            elif name.endswith("bias"):
                values = 0.2 * noise
            else:
                gain = 3.0 if "q_proj" in name else 1.0 if "mlp.gate" in name else 1.5  # flat routers: margins exist
                values = gain * noise / weight.shape[-1] ** 0.5
            weight.copy_(values.bfloat16().float())


# ---- expected outputs ----------------------------------------------------------------------------------------------------

class Routing:
    """Records every router call of a forward pass: logits, and the ids and weights chosen, sorted by weight."""

    def __init__(self, model):
        self.layers = {}
        for index, layer in enumerate(model.model.layers):
            for module in layer.modules():
                if type(module).__name__.endswith("TopKRouter"):
                    module.register_forward_hook(lambda _module, _inputs, output, index=index: self.record(index, *output))

    def record(self, layer, logits, weights, ids):
        order = weights.argsort(dim=-1, descending=True, stable=True)
        self.layers[layer] = (torch.softmax(logits, -1), ids.gather(1, order), weights.gather(1, order))

    def margin(self):
        """Smallest difference of the probabilities around any top-k border, over all rows and layers."""
        margins = [1.0]
        for probabilities, ids, _ in self.layers.values():
            ordered = probabilities.sort(dim=-1, descending=True).values
            margins.append((ordered[:, ids.shape[1] - 1] - ordered[:, ids.shape[1]]).min().item())
        return min(margins)


def greedy(model, ids):
    """N_GREEDY tokens with a KV cache, each with the gap between its logit and the runner-up's."""
    past, step, chosen, gaps = None, ids[None], [], []
    for _ in range(N_GREEDY):
        output = model(step, past_key_values=past, use_cache=True)
        past, best = output.past_key_values, output.logits[0, -1].topk(2)
        chosen.append(best.indices[0].item())
        gaps.append((best.values[0] - best.values[1]).item())
        step = best.indices[None, :1]
    return chosen, gaps


@torch.no_grad()
def expected_outputs(model, vocab_size):
    """Tensors for expected.safetensors, and the smallest greedy gap and top-k margin."""
    routing = Routing(model)
    tensors, gap, margin = {}, 1e9, 1.0
    for length in PROMPT_LENGTHS:
        ids = torch.randint(3, vocab_size, (length,), generator=torch.Generator().manual_seed(length))
        output = model(ids[None], output_hidden_states=True, use_cache=False)
        prompt = f"p{length}"
        tensors[f"{prompt}.input_ids"] = ids.int()
        tensors[f"{prompt}.logits"] = output.logits[0].contiguous()
        tensors[f"{prompt}.final_hidden"] = output.hidden_states[-1][0].contiguous()
        for layer, (_, chosen, weights) in routing.layers.items():
            tensors[f"{prompt}.moe.{layer}.ids"] = chosen.int()
            tensors[f"{prompt}.moe.{layer}.weights"] = weights.contiguous()
        margin = min(margin, routing.margin())
        chosen, gaps = greedy(model, ids)
        tensors[f"{prompt}.greedy_ids"] = torch.tensor(chosen, dtype=torch.int32)
        tensors[f"{prompt}.greedy_gap"] = torch.tensor(gaps)
        # The routing of the continuation has borders too: one pass over everything.
        model(torch.cat([ids, torch.tensor(chosen)])[None], use_cache=False)
        gap, margin = min(gap, *gaps), min(margin, routing.margin())
    tensors["rope.inv_freq"] = model.model.rotary_emb.inv_freq.clone()
    return tensors, gap, margin


def find_seed(case, prepare):
    """First seed whose outputs have the margins; prepare(model) may change the weights before they are judged."""
    for seed in range(1, 200):
        model = empty_model(case)
        randomise(model, seed)
        prepare(model)
        tensors, gap, margin = expected_outputs(model, case.config["vocab_size"])
        if gap > MIN_GREEDY_GAP and margin > MIN_TOPK_MARGIN:
            return model, tensors, {"seed": seed, "min_greedy_gap": gap, "min_topk_margin": margin}
    raise SystemExit(f"{case.name}: no seed has the margins")


# ---- Hugging Face folders ------------------------------------------------------------------------------------------------

def write_weights(case, model, folder):
    half = {name: tensor.bfloat16().contiguous() for name, tensor in model.state_dict().items()
            if not (case.config["tie_word_embeddings"] and name == "lm_head.weight")}
    if case.fused_experts:  # as transformers 5 holds them in memory
        save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
        return
    total = sum(tensor.nbytes for tensor in half.values())
    limit = total if case.shards == 1 else int(total / case.shards * 1.1)
    bf16 = empty_model(case).bfloat16()
    bf16.load_state_dict(model.state_dict(), strict=True)
    bf16.save_pretrained(folder, max_shard_size=limit)


def write_checkpoint(case, out):
    folder = out / "checkpoints" / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, tensors, facts = find_seed(case, lambda model: None)
    write_weights(case, model, folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "config.json").write_text(json.dumps(case.config, indent=1) + "\n")
    if case.tokenizer:
        for file in TOKENIZER.glob("tokenizer*.json"):
            shutil.copy(file, folder)
    reloaded, _, _ = expected_outputs(load(folder), case.config["vocab_size"])
    for name, tensor in tensors.items():
        assert torch.equal(tensor, reloaded[name]), f"{case.name}: {name} changed on the way through the files"
    save_file(tensors, folder / "expected.safetensors")
    facts = {"name": case.name, "transformers": transformers.__version__, "torch": torch.__version__, **facts, "notes": case.notes}
    (folder / "expected.json").write_text(json.dumps(facts, indent=1) + "\n")
    return model


# ---- GGUF ----------------------------------------------------------------------------------------------------------------

GGUF_ARCH = {"mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "olmoe": "olmoe"}
GGUF_LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_proj.bias": "attn_q.bias", "self_attn.k_proj.bias": "attn_k.bias", "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight", "mlp.experts.down_proj": "ffn_down_exps.weight",
    "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight", "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight", "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
}
GGUF_NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
              "lm_head.weight": "output.weight"}


def gguf_tensors(state, fused_name="mlp.experts.gate_up_proj"):
    """(GGUF name, HF name, slice of the HF tensor) in file order; fused experts become two tensors."""
    for name, tensor in state.items():
        if name in GGUF_NAMES:
            yield GGUF_NAMES[name], name, slice(None)
            continue
        _, _, layer, local = name.split(".", 3)
        if local == fused_name:
            half = tensor.shape[1] // 2
            yield f"blk.{layer}.ffn_gate_exps.weight", name, (slice(None), slice(0, half))
            yield f"blk.{layer}.ffn_up_exps.weight", name, (slice(None), slice(half, None))
        else:
            yield f"blk.{layer}.{GGUF_LAYER_NAMES[local]}", name, slice(None)


def stays_f32(name):
    """Norms, biases, routers: what converters never quantise."""
    return "norm" in name or name.endswith("bias") or "gate_inp" in name


def interleave(weight, n_heads):
    """Rows of q or k as arch llama wants them: pair (i, i + d/2) becomes (2i, 2i + 1)."""
    return weight.reshape(n_heads, 2, -1, weight.shape[-1]).swapaxes(1, 2).reshape(weight.shape)


def round_to(model, gguf_type):
    """Replaces the weights by what a file of this type gives back."""
    kind = gguf.GGMLQuantizationType[gguf_type]
    state = model.state_dict()
    with torch.no_grad():
        for name, source, part in gguf_tensors(state):
            if not stays_f32(name):
                values = state[source][part].numpy()
                back = gguf.quants.dequantize(gguf.quants.quantize(np.ascontiguousarray(values), kind), kind)
                state[source][part].copy_(torch.from_numpy(back.reshape(values.shape)))


def add_metadata(writer, case):
    c = case.config
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    writer.add_name(f"colibri test {case.name}")
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(c["rope_theta"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_expert_count(c.get("num_experts") or c["num_local_experts"])
    writer.add_expert_used_count(c["num_experts_per_tok"])
    if "head_dim" in c:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if c["model_type"] == "mixtral":
        writer.add_rope_dimension_count(head_dim)
    if "moe_intermediate_size" in c:
        writer.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in c:
        writer.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])


def add_tokenizer(writer):
    tokenizer = json.loads((TOKENIZER / "tokenizer.json").read_text())
    settings = json.loads((TOKENIZER / "tokenizer_config.json").read_text())
    vocabulary = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    tokens = sorted(vocabulary, key=vocabulary.get)
    types = [gguf.TokenType.CONTROL if vocabulary[token] in special else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) if isinstance(pair, list) else pair for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(vocabulary[settings["eos_token"]])
    writer.add_add_bos_token(False)
    writer.add_chat_template(settings["chat_template"])


def write_gguf(case, model, gguf_type, path):
    kind = gguf.GGMLQuantizationType[gguf_type]
    state = model.state_dict()
    names = list(gguf_tensors(state))
    split = len(names) // 2 + 1 if case.gguf_split else 0
    writer = gguf.GGUFWriter(path, GGUF_ARCH[case.name], split_max_tensors=split)
    add_metadata(writer, case)
    if case.tokenizer:
        add_tokenizer(writer)
    heads = {"attn_q": case.config["num_attention_heads"], "attn_k": case.config["num_key_value_heads"]}
    for name, source, part in names:
        values = state[source][part].numpy()
        role = name.split(".")[-2]
        if case.name == "mixtral" and role in heads:
            values = interleave(values, heads[role])
        if name.endswith("ffn_gate_inp_shexp.weight"):
            values = values.reshape(-1)
        values = np.ascontiguousarray(values)
        if gguf_type == "F32" or stays_f32(name):
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_quantised(case, gguf_type, out):
    model, tensors, facts = find_seed(case, lambda model: round_to(model, gguf_type))
    stem = f"{case.name}-{gguf_type.lower()}"
    write_gguf(case, model, gguf_type, out / "gguf" / f"{stem}.gguf")
    save_file(tensors, out / "gguf" / f"{stem}.expected.safetensors")
    print(f"gguf/{stem}: {facts}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "data")
    parser.add_argument("names", nargs="*", help="cases to make (default: all)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    (arguments.out / "gguf").mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if arguments.names and case.name not in arguments.names:
            continue
        if case.checkpoint:
            model = write_checkpoint(case, arguments.out)
            print(f"checkpoints/{case.name}")
            for gguf_type in case.gguf_types:
                write_gguf(case, model, gguf_type, arguments.out / "gguf" / f"{case.name}-{gguf_type.lower()}.gguf")
        else:
            for gguf_type in case.gguf_types:
                write_quantised(case, gguf_type, arguments.out)


if __name__ == "__main__":
    main()
