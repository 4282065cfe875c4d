#!/usr/bin/env python3
"""Trains tiny tokenizers in the formats beside tokenizer.json: tests/data/tokenizer_files.

    python tools/make_tokenizer_files.py --out tests/data/tokenizer_files

Each NAME/ holds one file, in the format and with the features of published ones, and vectors.jsonl with what its own
library makes of many texts: text, ids, and decoded where that is not the text. SentencePiece models come from
`sentencepiece`, the ranks of tiktoken and tekken files from a BPE trained by `tokenizers`, their ids from `tiktoken`.
unigram_json/tokenizer.json is unigram/tokenizer.model as transformers would convert it; its ids are those of `tokenizers`.
Needs: pip install sentencepiece protobuf tokenizers tiktoken.
"""
import argparse
import base64
import json
import pathlib
import random
import tempfile

import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from make_tokenizer_data import KIMI, TEXTS, split

MORE = [
    "a<sep>b", "<sep>", " <sep> <sep>  x", "one<sep><sep>two", "x<sep", "▁<sep>▁", "tab\tx\u00a0y", "ﬁne ﬂow ① ㍿ ½", "  both  ends  ",
    "e\u0301 e\u0301\u0302 \u0301", "\r\n\r\n", "ＡＢＣ ｱｲｳ", "user defined: \n\n and ▁▁▁", "<0x41><s></s><unk>", "\u200b\u2028\ufeffx", "ÅÅÅ éé e\u0301e",
]
# Rules of a small charsmap: with characters that vanish, become blanks, or become several.
RULES = {"\t": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufb01": "fi", "\ufb02": "fl", "\u2460": "1", "\u00bd": "1/2", "\uff21": "A",
         "\uff22": "B", "e\u0301": "\u00e9", "A\u030a": "\u00c5", "e\u0301\u0302": "\u1ebf", "\r": " ", "\u2026": "...", "\u337f": "ab cd"}

SPM = {
    "bpe": dict(model_type="bpe", vocab_size=620, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                user_defined_symbols=["<sep>", "\n\n", "▁▁▁", "x▁y"], control_symbols=["[INST]", "[/INST]"], split_digits=True,
                allow_whitespace_only_pieces=True),
    "bpe_normalized": dict(model_type="bpe", vocab_size=400, rules=True, treat_whitespace_as_suffix=True, user_defined_symbols=["<sep>"]),
    "unigram": dict(model_type="unigram", vocab_size=400, rules=True, user_defined_symbols=["<sep>"], pad_id=3),
    "unigram_bytes": dict(model_type="unigram", vocab_size=560, byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
                          remove_extra_whitespaces=False),
}


def sentences(seed):
    rng = random.Random(seed)
    words = [w for t in TEXTS for w in t.split() if len(w) < 12]
    plain = [t.replace("\0", "") for t in TEXTS if 0 < len(t) < 200]
    return plain * 3 + [" ".join(rng.choice(words) for _ in range(rng.randrange(3, 12))) for _ in range(400)]


def train_spm(options, folder):
    options = dict(options)
    if options.pop("rules", False):
        lines = ["".join(f"{ord(c):X} " for c in k).strip() + "\t" + "".join(f"{ord(c):X} " for c in v).strip() for k, v in RULES.items()]
        path = folder / "rules.tsv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options["normalization_rule_tsv"] = str(path)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(1)), model_prefix=str(folder / "m"), num_threads=1, character_coverage=0.98,
        hard_vocab_limit=False, minloglevel=2, max_sentencepiece_length=12, **options)
    model = sentencepiece_model_pb2.ModelProto.FromString((folder / "m.model").read_bytes())
    model.trainer_spec.model_prefix = "m"
    model.normalizer_spec.normalization_rule_tsv = ""
    return model.SerializeToString(deterministic=True)


def spm_vectors(processor):
    for text in TEXTS + MORE:
        ids = processor.encode(text)
        line = {"text": text, "ids": ids}
        # The library decodes the unknown token as " ⁇ ", transformers as its spelling: not compared.
        if processor.unk_id() not in ids and processor.decode(ids) != text:
            line["decoded"] = processor.decode(ids)
        elif processor.unk_id() in ids:
            line["decoded"] = None
        yield line


def unigram_json(model):
    """What transformers' converter makes of a Unigram model."""
    normalizer = model.normalizer_spec
    return {
        "version": "1.0", "added_tokens": [
            {"id": i, "content": p.piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": p.type != 4}
            for i, p in enumerate(model.pieces) if p.type in (2, 3, 4)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(normalizer.precompiled_charsmap).decode()},
            {"type": "Strip", "strip_left": False, "strip_right": True}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [[p.piece, p.score] for p in model.pieces], "byte_fallback": False}}


def json_vectors(tokenizer):
    for text in TEXTS + MORE:
        encoded = tokenizer.encode(text, add_special_tokens=False).ids
        line = {"text": text, "ids": encoded, "ids_special": tokenizer.encode(text).ids, "decoded": tokenizer.decode(encoded, skip_special_tokens=False)}
        yield {k: v for k, v in line.items() if k != "decoded" or v != text}


def train_ranks(pattern, n_merges):
    """The byte strings of a byte-level BPE, in the order of their ranks."""
    empty = json.loads(Tokenizer(models.BPE()).to_str())
    parts = {"type": "Sequence", "pretokenizers": [split(pattern), {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = Tokenizer.from_str(json.dumps({**empty, "pre_tokenizer": parts})).pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=256 + n_merges, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(sentences(2), trainer)
    letters = {c: b for b, c in byte_letters().items()}
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [bytes([b]) for b in range(256)] + [bytes(letters[c] for c in a + b) for a, b in merges]


def byte_letters():
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in prints]
    return {**{b: chr(b) for b in prints}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def tiktoken_vectors(encoding, texts, offset=0):
    for text in texts:
        ids = encoding.encode(text, allowed_special="all")
        yield {"text": text, "ids": [i + offset for i in ids]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()

    def write(name, files, vectors):
        folder = args.out / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in files.items():
            (folder / file).write_bytes(data if isinstance(data, bytes) else (json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
        with open(folder / "vectors.jsonl", "w", encoding="utf-8", newline="\n") as out:
            for line in vectors:
                out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    for name, options in SPM.items():
        with tempfile.TemporaryDirectory() as temporary:
            model = train_spm(options, pathlib.Path(temporary))
        write(name, {"tokenizer.model": model}, spm_vectors(sentencepiece.SentencePieceProcessor(model_proto=model)))
        if name == "unigram":
            converted = unigram_json(sentencepiece_model_pb2.ModelProto.FromString(model))
            write("unigram_json", {"tokenizer.json": converted}, json_vectors(Tokenizer.from_str(json.dumps(converted))))

    ranks = train_ranks(KIMI, 300)
    special = {"[BOS]": len(ranks), "[EOS]": len(ranks) + 1, "<|im_end|>": len(ranks) + 2}
    encoding = tiktoken.Encoding("tiny", pat_str=KIMI, mergeable_ranks={b: i for i, b in enumerate(ranks)},
                                 special_tokens={**special, **{f"<|reserved_token_{i}|>": i for i in range(len(ranks) + 3, len(ranks) + 256)}})
    config = {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
              "added_tokens_decoder": {str(i): {"content": t, "special": True, "normalized": False} for t, i in special.items()}}
    lines = "".join(f"{base64.b64encode(b).decode()} {i}\n" for i, b in enumerate(ranks))
    texts = TEXTS + ["[BOS]Hi<|im_end|>", "a<|reserved_token_600|>b", "<|reserved_token_5|>"]
    write("tiktoken", {"tiktoken.model": lines.encode(), "tokenizer_config.json": config}, tiktoken_vectors(encoding, texts))

    pattern = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    ranks = train_ranks(pattern, 300)
    used = len(ranks) - 20  # the file holds more than the tokenizer uses
    n_special = 12
    encoding = tiktoken.Encoding("tiny", pat_str=pattern, mergeable_ranks={b: i for i, b in enumerate(ranks[:used])}, special_tokens={})
    tekken = {"config": {"pattern": pattern, "num_vocab_tokens": len(ranks), "default_vocab_size": used + n_special,
                         "default_num_special_tokens": n_special, "version": "v3"},
              "vocab": [{"rank": i, "token_bytes": base64.b64encode(b).decode(), "token_str": None} for i, b in enumerate(ranks)]}
    write("tekken", {"tekken.json": tekken}, tiktoken_vectors(encoding, TEXTS, n_special))


if __name__ == "__main__":
    main()
