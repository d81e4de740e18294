"""SentencePiece model files read directly: their pieces, additional pieces, subword sampling.

A file is one protocol buffer message, `ModelProto`; reading other data is a ValueError. Patterns of
protected spans are a field of our own in it, which SentencePiece keeps and ignores.

The library can sample subwords, but since 0.2.2 its random numbers differ between processes
whatever the seed, so a resumed run would see other pieces than an uninterrupted one. Hence
`SubwordSampler`. Words are segmented independently, as pieces never cross a space.
"""

import json
import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal, NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # pyright: ignore[reportAttributeAccessIssue]

NORMAL: Final = 1
BYTE: Final = 6
"""The piece types that are text: a regular piece, and a byte of a character without a piece."""
UNUSED: Final = 5
"""The piece type that segmentation must avoid."""

_PROTECTED = 9000  # number of our field
ModelType = Literal["unigram", "bpe", "word", "char"]
_MODEL_TYPES: dict[int, ModelType] = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_DAMAGED = "the tokenizer model is damaged; copy or train it again"


class VocabularyPiece(NamedTuple):
    """A vocabulary entry; its id is its index in the file."""

    text: str
    """"▁" is a space."""
    score: float
    """BPE: higher scores merge first. Unigram: the log-probability."""
    type: int = NORMAL


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentationOptions:
    """Options of a model that decide how it segments and joins text; SentencePiece's defaults."""

    charsmap: bytes = b""
    """Compiled normalisation rules; empty for the identity."""
    add_dummy_prefix: bool = True
    """Put a space before each text."""
    remove_extra_whitespaces: bool = True
    """Remove spaces at the ends and repeated ones."""
    escape_whitespaces: bool = True
    """Write a space as "▁"."""
    whitespace_as_suffix: bool = False
    """Put the space after a word instead of before it."""
    byte_fallback: bool = False
    """Spell characters without a piece in bytes."""
    unknown_surface: str = " \u2047 "
    """What UNK is decoded to."""
    denormalizes: bool = False
    """Whether decoded text is changed by rules."""


def read_pieces(data: bytes) -> list[VocabularyPiece]:
    """Read the vocabulary of a SentencePiece model, in id order."""
    return [VocabularyPiece(entry.piece, entry.score, entry.type) for entry in _parse(data).pieces]


def read_model_type(data: bytes) -> ModelType:
    """Read the model type.

    Raises:
        ValueError: if it is none of SentencePiece's.
    """
    model_type = _parse(data).trainer_spec.model_type
    if model_type not in _MODEL_TYPES:
        raise ValueError(
            f"the tokenizer model is of type {model_type}, not unigram, BPE, word or char"
        )
    return _MODEL_TYPES[model_type]


def read_options(data: bytes) -> SegmentationOptions:
    """Read the options of segmentation."""
    model = _parse(data)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    return SegmentationOptions(
        charsmap=normalizer.precompiled_charsmap,
        add_dummy_prefix=normalizer.add_dummy_prefix,
        remove_extra_whitespaces=normalizer.remove_extra_whitespaces,
        escape_whitespaces=normalizer.escape_whitespaces,
        whitespace_as_suffix=trainer.treat_whitespace_as_suffix,
        byte_fallback=trainer.byte_fallback,
        unknown_surface=trainer.unk_surface,
        denormalizes=bool(model.denormalizer_spec.precompiled_charsmap),
    )


def append_pieces(data: bytes, pieces: Iterable[VocabularyPiece]) -> bytes:
    """Append pieces to a model; existing ids do not change."""
    model = _parse(data)
    for text, score, kind in pieces:
        # NORMAL is the format's default, which SentencePiece does not write.
        model.pieces.add(piece=text, score=score, type=kind if kind != NORMAL else None)
    return model.SerializeToString()


def read_protected(data: bytes) -> tuple[str, ...]:
    """Read the patterns that `with_protected` stored; none in other models."""
    stored = [f.data for f in UnknownFieldSet(_parse(data)) if f.field_number == _PROTECTED]
    try:
        patterns: object = json.loads(stored[-1]) if stored else []
    except (ValueError, TypeError, RecursionError):
        patterns = None
    if not isinstance(patterns, list):
        raise ValueError(_DAMAGED)
    return tuple(map(str, patterns))


def with_protected(data: bytes, patterns: Sequence[str]) -> bytes:
    """Store patterns of protected spans in a model file."""
    text = json.dumps(list(patterns)).encode()
    return data + _varint(_PROTECTED << 3 | 2) + _varint(len(text)) + text  # 2: bytes follow


def without_rule_file(data: bytes) -> bytes:
    """Forget the temporary file that normalisation rules were compiled from."""
    model = _parse(data)
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    return model.SerializeToString()


def without_prefix(data: bytes) -> bytes:
    """Disable the space that the model puts before a text, to encode word-internal strings."""
    model = _parse(data)
    model.normalizer_spec.add_dummy_prefix = False
    return model.SerializeToString()


def _parse(data: bytes) -> Any:
    try:
        return ModelProto.FromString(data)
    except DecodeError:
        raise ValueError(_DAMAGED) from None


def _varint(value: int) -> bytes:
    """Seven bits per byte, least significant first; the high bit means that more bytes follow."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


class SubwordSampler:
    """Samples segmentations of words, with the pieces and scores of one SentencePiece model."""

    def __init__(self, model: bytes, *, vocabulary: Container[str] | None = None) -> None:
        """Read a model file.

        Args:
            model: the file's content.
            vocabulary: pieces that may be sampled, where an imported model's table of ids lacks
                some of the file's; None means all.

        Raises:
            ValueError: if it is of none of SentencePiece's types.
        """
        self._segment = self._bpe if read_model_type(model) == "bpe" else self._unigram
        self._scores = {
            piece.text: piece.score
            for piece in read_pieces(model)
            if piece.type == NORMAL and (vocabulary is None or piece.text in vocabulary)
        }
        self._longest = max(map(len, self._scores), default=0)

    def sample(self, pieces: Sequence[str], *, alpha: float, rng: Random) -> list[str]:
        """Sample another segmentation of a sentence, which spells the same text.

        Args:
            pieces: the sentence's usual segmentation; a word with a piece that is not text
                (unknown, byte, control) keeps it.
            alpha: for BPE the probability of dropping each merge (Provilkov et al. 2020,
                algorithm 1); 0 gives the usual segmentation. For unigram the exponent on the
                probability of a segmentation (Kudo 2018); larger is closer to the usual one.
        """
        known = self._scores
        sampled: list[str] = []
        for word in _words(pieces):
            if all(piece in known for piece in word):
                segmentation = self._segment("".join(word), alpha, rng)
                if all(piece in known for piece in segmentation):  # else a character has no piece
                    word = segmentation
            sampled += word
        return sampled

    def _bpe(self, word: str, alpha: float, rng: Random) -> list[str]:
        """Merge from characters up, each time the best-ranked merge that is not dropped."""
        scores, parts = self._scores, list(word)
        while True:
            merges = sorted(
                (-score, index)
                for index in range(len(parts) - 1)
                if (score := scores.get(parts[index] + parts[index + 1])) is not None
            )
            index = next((index for _, index in merges if rng.random() >= alpha), None)
            if index is None:
                return parts
            parts[index : index + 2] = [parts[index] + parts[index + 1]]

    def _unigram(self, word: str, alpha: float, rng: Random) -> list[str]:
        """Forward filtering, backward sampling: p(segmentation) ** alpha, normalised."""
        incoming = [[(0, 0.0)]]  # for each end, the starts of its last piece and log-weights
        totals = [0.0]
        for end in range(1, len(word) + 1):
            into = [
                (start, totals[start] + alpha * score)
                for start in range(max(0, end - self._longest), end)
                if (score := self._scores.get(word[start:end])) is not None
            ]
            incoming.append(into)
            totals.append(_log_sum_exp([weight for _, weight in into]))
        if totals[-1] == -math.inf:
            return [word]
        pieces: list[str] = []
        end = len(word)
        while end:
            starts, weights = zip(*incoming[end], strict=True)
            largest = max(weights)
            (start,) = rng.choices(starts, [math.exp(weight - largest) for weight in weights])
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]


def _words(pieces: Sequence[str]) -> Iterator[Sequence[str]]:
    """Group pieces into words; "▁" (a space) starts one."""
    start = 0
    for index in range(1, len(pieces)):
        if pieces[index].startswith("▁"):
            yield pieces[start:index]
            start = index
    if pieces:
        yield pieces[start:]


def _log_sum_exp(weights: Sequence[float]) -> float:
    largest = max(weights, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(weight - largest) for weight in weights))
