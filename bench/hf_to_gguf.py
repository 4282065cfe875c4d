"""Qwen3-MoE from a Hugging Face folder (BF16 safetensors) into one GGUF file: the same weights for engines that read only one of the two."""
import json
import struct
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import quantize

ARCHITECTURE = "qwen3moe"
WHOLE_MODEL = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm", "lm_head.weight": "output"}
OF_A_LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
              "post_attention_layernorm": "ffn_norm", "mlp.gate": "ffn_gate_inp"}
OF_AN_EXPERT = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}


class Checkpoint:
    """The tensors of a folder's safetensors files, BF16 widened to float32."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.places = {}
        for path in sorted(folder.glob("*.safetensors")):
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                for name, info in json.loads(file.read(length)).items():
                    if name != "__metadata__":
                        self.places[name] = (path, 8 + length + info["data_offsets"][0], info)

    def __contains__(self, name):
        return name in self.places

    def read(self, name):
        path, offset, info = self.places[name]
        if info["dtype"] != "BF16":
            raise ValueError(f"{path}: {name} is {info['dtype']}, expected BF16")
        halves = np.fromfile(path, np.uint16, int(np.prod(info["shape"])), offset=offset)
        return (halves.astype(np.uint32) << 16).view(np.float32).reshape(info["shape"])


def tensors(checkpoint):
    """(name, float32 array) in file order; the experts of a layer become one array."""
    for source, name in WHOLE_MODEL.items():
        if source in checkpoint:
            yield f"{name}.weight", checkpoint.read(source)
    for layer in range(checkpoint.config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for source, name in OF_A_LAYER.items():
            yield f"blk.{layer}.{name}.weight", checkpoint.read(f"{prefix}{source}.weight")
        for source, name in OF_AN_EXPERT.items():
            experts = range(checkpoint.config["num_experts"])
            yield f"blk.{layer}.{name}.weight", np.stack([checkpoint.read(f"{prefix}mlp.experts.{e}.{source}.weight") for e in experts])


def add_geometry(writer, config):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_vocab_size(config["vocab_size"])


def add_plain_vocabulary(writer, vocab_size):
    """The alphabet of byte-level BPE and as many made-up tokens as are missing: enough to load, for models of random weights."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(b) for b in plain] + [chr(256 + i) for i in range(256 - len(plain))]
    alphabet.append(alphabet[0] + alphabet[1])  # what the one merge makes
    tokens = alphabet + [f"<t{i}>" for i in range(vocab_size - len(alphabet))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * vocab_size)
    writer.add_token_merges([f"{tokens[0]} {tokens[1]}"])
    writer.add_eos_token_id(vocab_size - 1)
    writer.add_add_bos_token(False)


def copy_metadata(writer, path):
    """All of another file's metadata but what the writer sets itself."""
    for key, field in GGUFReader(path).fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)


def quantised_type(name):
    """4 bit where OpenVINO's exporter has 4 bit, 8 bit in embedding and head as it has, norms and router as floats."""
    if "norm" in name or "ffn_gate_inp" in name:
        return Type.F32
    return Type.Q8_0 if name.startswith(("token_embd", "output.")) else Type.Q4_0


def unquantised_type(name):
    return Type.F32 if "norm" in name or "ffn_gate_inp" in name else Type.BF16


def convert(folder, out, type_of, metadata_from=None):
    """Writes `out`. Metadata: of the GGUF file `metadata_from`, else from config.json with a plain vocabulary."""
    checkpoint = Checkpoint(Path(folder))
    writer = GGUFWriter(out, ARCHITECTURE)
    if metadata_from:
        copy_metadata(writer, metadata_from)
    else:
        add_geometry(writer, checkpoint.config)
        add_plain_vocabulary(writer, checkpoint.config["vocab_size"])
    for name, values in tensors(checkpoint):
        kind = type_of(name)
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
