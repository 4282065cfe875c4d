"""Makes tests/data/quantised.safetensors: one matrix in every way that quantised safetensors are stored, and what it
decodes to.

    python tools/make_quantised_data.py tests/data/quantised.safetensors     (needs torch, numpy and safetensors)

The expectations are written down here once more, from the published descriptions, with whole-matrix operations; they
share nothing with the engine. SCHEME.m.* are a module's tensors, SCHEME.expected its weight [out, in] in F32, and the
file's metadata has the quantization_config of each scheme as JSON.
"""
import json
import sys

import numpy as np
import torch
from safetensors.torch import save_file

OUT, IN = 24, 96
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float32)
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # columns in a word, lowest nibble first

rng = np.random.default_rng(6)
tensors, configs = {}, {}


def codes(shape, bits):
    return torch.from_numpy(rng.integers(0, 1 << bits, size=shape, dtype=np.int64))


def scales(shape, dtype):
    return torch.from_numpy(rng.uniform(0.001, 0.02, size=shape).astype(np.float32)).to(dtype)


def e4m3(shape):
    bits = rng.integers(0, 256, size=shape).astype(np.uint8)
    bits[(bits & 127) == 127] = 1  # no NaN
    return torch.from_numpy(bits).view(torch.float8_e4m3fn)


def words(values, bits, dim):
    """Packs along `dim`, the low bits first; a last word may be partial."""
    values = values.movedim(dim, -1)
    per_word = 32 // bits
    padded = torch.nn.functional.pad(values, (0, -values.shape[-1] % per_word))
    grouped = padded.reshape(*padded.shape[:-1], -1, per_word)
    packed = (grouped << (torch.arange(per_word) * bits)).sum(-1)
    return packed.to(torch.uint32).view(torch.int32).movedim(-1, dim).contiguous()


def nibbles(values):
    return (values[..., 0::2] | values[..., 1::2] << 4).to(torch.uint8).contiguous()


def add(name, config, expected, **parts):
    for part, tensor in parts.items():
        tensors[f"{name}.m{'' if part.startswith('_') else '.'}{part}"] = tensor.contiguous().clone()
    tensors[f"{name}.expected"] = expected.to(torch.float32).contiguous()
    configs[name] = config


def group_of(width, group):
    return torch.arange(width) // group


def compressed(fmt, **weights):
    return {"quant_method": "compressed-tensors", "format": fmt, "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ["lm_head"]}


def fp8():
    for name, tile, make in (("fp8", (16, 64), lambda s: scales(s, torch.float32)),
                             ("fp8_bf16_scale", (16, 64), lambda s: scales(s, torch.bfloat16)),
                             ("fp8_e8m0", (16, 32), lambda s: (codes(s, 3) + 118).to(torch.uint8))):
        w = e4m3((OUT, IN))
        s = make((-(-OUT // tile[0]), -(-IN // tile[1])))
        value = torch.exp2(s.float() - 127) if s.dtype == torch.uint8 else s.float()
        spread = value[group_of(OUT, tile[0])][:, group_of(IN, tile[1])]
        stored = s.view(torch.float8_e8m0fnu) if s.dtype == torch.uint8 else s
        add(name, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(tile)},
            w.float() * spread, weight=w, weight_scale_inv=stored)
    w, s = e4m3((OUT, IN)), scales((1,), torch.float32)
    add("fp8_tensor", compressed("float-quantized", num_bits=8, type="float", strategy="tensor", symmetric=True),
        w.float() * s, weight=w, weight_scale=s, input_scale=s)
    w, s = e4m3((OUT, IN)), scales((OUT, 1), torch.bfloat16)
    add("fp8_channel", compressed("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True),
        w.float() * s.float(), weight=w, weight_scale=s)


def fp4():
    c, e = codes((2, OUT, IN), 4), codes((2, OUT, IN // 32), 3) + 118
    expected = E2M1[c] * torch.exp2(e.float() - 127).repeat_interleave(32, -1)
    add("mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, expected,
        _blocks=nibbles(c).reshape(2, OUT, IN // 32, 16), _scales=e.to(torch.uint8))
    c, e = codes((OUT, IN), 4), codes((OUT, IN // 32), 3) + 118
    add("ct_mxfp4", compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32,
                               symmetric=True),
        E2M1[c] * torch.exp2(e.float() - 127).repeat_interleave(32, -1),
        weight_packed=nibbles(c), weight_scale=e.to(torch.uint8))
    c, s, g = codes((OUT, IN), 4), scales((OUT, IN // 16), torch.float32) * 1000, torch.tensor([37.25])
    s = s.to(torch.float8_e4m3fn)
    add("ct_nvfp4", compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16,
                               symmetric=True),
        E2M1[c] * (s.float() / g).repeat_interleave(16, -1),
        weight_packed=nibbles(c), weight_scale=s, weight_global_scale=g)
    g = torch.tensor(0.0123)
    add("modelopt_nvfp4", {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": []},
        E2M1[c] * (s.float() * g).repeat_interleave(16, -1), weight=nibbles(c), weight_scale=s, weight_scale_2=g)


def packed_ints():
    base = {"type": "int", "strategy": "group", "group_size": 32}
    c, s = codes((OUT, IN), 4), scales((OUT, IN // 32), torch.bfloat16)
    shape = torch.tensor([OUT, IN])
    add("ct_int4", compressed("pack-quantized", num_bits=4, symmetric=True, **base),
        (c - 8) * s.float().repeat_interleave(32, 1),
        weight_packed=words(c, 4, 1), weight_scale=s, weight_shape=shape)
    z = codes((OUT, IN // 32), 4)
    add("ct_int4_zero", compressed("pack-quantized", num_bits=4, symmetric=False, **base),
        (c - z.repeat_interleave(32, 1)) * s.float().repeat_interleave(32, 1),
        weight_packed=words(c, 4, 1), weight_scale=s, weight_shape=shape, weight_zero_point=words(z, 4, 0))
    order = torch.from_numpy(rng.permutation(IN) // 32).to(torch.int32)
    add("ct_int4_order", compressed("pack-quantized", num_bits=4, symmetric=False, actorder="group", **base),
        (c - z[:, order.long()]) * s.float()[:, order.long()],
        weight_packed=words(c, 4, 1), weight_scale=s, weight_shape=shape.to(torch.int32),
        weight_zero_point=words(z, 4, 0), weight_g_idx=order)
    c, s = codes((OUT, IN), 8), scales((OUT, 1), torch.float16)
    add("ct_int8_channel", compressed("pack-quantized", num_bits=8, symmetric=True, type="int", strategy="channel"),
        (c - 128) * s.float(), weight_packed=words(c, 8, 1), weight_scale=s, weight_shape=shape)
    z = codes((OUT, 1), 8) - 128
    add("ct_int8_plain", compressed("int-quantized", num_bits=8, symmetric=False, type="int", strategy="channel"),
        (c - 128 - z) * s.float(), weight=(c - 128).to(torch.int8), weight_scale=s, weight_zero_point=z.to(torch.int8))


def gptq_and_awq():
    long = 288  # more than one strip of inputs
    def gptq(name, bits, group, version, order=None):
        groups = long // group
        c, z, s = codes((long, OUT), bits), codes((groups, OUT), bits), scales((groups, OUT), torch.float16)
        index = group_of(long, group) if order is None else torch.from_numpy(order // group)
        stored = z if version == "gptq_v2" else (z - 1) % (1 << bits)
        add(name, {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order is not None, "sym": False,
                   "checkpoint_format": version},
            ((c - z[index]) * s.float()[index]).T,
            qweight=words(c, bits, 0), qzeros=words(stored, bits, 1), scales=s, g_idx=index.to(torch.int32))

    gptq("gptq", 4, 32, "gptq")
    gptq("gptq_v2_8bit", 8, 48, "gptq_v2")
    gptq("gptq_order", 4, 32, "gptq", rng.permutation(long))
    c, z, s = codes((long, OUT), 4), codes((long // 32, OUT), 4), scales((long // 32, OUT), torch.float16)

    def awq_words(values):
        return words(values.reshape(values.shape[0], -1, 8)[..., AWQ_ORDER].reshape(values.shape), 4, 1)

    index = group_of(long, 32)
    add("awq", {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
        ((c - z[index]) * s.float()[index]).T, qweight=awq_words(c), qzeros=awq_words(z), scales=s)


def main():
    fp8()
    fp4()
    packed_ints()
    gptq_and_awq()
    save_file(tensors, sys.argv[1], metadata={name: json.dumps(config) for name, config in configs.items()})


main()
