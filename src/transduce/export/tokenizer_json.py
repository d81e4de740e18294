"""A tokenizer as Hugging Face's `tokenizer.json`, which transformers.js and `tokenizers` read.

BPE is over the whole line, with a merge for every way to split a piece into two; a character model
has none. In a unigram model the names of control pieces, which are text to ours, get the lowest
score.
"""

import base64
from collections.abc import Mapping, Sequence

from transduce.data.pair_tokenizer import SOURCE, PairTokenizer
from transduce.data.sentencepiece_model import (
    NORMAL,
    SegmentationOptions,
    VocabularyPiece,
    read_model_type,
    read_options,
    read_pieces,
)
from transduce.data.tokenizer import EOS, UNK, Tokenizer

_ABSENT = -1e6  # score of what the source's model does not produce

_Json = dict[str, object]


def tokenizer_json(tokenizer: Tokenizer, names: Sequence[str]) -> _Json:
    """Return the content of tokenizer.json, for the source side, with the pieces by id (`names`).

    Raises:
        ValueError: if the file cannot express the tokenizer.
    """
    if not tokenizer.shared:
        raise ValueError("tokenizer.json has no separate vocabularies (tokenizer.shared = false)")
    pair = isinstance(tokenizer, PairTokenizer)
    model = tokenizer.files()[SOURCE] if pair else tokenizer.to_bytes()
    options = read_options(model)
    pieces = [piece for piece in read_pieces(model) if piece.type == NORMAL]
    ids = {name: number for number, name in enumerate(names)}
    kind = read_model_type(model)
    if kind == "word":
        raise ValueError("tokenizer.json has no vocabulary of words as ours (tokenizer.kind)")
    eos = names[EOS]
    tags = [name for name in names if name.startswith(">>") and name.endswith("<<")]
    normalizers = _normalizers(options, lower_case=tokenizer.lower_case and not pair)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            *(_token(ids[name], name, special=True) for name in (eos, names[UNK], names[-1])),
            *(_token(ids[tag], tag, special=False) for tag in tags),
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": eos, "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
            ],
            "special_tokens": {eos: {"id": eos, "ids": [EOS], "tokens": [eos]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": (_unigram if kind == "unigram" else _bpe)(pieces, ids)
        | {"byte_fallback": options.byte_fallback},
    }


def _token(id: int, name: str, *, special: bool) -> _Json:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": name, "special": special, **flags}


def _normalizers(options: SegmentationOptions, *, lower_case: bool) -> list[_Json]:
    """Return the steps of the model's normalisation.

    Args:
        options: of the model.
        lower_case: whether its charsmap, which transformers.js ignores, only lower-cases.
    """
    normalizers: list[_Json] = []
    if lower_case:  # the Σ at the end of a word too, which JavaScript would make ς
        normalizers.append({"type": "Replace", "pattern": {"String": "Σ"}, "content": "σ"})
        normalizers.append({"type": "Lowercase"})
    elif options.charsmap:
        charsmap = base64.b64encode(options.charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if options.remove_extra_whitespaces:
        normalizers.append({"type": "Strip", "strip_left": True, "strip_right": True})
        normalizers.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if options.add_dummy_prefix:
        normalizers.append({"type": "Prepend", "prepend": "▁"})
    return [*normalizers, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]


def _bpe(pieces: Sequence[VocabularyPiece], ids: Mapping[str, int]) -> _Json:
    known = {piece.text for piece in pieces}
    merges = [
        [text[:end], text[end:]]
        for text, _, _ in sorted(pieces, key=lambda piece: -piece.score)
        for end in range(1, len(text))
        if text[:end] in known and text[end:] in known and text in ids
    ]
    unk = next(name for name, id in ids.items() if id == UNK)
    return {"type": "BPE", "vocab": dict(ids), "merges": merges, "unk_token": unk, "fuse_unk": True}


def _unigram(pieces: Sequence[VocabularyPiece], ids: Mapping[str, int]) -> _Json:
    scores = {piece.text: piece.score for piece in pieces}
    vocabulary = [[name, scores.get(name, _ABSENT)] for name in ids]
    return {"type": "Unigram", "vocab": vocabulary, "unk_id": UNK}
