"""What the long-context test and the tool that makes its data (tools/make_long_data.py) agree on."""
import json

# A model of tests/data for each way to remember, and how its config changes: room, and all experts chosen, so that in
# thousands of tokens no choice is decided by rounding.
LONG = 1 << 18
CHANGES = {
    "qwen3": {},  # grouped-query attention, linear RoPE scaling
    "llama": {},  # llama3 scaling
    "gemma3_text": {},  # windows beside full attention
    "mistral": {},  # windows only
    "deepseek_v3": {"num_experts_per_tok": 8, "topk_group": 4},  # latents, yarn
    "gpt_oss": {"num_experts_per_tok": 6},  # windows, sinks, yarn that is not rounded
    "qwen3_next": {"num_experts_per_tok": 6},  # a delta rule
    "nemotron_h": {"num_experts_per_tok": 6},  # Mamba-2
}


def prompt(length):
    return [3 + (7 * i * i + 3 * i + i // 120) % 117 for i in range(length)]


def changed_config(folder, name):
    config = json.loads((folder / "config.json").read_text())
    return config | {"max_position_embeddings": LONG} | CHANGES[name]
