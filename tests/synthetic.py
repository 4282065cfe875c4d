"""A GGUF model of any size with repeating Q8_0 weights, for tests of memory; what it writes is noise. Standard library only."""
import random
import struct

ARCHITECTURE = "qwen3moe"
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, TOP_K, VOCAB = 1024, 8, 2, 128, 2, 4096
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
TYPES = {"F32": (0, 1, 4), "Q8_0": (8, 32, 34)}  # number, values and bytes of a block


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, value):
    if isinstance(value, int):
        return string(key) + struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return string(key) + struct.pack("<If", FLOAT32, value)
    if isinstance(value, str):
        return string(key) + struct.pack("<I", STRING) + string(value)
    return string(key) + struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(string, value))


def metadata(layers, experts, width):
    letters = [*range(33, 127), *range(161, 173), *range(174, 512)][:256]
    tokens = [chr(c) for c in letters]
    tokens.append(tokens[0] + tokens[1])  # what the one merge makes
    tokens += [f"<t{i}>" for i in range(VOCAB - len(tokens))]
    own = {"block_count": layers, "context_length": 8192, "embedding_length": HIDDEN, "feed_forward_length": width,
           "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD_DIM,
           "attention.value_length": HEAD_DIM, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
           "expert_count": experts, "expert_used_count": TOP_K, "expert_feed_forward_length": width, "vocab_size": VOCAB}
    return {"general.architecture": ARCHITECTURE, **{f"{ARCHITECTURE}.{key}": value for key, value in own.items()},
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.merges": [f"{tokens[0]} {tokens[1]}"], "tokenizer.ggml.eos_token_id": VOCAB - 1}


def tensors(layers, experts, width):
    """(name, shape with the fastest axis first, type)."""
    yield "token_embd.weight", (HIDDEN, VOCAB), "Q8_0"
    yield "output_norm.weight", (HIDDEN,), "F32"
    yield "output.weight", (HIDDEN, VOCAB), "Q8_0"
    for layer in range(layers):
        for name, shape, kind in (
                ("attn_norm", (HIDDEN,), "F32"), ("attn_q", (HIDDEN, HEADS * HEAD_DIM), "Q8_0"),
                ("attn_k", (HIDDEN, KV_HEADS * HEAD_DIM), "Q8_0"), ("attn_v", (HIDDEN, KV_HEADS * HEAD_DIM), "Q8_0"),
                ("attn_output", (HEADS * HEAD_DIM, HIDDEN), "Q8_0"), ("attn_q_norm", (HEAD_DIM,), "F32"),
                ("attn_k_norm", (HEAD_DIM,), "F32"), ("ffn_norm", (HIDDEN,), "F32"), ("ffn_gate_inp", (HIDDEN, experts), "F32"),
                ("ffn_gate_exps", (HIDDEN, width, experts), "Q8_0"), ("ffn_up_exps", (HIDDEN, width, experts), "Q8_0"),
                ("ffn_down_exps", (width, HIDDEN, experts), "Q8_0")):
            yield f"blk.{layer}.{name}.weight", shape, kind


def write(path, layers, experts, width):
    """Sizes are multiples of 32 values; about layers * experts * width * 3.3 KB."""
    generator = random.Random(1)
    pattern = {"F32": struct.pack("<f", 0.02),
               "Q8_0": b"".join(struct.pack("<e", 1e-3) + generator.randbytes(32) for _ in range(1 << 14))}
    listing, header, offset = [], b"", 0
    for name, shape, kind in tensors(layers, experts, width):
        number, values, block = TYPES[kind]
        count = 1
        for n in shape:
            count *= n
        size = count // values * block
        header += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        listing.append((kind, size))
        offset += size + -size % 32
    pairs = metadata(layers, experts, width)
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(listing), len(pairs)) + b"".join(pair(*p) for p in pairs.items()) + header)
        out.write(b"\0" * (-out.tell() % 32))
        for kind, size in listing:
            whole, rest = divmod(size, len(pattern[kind]))
            for _ in range(whole):
                out.write(pattern[kind])
            out.write(pattern[kind][:rest] + b"\0" * (-size % 32))
