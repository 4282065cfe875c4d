#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: corpus/TARGET/NAME. Needs nothing but Python.

Seeds are small files of every shape that a target knows, whole and damaged. Files that fuzzing found (crash-*) lie beside
them and are not touched. Formats of the inputs: the first lines of each *_fuzz.cc.
"""
import base64
import json
import re
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def u32(n):
    return struct.pack("<I", n & 0xFFFFFFFF)


def u64(n):
    return struct.pack("<Q", n & 0xFFFFFFFFFFFFFFFF)


def text(s):
    data = s.encode()
    return u64(len(data)) + data


# --- json -------------------------------------------------------------------------------------------------------------

def json_seeds():
    yield "config", b'{"hidden_size": 64, "rope_theta": 1e6, "rms_norm_eps": 1e-05, "tie": false, "a": null, "l": [1, -2.5]}'
    yield "bare_words", b'{"time_step_limit": [0.0, Infinity], "x": -Infinity, "n": NaN, "Infinity": "NaN"}'
    yield "bare_words_glued", b'[NaN5, 1Infinity, -NaN]'
    yield "wrapped_float", b'[{"__float__": "Infinity"}, {"__float__": "NaN"}, {"__float__": "1"}]'
    yield "escapes", rb'["\u0000\u001f\"\\\/\b\f\n\r\t\ud83d\ude00\u00e9"]'
    yield "half_surrogates", rb'["\ud800", "\udc00\ud800"]'
    yield "bad_utf8", b'["\xc0\xaf\xed\xa0\x80\xff"]'
    yield "numbers", b'[0, -0, -0.0, 1E+2, 9223372036854775807, -9223372036854775809, 1e308, 5e-324, 1e-400, 1e999]'
    yield "long_number", b"[" + b"9" * 310 + b"." + b"9" * 40 + b"e-300]"
    yield "duplicates", b'{"a": 1, "\\u0061": 2}'
    yield "many_keys", json.dumps({f"k{i}": i for i in range(40)}).encode()
    yield "many_keys_duplicate", json.dumps({f"k{i}": i for i in range(40)}).encode()[:-1] + b', "k7": 0}'
    yield "deep_64", b"[" * 64 + b"]" * 64
    yield "deep_65", b'{"a":' * 65 + b"1" + b"}" * 65
    yield "deep_wrapped", b"[" * 63 + b"Infinity" + b"]" * 63
    yield "nul", b'["a\x00"]'
    yield "after_the_end", b"{} x"
    yield "bom", b"\xef\xbb\xbf{}"
    yield "cut_off", b'{"a": ["b'
    yield "empty", b""


# --- safetensors ------------------------------------------------------------------------------------------------------

def header(data_bytes, **tensors):
    entries = {n: {"dtype": d, "shape": s, "data_offsets": o} for n, (d, s, o) in tensors.items()}
    return u32(data_bytes) + json.dumps(entries).encode()


def index(**weight_map):
    return u32(0) + json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}).encode()


def safetensors_seeds():
    yield "two", header(24, a=("BF16", [2, 3], [4, 16]), b=("F32", [], [0, 4]), c=("I64", [1], [16, 24]))
    yield "metadata", u32(0) + b'{"__metadata__": {"format": "pt"}}'
    yield "metadata_wrong", u32(0) + b'{"__metadata__": {"format": 1}}'
    yield "empty_tensors", header(2, a=("U8", [0, 9], [1, 1]), b=("F8_E4M3", [2], [0, 2]))
    yield "sub_byte", header(4, a=("F4", [2, 3], [0, 3]), b=("F4", [2], [3, 4]))
    yield "sub_byte_odd", header(2, a=("F4", [3], [0, 2]))
    yield "overlap", header(6, a=("U8", [4], [0, 4]), b=("U8", [4], [2, 6]))
    yield "hole", header(6, a=("U8", [2], [0, 2]), b=("U8", [2], [4, 6]))
    yield "beyond", header(3, a=("U8", [4], [0, 4]))
    yield "reversed", header(4, a=("U8", [4], [4, 0]))
    yield "negative", header(4, a=("U8", [4], [-4, 0]))
    yield "wraps", header(0, a=("F32", [1 << 62], [0, 0]))
    yield "wraps_product", header(0, a=("F32", [1 << 32, 1 << 32], [0, 0]))
    yield "offset_wraps", header(0, a=("U8", [4], [(1 << 63) - 5, (1 << 63) - 1]))
    yield "nine_dimensions", header(1, a=("U8", [1] * 9, [0, 1]))
    yield "float_shape", header(1, a=("U8", [1.0], [0, 1]))
    yield "unknown_dtype", header(1, a=("Q8_0", [1], [0, 1]))
    yield "control_name", header(1, **{"a\n\x1b[31m": ("U8", [2], [0, 1])})
    yield "duplicate", u32(0) + b'{"a": {}, "a": {}}'
    yield "no_object", u32(0) + b"[1]"
    yield "index", index(a="model-00001-of-00002.safetensors", b="model-00002-of-00002.safetensors")
    yield "index_leaves", index(a="../other.safetensors", b="/etc/passwd")
    yield "index_empty", index()
    yield "index_number", u32(0) + b'{"weight_map": {"a": 1}}'


# --- gguf -------------------------------------------------------------------------------------------------------------

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)


def key(name, kind, value):
    return text(name) + u32(kind) + value


def array(kind, count, items=b""):
    return u32(kind) + u64(count) + items


def tensor(name, dims, kind, offset):
    return text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def gguf(keys=(), tensors=(), data=0, version=3, n_tensors=None, n_keys=None, align=32, more=0):
    counts = u64(len(tensors) if n_tensors is None else n_tensors) + u64(len(keys) if n_keys is None else n_keys)
    head = b"GGUF" + u32(version) + counts + b"".join(keys) + b"".join(tensors)
    return bytes([more]) + head + bytes(-len(head) % align) + bytes(data)


def gguf_seeds():
    scalars = [key("u8", UINT8, b"\xff"), key("i8", INT8, b"\xff"), key("u16", UINT16, b"\1\2"),
               key("i16", INT16, b"\1\2"), key("u32", UINT32, u32(7)), key("i32", INT32, u32(-7)),
               key("f32", FLOAT32, struct.pack("<f", 1e6)), key("bool", BOOL, b"\1"), key("s", STRING, text("gpt2")),
               key("u64", UINT64, u64(-1)), key("i64", INT64, u64(-1)), key("f64", FLOAT64, struct.pack("<d", 0.1))]
    yield "scalars", gguf(scalars)
    yield "not_a_number", gguf([key("f", FLOAT32, u32(0x7FC00000)), key("g", FLOAT64, u64(0x7FF0 << 48))])
    yield "vocabulary", gguf([key("tokenizer.ggml.tokens", ARRAY, array(STRING, 3, text("a") + text("\u0120b") + text(""))),
                              key("tokenizer.ggml.token_type", ARRAY, array(INT32, 3, u32(1) * 3))])
    yield "tensors", gguf([], [tensor("w", [64, 3, 2], 8, 0), tensor("b", [5], 0, 416)], 436)
    yield "scalar_tensor", gguf([], [tensor("s", [], 0, 0)], 4)
    yield "data_elsewhere", gguf([], [tensor("w", [256, 8], 12, 0)], more=1)
    yield "alignment_256", gguf([key("general.alignment", UINT32, u32(256))], [tensor("a", [4], 0, 0)], 16, align=256)
    yield "alignment_0", gguf([key("general.alignment", UINT32, u32(0))], [tensor("a", [4], 0, 0)], 16)
    yield "alignment_huge", gguf([key("general.alignment", UINT32, u32(1 << 31))], [tensor("a", [4], 0, 0)], 16)
    yield "alignment_text", gguf([key("general.alignment", STRING, text("32"))])
    yield "split", gguf([key("split.no", UINT16, b"\0\0"), key("split.count", UINT16, b"\3\0"),
                         key("split.tensors.count", INT32, u32(3))])
    yield "nested", gguf([key("k", ARRAY, array(ARRAY, 1, array(ARRAY, 1, array(UINT8, 2, b"ab"))))])
    yield "nested_deep", gguf([key("k", ARRAY, array(ARRAY, 1) * 50 + array(UINT8, 0))])
    yield "array_huge", gguf([key("k", ARRAY, array(UINT8, 1 << 63))])
    yield "array_narrow", gguf([key("k", ARRAY, array(FLOAT32, 9, bytes(9)))])
    yield "array_unknown", gguf([key("k", ARRAY, array(13, 1, bytes(8)))])
    yield "string_huge", gguf([key("k", STRING, u64(-1))])
    yield "keys_huge", gguf(n_keys=-1)
    yield "tensors_huge", gguf(n_tensors=1 << 60)
    yield "duplicate_key", gguf([key("k", BOOL, b"\0")] * 2)
    yield "duplicate_tensor", gguf([], [tensor("a", [8], 0, 0), tensor("a", [8], 0, 32)], 64)
    yield "overlap", gguf([], [tensor("a", [16], 0, 0), tensor("b", [8], 0, 32)], 64)
    yield "misaligned", gguf([], [tensor("a", [8], 0, 4)], 64)
    yield "beyond", gguf([], [tensor("a", [64], 0, 0)], 64)
    yield "offset_huge", gguf([], [tensor("a", [8], 0, -32)], 64)
    yield "dims_wrap", gguf([], [tensor("a", [1 << 31, 1 << 31, 4], 0, 0)], 64)
    yield "end_wraps", gguf([], [tensor("a", [(1 << 61) - 1], 0, 0)], 64)
    yield "zero_dim", gguf([], [tensor("a", [4, 0], 0, 0)], 64)
    yield "five_dims", gguf([], [tensor("a", [1] * 5, 0, 0)], 64)
    yield "part_of_a_block", gguf([], [tensor("a", [16, 2], 8, 0)], 64)
    yield "type_unknown", gguf([], [tensor("a", [32], 99, 0)], 64)
    yield "type_removed", gguf([], [tensor("a", [32], 31, 0)], 64)
    yield "bool_2", gguf([key("k", BOOL, b"\2")])
    yield "version_1", gguf(version=1)
    yield "version_2", gguf([key("k", BOOL, b"\1")], version=2)
    yield "big_endian", gguf(version=0x03000000)
    yield "other_magic", b"\0GGML" + bytes(40)
    yield "cut_off", gguf(scalars)[:60]


# --- tokenizers -------------------------------------------------------------------------------------------------------

def byte_letters():
    """The letters that byte-level BPE writes bytes with."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b) if b in keep else chr(next(other)) for b in range(256)]


LETTERS = byte_letters()
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("\u0120", "w"), ("\u0120w", "o")]
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def special(i, content, **flags):
    base = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": i, "content": content, **base, **flags}


def byte_level(**changes):
    vocab = {c: i for i, c in enumerate(LETTERS)}
    for a, b in MERGES:
        vocab[a + b] = len(vocab)
    n = len(vocab)
    split = {"type": "Split", "pattern": {"Regex": GPT2_PATTERN}, "behavior": "Isolated", "invert": False}
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [special(n, "<|im_start|>"), special(n + 1, "<|im_end|>"), special(n + 2, "<tool>", special=False)],
        "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, plain]},
        "post_processor": plain, "decoder": plain,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [f"{a} {b}" for a, b in MERGES]}}
    tokenizer.update(changes)
    return tokenizer


def metaspace():
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{b:02X}>": 3 + b for b in range(256)}}
    for piece in ["\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello"]:
        vocab[piece] = len(vocab)
    merges = ["h e", "l l", "he ll", "hell o", "\u2581 hello"]
    template = {"type": "TemplateProcessing", "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]}
    return {"version": "1.0", "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>", rstrip=True)],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None, "post_processor": template,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab,
                      "merges": [m.split(" ") for m in merges]}}


def tokenizer_json_seeds():
    def dump(tokenizer, sample=b""):
        # Not indented and not escaped, so that mutations hit meaning rather than blanks.
        return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode() + (b"\0" + sample if sample else b"")

    yield "byte_level", dump(byte_level())
    yield "byte_level_text", dump(byte_level(), b"hello world<|im_start|>\xff\xc3<tool> hello<|im_end|>")
    yield "prefix_space", dump(byte_level(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}))
    yield "no_normalizer", dump(byte_level(normalizer=None, post_processor=None))
    yield "metaspace", dump(metaspace(), b"hello  hello\n\xe4\xbd\xa0<s>")
    tiny = byte_level(added_tokens=[], normalizer=None)
    for name, model in {
            "one_token": {"vocab": {"a": 0}, "merges": []},
            "ids_far_apart": {"vocab": {"a": 0, "b": 2147483647}, "merges": []},
            "ids_negative": {"vocab": {"a": -1}, "merges": []},
            "ids_shared": {"vocab": {"a": 0, "b": 0}, "merges": []},
            "merge_unknown": {"vocab": {"a": 0, "b": 1}, "merges": ["a b", "a c"]},
            "merge_odd": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", "a  b", "", " ", "ab"]},
            "merge_types": {"vocab": {"a": 0}, "merges": [["a"], ["a", "b", "c"], 1]},
            "byte_tokens": {"vocab": {"<0x-1>": 0, "<0xZZ>": 1, "<0x41>": 2, "<0x1>": 3}, "merges": [], "byte_fallback": True},
            "empty_vocab": {"vocab": {}, "merges": []},
            "vocab_list": {"vocab": [["a", 0.5]], "merges": []}}.items():
        yield name, dump({**tiny, "model": {"type": "BPE", **model}})
    yield "added_far", dump(byte_level(added_tokens=[special(1 << 40, "<x>"), special(-1, "<y>"), special(3, "<z>")]))
    yield "added_empty", dump(byte_level(added_tokens=[special(300, "<x>"), special(301, "")]))
    yield "lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 99999999999999999999\n"
    yield "added_nested", dump(byte_level(added_tokens=[special(300, "<a>"), special(301, "<a><b>"), special(302, "<")]), b"<a><b><<a>")
    for name, pattern in {"pattern_bad": "(((", "pattern_slow": "(a+)+$|(\\s*)*", "pattern_empty": "", "pattern_look": "(?<=a)b|(?!\\S)"}.items():
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}
        yield name, dump({**tiny, "pre_tokenizer": split, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}, b"a" * 60 + b"!")
    yield "digits", dump(byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}), b"123 4,5")
    unigram = {"added_tokens": [special(0, "<unk>"), special(1, "<s>")],
               "normalizer": {"type": "Sequence", "normalizers": [
                   {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()}, {"type": "Nmt"},
                   {"type": "Strip", "strip_left": False, "strip_right": True}]},
               "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
               "post_processor": {"type": "BertProcessing", "cls": ["<s>", 1], "sep": ["<s>", 1]},
               "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
               "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [
                   ["<unk>", 0], ["<s>", 0], ["\u2581", -2.5], ["h", -3], ["e", -3.5], ["he", -4], ["\u2581he", -4.25], ["l", -5], ["lo", -5]]}}
    yield "unigram", dump(unigram, b"hello  he\tae\xcc\x81 \xe4\xbd\xa0\xe4\xbd\xa0<s>")
    yield "unigram_odd", dump({"model": {"vocab": [["a", 1e999], ["", 0], ["a", -1], ["aa", 5]]}}, b"aaab")
    yield "unigram_bytes", dump({"model": {"type": "Unigram", "unk_id": 9, "byte_fallback": True, "vocab": [["<0x41>", 0], ["a", -1]]}}, b"aAb")
    yield "other_model", dump({"model": {"type": "WordPiece", "vocab": {"a": 0}}})
    yield "no_model", b"{}"
    yield "no_json", b"["


def charsmap():
    """A precompiled_charsmap that maps "a" to "bc" and a tab to a blank: a double array, then the texts."""
    units = [0] * 512
    units[0] = 1 << 10  # the root: its children start at 1 ^ label
    for byte, offset, value in [(0x61, 0x100, 0), (0x09, 0x180, 3)]:
        node = 1 ^ byte
        units[node] = (offset ^ node) << 10 | 1 << 8 | byte
        units[offset] = 1 << 31 | value
    blob = b"".join(u32(u) for u in units)
    return u32(len(blob)) + blob + b"bc\0 \0"


def varint(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def spm_model(pieces, algorithm, normalizer=b"", trainer=b""):
    out = b"".join(field(1, field(1, t.encode()) + field(2, float(s)) + (field(3, k) if k != 1 else b"")) for t, s, k in pieces)
    return out + field(2, field(3, algorithm) + trainer) + field(3, normalizer)


def sentencepiece_seeds():
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("<sep>", 0, 4), ("\n\n", 0, 4), ("un", -1, 5)]
    normal = ["\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello", "\u2581\u2581", "o\u2581h"]
    plain = pieces + [(t, -i / 2, 1) for i, t in enumerate(normal)]
    with_bytes = plain + [(f"<0x{b:02X}>", 0, 6) for b in range(256)]
    sample = b"hello  hello<sep>o h\ta\xc3\xa9<s>\n"
    for algorithm, name in [(1, "unigram"), (2, "bpe")]:
        yield name, sample + spm_model(plain, algorithm)
        yield name + "_bytes", sample + spm_model(with_bytes, algorithm, trainer=field(35, 1) + field(24, 1))
        yield name + "_charsmap", sample + spm_model(plain, algorithm, field(2, charsmap()) + field(4, 0) + field(5, 0))
        yield name + "_no_dummy", sample + spm_model(plain, algorithm, field(3, 0))
        yield name + "_ties", sample + spm_model([(t, -1, k) for t, _, k in plain], algorithm)
    yield "word", sample + spm_model(plain, 3)
    yield "cut_off", sample + spm_model(plain, 2)[:60]
    yield "long_length", sample + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"
    yield "wire_types", sample + varint(9 << 3 | 1) + bytes(8) + varint(10 << 3 | 3) + spm_model(plain, 2)
    yield "charsmap_size", sample + spm_model(plain, 1, field(2, u32(0xFFFFFFF0) + b"abc"))
    yield "charsmap_loop", sample + spm_model(plain, 1, field(2, u32(16) + u32(1 << 10) * 4 + b"x"))
    yield "not_a_number", sample + spm_model([("a", float("nan"), 1), ("b", float("inf"), 1)], 1)
    yield "ids_outside", sample + spm_model(plain, 2, trainer=field(40, 99999) + field(41, (1 << 64) - 1))
    yield "no_utf8", sample + field(1, field(1, b"\xff\xfe"))
    yield "no_pieces", sample + field(2, field(3, 2))
    yield "web_page", sample + b"<!DOCTYPE html>"


def tiktoken_seeds():
    def lines(name, config, sample, *tokens):
        ranks = [base64.b64encode(t) + b" %d" % (256 + i) for i, t in enumerate(tokens)]
        return b"\n".join([name, json.dumps(config).encode() if config is not None else b"", sample, *ranks]) + b"\n"

    words = [b"he", b"ll", b"hell", b"hello", b" hello", b"  ", b"\xe4\xbd", b"\xe4\xbd\xa0"]
    yield "qwen", lines(b"qwen.tiktoken", None, b"hello<|im_end|> hello\xff\xe4\xbd\xa0", *words)
    yield "hunyuan", lines(b"dir/hy.tiktoken", {"bos_token": "<|bos|>", "add_bos_token": True}, b"hello  12345", *words)
    config = {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": {"content": "[EOS]"}, "add_eos_token": True,
              "added_tokens_decoder": {"264": {"content": "[BOS]", "special": True}, "270": {"content": "[EOS]", "special": True},
                                       "5": {"content": "hello", "special": False, "lstrip": True}}}
    yield "kimi", lines(b"tiktoken.model", config, b"[BOS]hello \xe4\xbd\xa0 [EOS]<|reserved_token_266|>", *words)
    yield "id_far", lines(b"tiktoken.model", {"added_tokens_decoder": {"99999999999": {"content": "x"}, "-1": {"content": "y"}}}, b"a")
    yield "unknown", lines(b"x.tiktoken", {"tokenizer_class": 3}, b"a")
    yield "incomplete", lines(b"qwen.tiktoken!", None, b"a", b"a")
    yield "rank_far", lines(b"qwen.tiktoken", None, b"a") + b"YWE= 1200\nYWI= 9223372036854775808\n"
    yield "rank_twice", lines(b"qwen.tiktoken", None, b"a") + b"YWE= 256\nYWI= 256\n"
    yield "same_text", lines(b"qwen.tiktoken", None, b"aaaa", b"aa", b"aa", b"aaaa")
    yield "no_base64", lines(b"qwen.tiktoken", None, b"a") + b"Y!E= 256\n\n\r\nYWE=\n"


def tekken_seeds():
    def dump(n_special, size, tokens, sample=b"", **changes):
        entries = [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(tokens)]
        root = {"config": {"pattern": " ?\\p{L}+|\\s+|.", "num_vocab_tokens": len(tokens), "default_vocab_size": size,
                           "default_num_special_tokens": n_special, "version": "v3"}, "vocab": entries, **changes}
        return json.dumps(root, separators=(",", ":")).encode() + (b"\0" + sample if sample else b"")

    tokens = [bytes([b]) for b in range(256)] + [b"he", b"ll", b"hell", b"hello", b" hello"]
    yield "plain", dump(25, 25 + len(tokens), tokens, b"hello hello[INST]<s>\xff")
    yield "cut", dump(5, 5 + 258, tokens, b"hello")
    yield "special", dump(3, 3 + 256, tokens, b"a[B]c", special_tokens=[
        {"rank": 0, "token_str": "<s>", "is_control": True}, {"rank": 2, "token_str": "[B]", "is_control": False}])
    yield "special_outside", dump(1, 257, tokens, special_tokens=[{"rank": 7, "token_str": "x", "is_control": True}])
    yield "too_large", dump(2, 1 << 20, tokens)
    yield "less_than_special", dump(300, 256, tokens)
    yield "incomplete", dump(1, 3, tokens[:2])
    yield "pattern_bad", dump(1, 257, tokens).replace(b" ?", b"((")
    yield "no_config", b"{}"


def gguf_vocabulary_seeds():
    def lines(model, pre, ids, sample, tokens, merges=()):
        return "\n".join([model, pre, ids, sample, *tokens, "", *merges]).encode("utf-8", "surrogateescape")

    letters = ["1" + c for c in LETTERS]
    merged = ["1" + a + b for a, b in MERGES]
    pairs = [f"{a} {b}" for a, b in MERGES]
    bpe = letters + merged + ["3<|im_start|>", "3<|im_end|>", "4<tool>"]
    for pre in ["qwen2", "gpt-2", "llama-bpe", "deepseek-v3", "default", "unheard-of", ""]:
        yield "bpe_" + (pre or "none"), lines("gpt2", pre, "262 263 0 0", "hello world<|im_start|>", bpe, pairs)
    yield "bpe_bos_eos", lines("gpt2", "qwen2", "262 263 1 1", "hello", bpe, pairs)
    yield "ids_outside", lines("gpt2", "qwen2", "99999 -7 1 1", "hello", bpe, pairs)
    yield "few_tokens", lines("gpt2", "qwen2", "0 0 1 1", "abc", ["1a", "1b"], ["a b", "b c", "a", "", "a b c"])
    yield "merge_unknown", lines("gpt2", "qwen2", "-1 -1 0 0", "abc", ["1a", "1b", "1c", "1bc"], ["a b", "x c", "c x", "b c"])
    yield "types_short", lines("gpt2", "qwen2", "-1 -1 0 0", "ab", ["1a", "-b", "-c"], [])
    yield "types_odd", lines("gpt2", "qwen2", "-1 -1 0 0", "abc", ["0a", "9b", "6c"], [])
    yield "duplicates", lines("gpt2", "qwen2", "-1 -1 0 0", "aa", ["1a", "1a", "3a"], ["a a", "a a"])
    spm = ["2<unk>", "3<s>", "3</s>"] + [f"6<0x{b:02X}>" for b in range(256)] + ["1\u2581", "1h", "1e", "1he"]
    yield "spm", lines("llama", "default", "1 2 1 0", "he he", spm)
    scored = spm + ["4<sep>", "4  ", "5[PAD]", "1\u2581he"]
    for name, flags in {"spm_scores": "1 2 1 1 0 1 0 1", "spm_ties": "1 2 0 0 0 0 0 2", "t5_scores": "1 2 1 1 0 1 1 1", "t5_ties": "-1 -1 0 0 2 0 0 2"}.items():
        yield name, lines(name.split("_")[0].replace("spm", "llama"), "", flags, "he  he<sep>h\u00e9 <s>", scored)
    gemma = scored + ["1\n\n", "1\n\n\n"]
    yield "gemma4", lines("gemma4", "", "1 2 0 0 0 0 0 0", "he he\\n\\n<sep>", gemma, ["h e", "\u2581 he"])
    yield "spm_bytes", lines("llama", "default", "1 2 1 0", "he", ["2<unk>", "6<0x-1>", "6<0xZZ>", "6<0x100>", "6"])
    yield "other_model", lines("bert", "", "0 0 0 0", "a", ["1a"])
    yield "empty", b""


# --- chat templates ---------------------------------------------------------------------------------------------------

CHATML = """{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + (message.content if message.content is string else '') + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

TOOLS = """{% set ns = namespace(system='', last=-1) %}
{%- for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}{% elif m['role'] == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- macro arguments(call) -%}{{ call.arguments | tojson(indent=2) if call.arguments is mapping else call.arguments }}{%- endmacro %}
{{- bos_token }}{{ ns.system | trim | upper }}
{%- if tools is defined and tools %}{% for tool in tools if tool.type == 'function' %}{{ tool | tojson }}{% if not loop.last %}, {% endif %}{% else %}none{% endfor %}{% endif %}
{%- for m in messages[1:] %}
{%- if m.tool_calls %}{% for call in m.tool_calls %}{% set call = call.function %}<call>{{ call.name }}: {{ arguments(call) }}</call>{% endfor %}
{%- elif m.content is iterable and m.content is not string %}{% for part in m.content %}{{ part['text'] | default('[' ~ part.type ~ ']') }}{% endfor %}
{%- else %}{{ m.content.split('</think>')[-1].lstrip('\\n').replace('a', 'b') }}{% endif %}
{%- if loop.index0 > ns.last and m.reasoning_content is defined %}<think>{{ m.reasoning_content | safe }}</think>{% endif %}
{%- endfor %}
"""


def chat_template_seeds():
    yield "chatml", CHATML.encode()
    yield "tools", TOOLS.encode()
    small = {
        "plain": "Hello {{ messages|length }}",
        "whitespace": "  {%- if true -%}  a  {%- endif +%}\n\n{#- c -#}\n{{+ 1 }}\n",
        "raise": "{{ raise_exception('roles must alternate') }}",
        "time": "{{ strftime_now('%Y-%m-%d %H:%M:%S %j %q %') }}",
        "arithmetic": "{{ 7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1 / 3 }} {{ 9223372036854775807 + 1 }} {{ 1e308 * 10 }}",
        "division_by_zero": "{{ 1 // 0 }}{{ 1 % 0 }}{{ 1 / 0 }}",
        "minimum": "{{ (-9223372036854775807 - 1) // -1 }}{{ (-9223372036854775807 - 1) % -1 }}{{ -(-9223372036854775807 - 1) }}",
        "comparison": "{{ 1 < 2 < 3 }} {{ 'a' in 'abc' }} {{ 'x' not in messages }} {{ none is none }} {{ not undefined_name }}",
        "slices": "{{ 'abcdef'[::-1] }} {{ messages[-1:][0].role }} {{ 'abc'[5:] }} {{ [1,2,3][::2] }} {{ 'a'[::0] }}",
        "filters": "{{ [3,1,2]|sort|join(', ') }} {{ 'a b'|title }} {{ messages|map(attribute='role')|list }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ {'b':1,'a':2}|dictsort }} {{ [1,1]|unique|list }} {{ 3.7|int }} {{ 'x'|default('y') }}",
        "methods": "{{ 'a,b'.split(',') }} {{ ' a '.strip() }} {{ {'a': 1}.items()|list }} {{ {'a': 1}.get('b', 2) }} {{ 'abc'.startswith('a') }} {{ 'A'.lower() }}",
        "loop": "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ loop.index }}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{% endfor %}",
        "recursive_loop": "{% for m in [[1, [2, [3]]]] recursive %}{{ loop.depth }}{% if m is iterable %}{{ loop(m) }}{% endif %}{% endfor %}",
        "macro_recursion": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "macro_arguments": "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, c=3) }}{{ f(1, 2, 3, 4) }}",
        "call_block": "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{% endcall %}",
        "filter_block": "{% filter upper %}abc{% endfilter %}{% generation %}g{% endgeneration %}",
        "set_block": "{% set x %}a{{ 1 }}b{% endset %}{{ x }}{% set a, b = [1, 2] %}{{ a + b }}",
        "namespace": "{% set ns = namespace(x=1) %}{% for i in range(3) %}{% set ns.x = ns.x * 2 %}{% endfor %}{{ ns.x }}",
        "endless": "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
        "range_huge": "{{ range(9223372036854775807)|list }}",
        "doubling": "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s|length }}",
        "repeat": "{{ 'a' * 9999999999 }}{{ [1] * 9999999999 }}",
        "parentheses": "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
        "brackets": "{{ " + "[" * 300 + "]" * 300 + " }}",
        "unary": "{{ " + "not " * 300 + "1 }}",
        "minus": "{{ " + "- " * 300 + "1 }}",
        "nested_if": "{% if 1 %}" * 300 + "{% endif %}" * 300,
        "chain": "{{ messages" + "|list" * 300 + " }}",
        "sandbox": "{{ messages.append(1) }}{{ ''.__class__.__mro__ }}{{ self }}{{ cycler.__init__.__globals__ }}",
        "strings": "{{ 'a\\n\\t\\'\\u00e9\\x41' ~ \"q\" }}{{ 'a' 'b' }}{% raw %}{{ x }}{% endraw %}",
        "ternary": "{{ 'a' if false }}{{ 'a' if true else 'b' if 1 else 'c' }}",
        "tests": "{{ 1 is number }}{{ 'a' is string }}{{ [] is sequence }}{{ {} is mapping }}{{ 1 is odd }}{{ 1 is divisibleby(0) }}{{ x is undefined }}",
        "tojson": "{{ {'a': [1.5, none, true, '<é>\"']}|tojson }}{{ [1,[2]]|tojson(indent=4) }}{{ 'x'|tojson(ensure_ascii=true) }}",
        "unclosed_block": "{% if 1 %}a", "unclosed_expression": "{{ 1", "unclosed_comment": "{# a", "unclosed_string": "{{ 'a",
        "wrong_end": "{% for a in b %}{% endif %}", "unknown_tag": "{% include 'x' %}", "unknown_filter": "{{ 1|nothing }}",
        "bad_slice": "{{ 'a'[1:2:3:4] }}", "keyword_name": "{% set true = 1 %}{{ for }}", "empty": "", "nul": "a\0{{ 'b\0' }}"}
    for name, source in small.items():
        yield name, source.encode()
    yield "bad_utf8", b"{{ '\xff\xc3' | upper | length }}\x80"


# --- stop strings -----------------------------------------------------------------------------------------------------

def stop_seeds():
    def seed(sizes, stops, sample):
        return bytes(sizes) + b"\n" + b"\x1f".join(stops) + b"\n" + sample

    yield "across_parts", seed([0], [b"</s>"], b"Hello</s> world")
    yield "none", seed([2, 0], [b"STOP"], b"Hello STO P STO")
    yield "whole", seed([15], [b"abc"], b"abc")
    yield "overlapping", seed([0, 1], [b"abcdX", b"bc"], b"zabcdXbc")
    yield "inner_first", seed([0], [b"abcdX", b"bc"], b"zabcdY")
    yield "prefix", seed([3], [b"ab", b"abc"], b"xabc")
    yield "periodic", seed([0, 5], [b"aabaaab", b"aaa"], b"aabaabaaab")
    yield "multibyte", seed([0], ["\u00e9".encode(), b"\xa9x"], "caf\u00e9 \u00e9".encode())
    yield "empty_stop", seed([1], [b"", b"x", b""], b"axb")
    yield "no_stops", seed([1], [], b"text\nwith lines")
    yield "at_the_end", seed([7], [b"end"], b"the end")
    yield "unfinished_at_the_end", seed([0], [b"abcab", b"cab!"], b"abca")


# --- answers of chat models -------------------------------------------------------------------------------------------

def answer_seeds():
    """The texts of tests/data/answers/vectors.jsonl whose format the target knows: of each format the first three."""
    source = (CORPUS.parent / "answer_fuzz.cc").read_text()
    forms, reasoning = (re.findall(r'"(\w+)"', source.split(f"{name}[] = {{")[1].split("};")[0]) for name in ("kForms", "kReasoning"))
    seen = {}
    for line in (CORPUS.parents[1] / "tests/data/answers/vectors.jsonl").read_text().splitlines():
        row = json.loads(line)
        form, thinks = row.get("calls", [None])[0], row.get("reasoning")
        if form not in forms or thinks not in (None, *reasoning) or seen.get(form, 0) == 3:
            continue
        seen[form] = seen.get(form, 0) + 1
        options = (1 | reasoning.index(thinks) << 4 | 8 * ("prompt" in row) if thinks else 0)
        yield f"{form}_{seen[form]}", bytes([forms.index(form), options, 4, 1, 15]) + b"\n" + row["text"].encode()


# --- configs ----------------------------------------------------------------------------------------------------------

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 384,
         "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": False, "eos_token_id": 2}
MOE = {**LLAMA, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8,
       "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True, "decoder_sparse_step": 1,
       "mlp_only_layers": [0]}


def config_json_seeds():
    def dump(config, **changes):
        return json.dumps({**config, **changes}).encode()

    yield "llama", dump(LLAMA)
    yield "qwen3", dump(LLAMA, model_type="qwen3", architectures=["Qwen3ForCausalLM"])
    yield "qwen3_moe", dump(MOE)
    yield "qwen2_moe", dump(MOE, model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], shared_expert_intermediate_size=64)
    yield "olmoe", dump(MOE, model_type="olmoe", architectures=["OlmoeForCausalLM"], clip_qkv=8.0)
    yield "mixtral", dump(LLAMA, model_type="mixtral", architectures=["MixtralForCausalLM"], num_local_experts=8,
                          num_experts_per_tok=2, sliding_window=None)
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}
    yield "rope_llama3", dump(LLAMA, rope_scaling=rope)
    yield "rope_yarn", dump(LLAMA, rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128})
    yield "rope_linear", dump(LLAMA, rope_scaling={"type": "linear", "factor": 0})
    yield "rope_parameters", dump(LLAMA, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    yield "rope_odd", dump(LLAMA, rope_theta=-1, rope_scaling=[1], partial_rotary_factor=1e300)
    yield "contradiction", dump(LLAMA, architectures=["MixtralForCausalLM"])
    yield "unknown_family", dump(LLAMA, model_type="llma", architectures=["LlmaForCausalLM"])
    yield "quantised", dump(LLAMA, quantization_config={"quant_method": "gptq", "bits": 4})
    for name, changes in {"zero_heads": {"num_attention_heads": 0}, "negative": {"hidden_size": -64},
                          "huge": {"num_hidden_layers": 1 << 30, "hidden_size": 1 << 30}, "beyond": {"hidden_size": 1 << 62},
                          "text": {"hidden_size": "64"}, "infinite": {"rms_norm_eps": float("inf")},
                          "fraction": {"num_attention_heads": 2.5}, "null": {"head_dim": None, "hidden_size": None},
                          "heads_do_not_divide": {"num_attention_heads": 3, "head_dim": None}}.items():
        yield name, dump(LLAMA, **changes)
    yield "experts_odd", dump(MOE, num_experts=0, num_experts_per_tok=9, mlp_only_layers=[-1, 99, "a"], decoder_sparse_step=0)
    metadata = {"general.architecture": "qwen3moe", "general.file_type": 7, "qwen3moe.block_count": 2,
                "qwen3moe.context_length": 512, "qwen3moe.embedding_length": 64, "qwen3moe.feed_forward_length": 128,
                "qwen3moe.attention.head_count": 4, "qwen3moe.attention.head_count_kv": 2, "qwen3moe.rope.freq_base": 1e6,
                "qwen3moe.attention.layer_norm_rms_epsilon": 1e-6, "qwen3moe.attention.key_length": 16,
                "qwen3moe.attention.value_length": 16, "qwen3moe.expert_count": 8, "qwen3moe.expert_used_count": 2,
                "qwen3moe.expert_feed_forward_length": 32, "tokenizer.ggml.tokens": ["a", "b"]}
    yield "gguf_qwen3moe", dump(metadata)
    yield "gguf_llama", dump({k.replace("qwen3moe", "llama"): v for k, v in metadata.items()}, **{"general.architecture": "llama"})
    yield "gguf_types", dump({**metadata, "qwen3moe.block_count": "2", "qwen3moe.attention.head_count": [4, 4]})
    yield "gguf_unknown", dump({"general.architecture": "nothing"})
    yield "no_object", b"[]"


# --- quantisation -----------------------------------------------------------------------------------------------------

def quantisation_seeds():
    compressed = {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed"}
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
    seeds = {
        "fp8": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "modules_to_not_convert": None},
        "fp8_tile": {"quant_method": "fp8", "weight_block_size": [128, 0]},
        "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
        "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True},
        "gptq": {"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": True, "checkpoint_format": "gptq_v2",
                 "dynamic": {"-:gate": {}}},
        "auto_round": {"quant_method": "auto-round", "packing_format": "auto_round:auto_awq", "group_size": 64},
        "modelopt": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16},
        "bitsandbytes": {"quant_method": "bitsandbytes", "load_in_4bit": True},
        "compressed": {**compressed, "config_groups": {"g": {"targets": ["Linear"], "weights": weights}}},
        "mixed": {**compressed, "format": "mixed-precision", "config_groups": {
            "a": {"format": "nvfp4-pack-quantized", "weights": {**weights, "type": "float", "strategy": "tensor_group"}},
            "b": {"format": "int-quantized", "weights": {**weights, "num_bits": 8, "actorder": "group"}},
            "c": {"format": "float-quantized", "weights": {"num_bits": 8, "type": "float", "strategy": "block"}}}},
        "bits": {**compressed, "config_groups": {"g": {"weights": {**weights, "num_bits": 1 << 40}}}},
        "no_object": [1],
    }
    for name, config in seeds.items():
        yield name, json.dumps(config).encode()


# --- blocks -----------------------------------------------------------------------------------------------------------

def blocks_seeds():
    for dtype in (1, 2, 3, *range(22, 48)):  # the numbers of DType
        yield f"type{dtype:02}", bytes([dtype]) + bytes((73 * i * i + 41 * i + dtype) % 251 for i in range(600))
    yield "zeros", bytes(300)
    yield "ones", b"\xff" * 300


# --- prefix files: heads without their last eight bytes, the checksum, which the target adds -------------------------------

def prefix_file_seeds():
    def head(version=1, flags=0, positions=64, tokens=128, key=3, block=24576, state=0):
        return (b"COLIPFIX" + u32(version) + u32(flags) + u64(7) + u64(8) + u64(9) + u64(10) + u32(positions) + u32(tokens) + u32(1) + u32(key) +
                u64(block) + u64(state) + u64(11) + u64(12))

    yield "plain", head()
    yield "long_with_state", head(flags=1, state=960)
    yield "with_checksum", head() + u64(13)
    yield "no_magic", b"COLIHEAT" + head()[8:]
    yield "cut_off", head()[:40]
    yield "later_version", head(version=2)
    yield "unknown_flag", head(flags=2)
    yield "no_positions", head(positions=0)
    yield "no_tokens", head(tokens=0)
    yield "part_of_a_block", head(tokens=65)
    yield "tokens_huge", head(positions=1, tokens=(1 << 26) + 1)
    yield "key_long", head(key=129)
    yield "sizes_wrap", head(block=(1 << 64) - 1, state=(1 << 64) - 1)


# --- constraint -------------------------------------------------------------------------------------------------------

def constraint_seeds():
    schema = lambda s: {"schema": s}
    documents = {
        "json": {"json": True}, "object": {"json_object": True}, "text": {"text": True},
        "reasoning": {"sequence": [{"until": "</think>"}, {"optional": {"literal": "\n\n"}}, {"json_object": True}]},
        "calls": {"repeat": {"sequence": [{"literal": "<call>"}, {"choice": [schema({"const": 1}), {"literal": "ab"}]}]}, "min": 1, "max": 3,
                  "separator": "\n"},
        "scalars": schema({"type": "object", "properties": {
            "s": {"type": "string", "minLength": 1, "maxLength": 4}, "p": {"type": "string", "pattern": "^(a|[^b-y]\\d)+z?$", "maxLength": 9},
            "d": {"type": "string", "format": "date-time"}, "i": {"type": "integer", "minimum": -12, "exclusiveMaximum": 130},
            "n": {"type": ["number", "null"], "minimum": 0, "maximum": 1}, "e": {"enum": ["a", "ab", 1.5, {"x": [None]}]}}, "required": ["s"]}),
        "containers": schema({"type": "array", "prefixItems": [{"type": "boolean"}], "items": {"type": "object", "properties": {"a": {}},
                              "additionalProperties": {"type": "integer"}}, "minItems": 1, "maxItems": 5}),
        "tree": schema({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {
            "v": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v"]}}}),
        "all_of": schema({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 3}}}],
                          "anyOf": [{"required": ["a"]}, {"properties": {"b": {"const": "x"}}}]}),
        "endless": schema({"anyOf": [{"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"type": "null"}]}]}),
    }
    choices = bytes((91 * i * i + 37 * i) % 256 for i in range(150)).replace(b"\n", b"x")
    for name, document in documents.items():
        yield name, json.dumps(document).encode() + b"\n" + choices


# --- request ----------------------------------------------------------------------------------------------------------

def request_seeds():
    user = {"role": "user", "content": "Hi"}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    schema = {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": {"type": "object"}}}
    bodies = {
        "chat": {"model": "m", "messages": [{"role": "system", "content": "Be"}, user]},
        "chat_parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]}]},
        "chat_options": {"messages": [user], "n": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": 7, "stop": ["a", ""],
                         "logit_bias": {"12": -100, "x": 1}, "logprobs": True, "top_logprobs": 5, "stream": True, "stream_options": {"include_usage": True},
                         "max_tokens": 5, "max_completion_tokens": 4, "presence_penalty": 2, "frequency_penalty": -2, "user": "u", "cache_salt": "s"},
        "chat_tools": {"messages": [user, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "2"}],
                       "tools": [tool], "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": False},
        "chat_schema": {"messages": [user], "response_format": schema, "reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
        "completion": {"prompt": ["a", "b"], "echo": True, "logprobs": 3, "max_tokens": 0, "suffix": None},
        "completion_ids": {"prompt": [[1, 2], [3]], "best_of": 1, "ignore_eos": True, "json_schema": {"type": "array"}},
        "messages": {"max_tokens": 9, "system": [{"type": "text", "text": "Be", "cache_control": {"type": "ephemeral"}}], "messages": [user, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "t", "signature": ""}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "2"}], "is_error": True}]}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "thinking": {"type": "enabled", "budget_tokens": 1024}, "stop_sequences": ["x"], "metadata": {"user_id": "u"}},
        "responses": {"input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be"}]}, {"type": "function_call", "call_id": "c", "name": "f",
                      "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "2"}], "instructions": "i", "text": {"format": {"type": "json_object"}},
                      "reasoning": {"effort": "low"}, "tools": [{"type": "function", "name": "f", "parameters": {}}], "max_output_tokens": 3},
        "responses_text": {"input": "Hi", "store": True, "previous_response_id": "r"},
        "wrong_types": {"messages": {}, "prompt": 1.5, "input": None, "max_tokens": "9", "n": -1, "stop": 3, "temperature": "hot", "tools": [1], "logit_bias": []},
        "huge_numbers": {"messages": [user], "max_tokens": 1 << 63, "seed": -1 << 63, "top_k": 1e300, "temperature": -1e-300, "logit_bias": {"99999999999": 1e308}},
    }
    for name, body in bodies.items():
        yield name, json.dumps(body).encode()
    yield "no_object", b"[]"
    yield "deep", b'{"messages": ' + b"[" * 200 + b"]" * 200 + b"}"
    yield "bad_utf8", b'{"prompt": "\xff"}'


TARGETS = {"blocks": blocks_seeds, "json": json_seeds, "safetensors": safetensors_seeds, "gguf": gguf_seeds, "tokenizer_json": tokenizer_json_seeds,
           "gguf_vocabulary": gguf_vocabulary_seeds, "sentencepiece": sentencepiece_seeds,
           "tiktoken": tiktoken_seeds, "tekken": tekken_seeds, "chat_template": chat_template_seeds, "stop": stop_seeds, "constraint": constraint_seeds, "answer": answer_seeds,
           "config_json": config_json_seeds, "quantisation": quantisation_seeds, "prefix_file": prefix_file_seeds, "request": request_seeds}

if __name__ == "__main__":
    for target, seeds in TARGETS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (folder / name).write_bytes(data)
        print(f"{target}: {len(list(folder.iterdir()))} files")
