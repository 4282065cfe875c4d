#!/usr/bin/env python3
"""Trains tiny tokenizers and writes what Hugging Face `tokenizers` makes of many texts: tests/data/tokenizers.

    python tools/make_tokenizer_data.py --corpus DIR_OF_TXT --out tests/data/tokenizers

Each NAME/tokenizer.json has the components of a published family, with a vocabulary of a few hundred ids trained here.
NAME/vectors.jsonl, one object per line: text, ids, ids_special (post-processor applied), ids_plain (special tokens in
the text taken as text), decoded, decoded_skip. To keep the files small, ids_special and ids_plain are left out when
they equal ids, decoded when it equals text, decoded_skip when it equals decoded. Lines without text hold random ids and
test decoding only.
Needs: pip install tokenizers.
"""
import argparse
import json
import pathlib
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + BLANKS
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + BLANKS
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS + "?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS + "?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + BLANKS)
# With set operations, which have to be translated.
KIMI = (
    r"[\p{Han}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    + CONTRACTIONS + "?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    + CONTRACTIONS + "?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + BLANKS)
DEEPSEEK = [
    r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "\n", "\r\n", "\t\t", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
    "I'm sure they've said it's ours; WE'LL see, DON'T we? it'S the ſ: he'ſ", "'s 't 're", "1 22 333 4444 55555 1234567890",
    "3.14159, 1e-10, 0xFF, ٣٤٥, ½ ² ⅷ", "x = [i**2 for i in range(10) if i % 2 == 0]\n\n\tprint(f\"{x!r}\")\n",
    "int main(void) {\r\n    return 0;  // done\r\n}\r\n", "camelCaseWords HTTPServer iPhone XMLHttpRequest's ΑΒγδ Ǆword",
    "    four\n        eight\n            twelve", "trailing spaces   \n   \n\n  leading", "a  b   c    d     e",
    "tabs\there\t\tand\t there \t ", "non\u00a0breaking\u2003em\u3000ideographic\u180emongolian\u200bzero\u0085next",
    "Größe Äpfel Öl naïve café déjà-vu Ærø Łódź İstanbul ẞ", "cafe\u0301 nai\u0308ve A\u030a \u1100\u1161\u11a8 \u0f71\u0f72 q\u0307\u0323",
    "Привет, мир! Быстрая коричневая лиса.", "Καλημέρα κόσμε, ΐ ς Σ", "مرحبا بالعالم، كيف حالك؟", "שלום עולם",
    "नमस्ते दुनिया, क्षत्रिय", "สวัสดีชาวโลก", "你好，世界！今天天气很好。", "漢字とひらがなとカタカナ、ﾊﾝｶｸ。", "안녕하세요 세계 한국어",
    "mixed 中文 and English中文混排 123中文456", "😀 😃😄 👍🏽 👩‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️ 🏳️‍🌈", "𝒳𝔜 𠀀𠀁 🀄 \U0010ffff", "Ⓐ Ⓑ ﬁ ﬂ ① ㍿ ™ №",
    "price: $5.00, €7, £9, ¥100, 50%", "https://example.com/path?q=1&r=2#frag user@example.org", "C:\\dir\\file.txt ~/a_b-c.d",
    "!!! ??? ... --- *** ### @@@ &&& === +++", "(a)[b]{c}<d>\"e\"'f'`g`", "under_score __init__ _x_ x_1",
    "line1\n\nline2\n\n\nline3\n\n\n\n\nline8", "\n\n\n \n \n", "a\u0300\u0301\u0302 \u0300alone", "\u200d\u200c\ufe0f", "\x00\x01\x1f\x7f\u0080",
    "The\u2019s \u201cquoted\u201d \u2014 dash\u2026", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababababababababababababababababababababababababababababababababababababababababababababababab",
    "                                                                                                 x",
    "==================================================================================", "7" * 70, "中" * 60, "é" * 60, "\U0001f600" * 20,
    "<0x41><0x0A><0xZZ><0x-1>", "▁▁under▁mark ▁ ▁▁▁ >▁<", "Ġletters Ċ of the byte alphabet ĠĠ",
    "once upon a time there was a little bird who could not fly", "She said: \"It is I, and my name's Ann-Marie O'Neil.\"",
    "if(a<b&&c>d||e!=f){g++;h--;}", "SELECT * FROM t WHERE a='x' AND b IS NOT NULL;",
]
SPECIAL = ["<|begin|>", "<|end|>"]
WITH_SPECIAL = [
    "{0}", "{0}{1}", "{0}user\nHello{1}\n", "a{0}b", " {0} ", "  {1}  x", "{0}{0}{0}", "text {1} more text {0}end", "{0", "|begin|> <|begin",
    "<think>\nhm</think> answer", "<tool>x</tool>", "word<think>word", "<thinking> <think", "中{0}文", "\n{0}\n\n{1}\n", "<think> <think>  <think>",
]

byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def template(before, after=()):
    item = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    return lambda ids: {
        "type": "TemplateProcessing", "single": [*map(item, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(item, after)],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in {*before, *after}}}


def added(content, special=False, normalized=False, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized,
            "special": special, **flags}


DEFAULT_ADDED = [added(t, special=True) for t in SPECIAL] + [added("<think>"), added("</think>")]

# name -> components; "train_with" is the pre-tokenizer of the training, where it is not the final one.
FAMILIES = {
    "qwen": dict(normalizer={"type": "NFC"}, pre_tokenizer=sequence(split(QWEN), byte_level), decoder=byte_level,
                 post=lambda ids: byte_level, bytes=True),
    "llama3": dict(pre_tokenizer=sequence(split(LLAMA3), byte_level), decoder=byte_level, bytes=True, ignore_merges=True,
                   post=lambda ids: {"type": "Sequence", "processors": [byte_level, template(["<|begin|>"])(ids)]},
                   merges_as_text=True),
    "o200k": dict(pre_tokenizer=sequence(split(O200K), byte_level), decoder=byte_level, bytes=True, ignore_merges=True),
    "kimi": dict(pre_tokenizer=sequence(split(KIMI), byte_level), decoder=byte_level, bytes=True),
    "deepseek": dict(normalizer={"type": "Sequence", "normalizers": []},
                     pre_tokenizer=sequence(*map(split, DEEPSEEK), byte_level), decoder=byte_level, bytes=True,
                     added=[added(t, special=True) for t in SPECIAL] + [added("<think>", normalized=True), added("</think>", normalized=True)]),
    "starcoder": dict(pre_tokenizer=sequence({"type": "Digits", "individual_digits": True},
                                             {**byte_level, "add_prefix_space": True, "use_regex": True}),
                      decoder=byte_level, bytes=True),
    "gemma": dict(normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                  pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                  train_with=split("▁+[^▁]*|[^▁]+"), fallback=True, post=template(["<|begin|>"]),
                  decoder={"type": "Sequence", "decoders": [
                      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
                  added=DEFAULT_ADDED + [added("\n\n"), added("\n\n\n"), added("▁▁"), added("  ")]),
    "mistral": dict(normalizer={"type": "Sequence", "normalizers": [
                        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
                    pre_tokenizer=None, train_with=split("▁+[^▁]*|[^▁]+"), fallback=True,
                    post=template(["<|begin|>"], ["<|end|>"]),
                    decoder={"type": "Sequence", "decoders": [
                        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
    "metaspace": dict(normalizer={"type": "Sequence", "normalizers": [
                          {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"},
                          {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
                          {"type": "Strip", "strip_left": False, "strip_right": True}]},
                      pre_tokenizer=sequence({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
                                             {"type": "Punctuation", "behavior": "Isolated"}),
                      decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}, unknown=True,
                      added=[added("<|begin|>", special=True, lstrip=True), added("<|end|>", special=True, rstrip=True),
                             added("<think>", normalized=True, rstrip=True), added("word", single_word=True), added("</think>")]),
}


def train(family, texts, vocab_size):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>" if family.get("fallback") or family.get("unknown") else None))
    if family.get("normalizer"):
        empty = json.loads(Tokenizer(models.BPE()).to_str())
        tokenizer.normalizer = Tokenizer.from_str(json.dumps({**empty, "normalizer": family["normalizer"]})).normalizer
    empty = json.loads(Tokenizer(models.BPE()).to_str())
    pre = family.get("train_with") or family["pre_tokenizer"]
    tokenizer.pre_tokenizer = Tokenizer.from_str(json.dumps({**empty, "pre_tokenizer": pre})).pre_tokenizer
    first = ["<unk>"] if family.get("fallback") or family.get("unknown") else []
    if family.get("fallback"):
        first += [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=first, show_progress=False, limit_alphabet=256 if family.get("bytes") else 150,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if family.get("bytes") else [], max_token_length=16)
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())["model"]


def build(family, texts):
    model = train(family, texts, 650 if family.get("bytes") else 750)
    model.update(dropout=None, fuse_unk=bool(family.get("fallback")), byte_fallback=bool(family.get("fallback")),
                 ignore_merges=bool(family.get("ignore_merges")))
    if family.get("merges_as_text"):
        model["merges"] = [" ".join(m) for m in model["merges"]]
    tokens, ids = [], {}
    next_id = len(model["vocab"])
    for token in family.get("added", DEFAULT_ADDED):
        if token["content"] not in model["vocab"]:
            ids[token["content"]], next_id = next_id, next_id + 1
        tokens.append({"id": ids.get(token["content"], model["vocab"].get(token["content"])), **token})
    post = family.get("post")
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(tokens, key=lambda t: t["id"]),
            "normalizer": family.get("normalizer"), "pre_tokenizer": family["pre_tokenizer"],
            "post_processor": post(ids) if post else None, "decoder": family["decoder"], "model": model}


def compact(line):
    drop = {"ids_special": "ids", "ids_plain": "ids", "decoded_skip": "decoded", "decoded": "text"}
    return {k: v for k, v in line.items() if k not in drop or v != line.get(drop[k])}


def vectors(tokenizer, texts, rng):
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        special = tokenizer.encode(text).ids
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        yield compact({"text": text, "ids": ids, "ids_special": special, "ids_plain": plain,
                       "decoded": tokenizer.decode(ids, skip_special_tokens=False), "decoded_skip": tokenizer.decode(ids)})
    n = tokenizer.get_vocab_size()
    for _ in range(30):
        ids = [rng.randrange(n) if rng.random() < 0.5 else rng.randrange(min(n, 300)) for _ in range(rng.randrange(1, 16))]
        yield compact({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                       "decoded_skip": tokenizer.decode(ids)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    corpus = [p.read_text(encoding="utf-8")[:20000] for p in sorted(args.corpus.glob("*.txt"))]
    texts = TEXTS + [t.replace("{0}", SPECIAL[0]).replace("{1}", SPECIAL[1]) for t in WITH_SPECIAL]
    for name, family in FAMILIES.items():
        rng = random.Random(args.seed)
        folder = args.out / name
        folder.mkdir(parents=True, exist_ok=True)
        definition = json.dumps(build(family, corpus + TEXTS * 3), ensure_ascii=False, separators=(",", ":"))
        (folder / "tokenizer.json").write_text(definition, encoding="utf-8")
        tokenizer = Tokenizer.from_str(definition)
        with open(folder / "vectors.jsonl", "w", encoding="utf-8", newline="\n") as out:
            for line in vectors(tokenizer, texts, rng):
                out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
