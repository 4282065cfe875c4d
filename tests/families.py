"""Which models prove which family: the list that test_parity.py runs and that the table of docs/models.md is made of.

    python3 tests/families.py --write    # renews the table in docs/models.md
"""
import argparse
import json
from dataclasses import dataclass, field

import parity

# Where a reference differs from itself by this much (chunked against recurrent form, large activations), so may we.
LOGITS_TOLERANCE = {"qwen3_next": 1e-3, "qwen3_5_moe": 1e-3, "kimi_linear": 1e-3, "bailing_hybrid": 1e-3, "gpt_oss": 2e-4}
WEIGHT_TOLERANCE = {"qwen3_next": 1e-4, "qwen3_5_moe": 1e-4, "kimi_linear": 1e-4, "bailing_hybrid": 1e-4}
# Mean error with 8-bit activations, where one flipped expert weighs much: llama.cpp has 6.2e-2 in the first.
MEAN_TOLERANCE = {"deepseek_v3": 7e-2, "gpt_oss": 7e-2}
# Nothing is added to the scores for choosing, and weights follow from them alone: experts come by descending weight.
CHOSEN_BY_WEIGHT = ("mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5_moe", "gpt_oss", "deepseek_v2", "granitemoe",
                    "granitemoeshared", "granitemoehybrid", "hunyuan_v1_moe", "llama4")

# ../shared/oracle/checkpoints that are not named like their family.
SHARED_CHECKPOINTS = {
    "afmoe": "", "bailing_hybrid": "", "deepseek_v2": "", "deepseek_v2_lite": "deepseek_v2", "deepseek_v3": "", "deepseek_v32": "",
    "deepseek_v3_fp8": "deepseek_v3", "deepseek_v3_wide": "deepseek_v3", "deepseek_v4": "", "dots1": "", "ernie4_5_moe": "",
    "gemma3_text": "", "gemma4_moe": "gemma4", "glm4_moe": "", "glm4_moe_lite": "", "glm4_moe_noqknorm": "glm4_moe", "glm_moe_dsa": "",
    "gpt_oss": "", "gpt_oss_mxfp4": "gpt_oss", "gpt_oss_wide": "gpt_oss", "granitemoe": "", "granitemoehybrid": "",
    "granitemoeshared": "", "hunyuan_v1_moe": "", "kimi_k2_ct_int4": "kimi_k2", "kimi_linear": "", "lfm2_moe": "", "llama": "",
    "llama4": "", "longcat_flash": "", "mimo_v2_flash": "", "minimax_m2": "", "mixtral": "", "mixtral_wide": "mixtral",
    "nemotron_h": "", "olmo2": "", "olmoe": "", "phimoe": "", "qwen2_moe": "", "qwen3": "", "qwen3_5_moe": "", "qwen3_moe": "",
    "qwen3_moe_awq": "qwen3_moe", "qwen3_moe_bf16_sharded": "qwen3_moe", "qwen3_moe_gptq": "qwen3_moe",
    "qwen3_moe_gptq_desc_act": "qwen3_moe", "qwen3_moe_nonorm": "qwen3_moe", "qwen3_moe_wide": "qwen3_moe", "qwen3_next": "",
    "smollm3": ""}
QUANTISED_CHECKPOINTS = {"deepseek_v3_fp8": "FP8 in blocks", "gpt_oss_mxfp4": "MXFP4", "kimi_k2_ct_int4": "compressed-tensors int4",
                         "qwen3_moe_awq": "AWQ", "qwen3_moe_gptq": "GPTQ", "qwen3_moe_gptq_desc_act": "GPTQ in act order"}

SHARED_GGUF_F32 = ("afmoe", "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "gemma4_moe", "glm4_moe", "glm4_moe_lite",
                   "glm4_moe_noqknorm", "gpt_oss", "granitemoe", "granitemoehybrid", "granitemoeshared", "kimi_linear", "lfm2_moe",
                   "llama", "minimax_m2", "mixtral", "nemotron_h", "olmo2", "qwen3", "qwen3_5_moe", "qwen3_moe", "qwen3_next", "smollm3")
SHARED_GGUF_QUANTISED = {"deepseek_v3_wide": ("Q4_K_M",), "gpt_oss_mxfp4": ("f32",), "gpt_oss_wide": ("MXFP4_MOE",),
                         "qwen3_moe_wide": ("IQ3_S", "IQ4_NL", "IQ4_XS", "MXFP4_MOE", "Q2_K", "Q3_K_M", "Q4_0", "Q4_K_M", "Q5_1", "Q5_K_M",
                                            "Q6_K", "Q8_0")}
# F32 files that llama.cpp computes otherwise on purpose (docs/models.md says why): its own logits are the target.
# For gemma4_moe they are not: ggml rounds GELU to F16.
GGUF_MEANS_OTHERS = ("deepseek_v2", "glm4_moe_lite", "gpt_oss", "kimi_linear")

DATA_GGUF_F32 = {"mixtral": "mixtral-f32.gguf", "qwen3_moe": "qwen3_moe-f32-00001-of-00002.gguf"}
DATA_GGUF_QUANTISED = {"mixtral": "Q8_0", "qwen2_moe": "Q8_0", "qwen3_moe": "Q8_0", "olmoe": "Q8_0", "qwen3_moe_wide": "Q4_K_M"}

# What has no forward pass yet, each with the reason; empty when everything runs.
PENDING = {}


@dataclass
class Model:
    name: str  # of the test
    family: str
    path: object
    expected: object
    shared: bool  # in ../shared
    gguf: bool = False
    quantised: str = ""  # how
    routing: bool = True  # `expected` holds the experts' choice too

    @property
    def logits_tolerance(self):
        return LOGITS_TOLERANCE.get(self.family, 1e-4)

    @property
    def weight_tolerance(self):
        return WEIGHT_TOLERANCE.get(self.family, 1e-5)

    @property
    def mean_tolerance(self):
        return MEAN_TOLERANCE.get(self.family, 5e-2)

    @property
    def pending(self):
        return PENDING.get(self.family)


def family_of(checkpoint):
    return SHARED_CHECKPOINTS.get(checkpoint) or checkpoint


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def data_checkpoints():
    for folder in sorted((parity.DATA / "checkpoints").iterdir()):
        config = config_of(folder)
        how = "MXFP4" if config.get("quantization_config") else ""
        yield Model(f"data_{folder.name}", config["model_type"], folder, folder / "expected.safetensors", False, quantised=how)


def data_gguf():
    folder = parity.DATA / "gguf"
    for name, file in DATA_GGUF_F32.items():
        expected = parity.DATA / "checkpoints" / name / "expected.safetensors"
        yield Model(f"data_{name}_gguf_f32", family_of(name), folder / file, expected, False, gguf=True)
    for name, kind in DATA_GGUF_QUANTISED.items():
        stem = folder / f"{name}-{kind.lower()}"
        yield Model(f"data_{name}_gguf_{kind.lower()}", family_of(name), stem.with_suffix(".gguf"), stem.with_suffix(".expected.safetensors"),
                    False, gguf=True, quantised=kind, routing=kind == "Q8_0")


def shared_checkpoints():
    for name in SHARED_CHECKPOINTS:
        folder = parity.SHARED / "oracle" / "checkpoints" / name
        yield Model(f"shared_{name}", family_of(name), folder, folder / "expected.safetensors", True,
                    quantised=QUANTISED_CHECKPOINTS.get(name, ""))


def shared_gguf():
    oracle = parity.SHARED / "oracle"
    for name in SHARED_GGUF_F32:
        stem = oracle / "gguf" / f"{name}-f32"
        own = name in GGUF_MEANS_OTHERS
        expected = stem.with_suffix(".llama.safetensors") if own else oracle / "checkpoints" / name / "expected.safetensors"
        yield Model(f"shared_{name}_gguf_f32", family_of(name), stem.with_suffix(".gguf"), expected, True, gguf=True, routing=not own)
    for name, kinds in SHARED_GGUF_QUANTISED.items():
        for kind in kinds:
            stem = oracle / "gguf" / f"{name}-{kind}"
            yield Model(f"shared_{name}_gguf_{kind.lower()}", family_of(name), stem.with_suffix(".gguf"),
                        stem.with_suffix(".expected.safetensors"), True, gguf=True, quantised="MXFP4" if kind == "f32" else kind, routing=False)


def models():
    return [*data_checkpoints(), *data_gguf(), *shared_checkpoints(), *shared_gguf()]


# ---- the table -------------------------------------------------------------------------------------------------------------

DOCUMENT = parity.ROOT / "docs" / "models.md"
BEGIN, END = "<!-- made by tests/families.py: begin -->\n", "<!-- end -->\n"


@dataclass
class Row:
    checkpoints: int = 0
    gguf: int = 0
    quantised: list = field(default_factory=list)
    moe: bool = False
    own_data: bool = False
    pending: str = ""


def rows():
    found = {}
    for model in models():
        row = found.setdefault(model.family, Row())
        row.pending = model.pending or ""
        row.checkpoints += not model.gguf
        row.gguf += model.gguf
        if model.quantised and model.quantised not in row.quantised:
            row.quantised.append(model.quantised)
        if not model.shared and not model.gguf:
            row.own_data = True
            row.moe |= any(name.split(".")[1] == "moe" for name in parity.safetensors_header(model.expected))
    return found


def table():
    lines = ["| family | Hugging Face | GGUF | quantised | streamed | batched |", "|---|---|---|---|---|---|"]
    for family, row in sorted(rows().items()):
        if row.pending:
            lines.append(f"| {family} | no: {row.pending} | – | – | – | – |")
            continue
        same = "same bytes" if row.own_data else "–"
        lines.append(f"| {family} | {row.checkpoints} | {row.gguf or '–'} | {', '.join(row.quantised) or '–'} | "
                     f"{same if row.moe else 'dense'} | {same} |")
    return "\n".join(lines) + "\n"


def document_with(text):
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        DOCUMENT.write_text(document_with(DOCUMENT.read_text()))
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
