"""SentencePiece model files read directly: their pieces, additional pieces, subword sampling.

SentencePiece stores a model as one protocol buffer message, with one `pieces` field per piece:

    pieces          = 1 {string piece = 1; float score = 2; enum type = 3 [default NORMAL]}
    trainer_spec    = 2 {...; enum model_type = 3; ...}
    normalizer_spec = 3 {...; bool add_dummy_prefix = 3; ...}

_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER, _PROTECTED = 1, 2, 3, 5, 9000

The library can sample subwords, but since 0.2.2 its random numbers differ between processes
whatever the seed, so a resumed run would see other pieces than an uninterrupted one. Hence
`SubwordSampler`. Words are segmented independently, as pieces never cross a space.
"""

import json
import math
import struct
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, NamedTuple

NORMAL: Final = 1
BYTE: Final = 6
"""The piece types that are text: a regular piece, and a byte of a character without a piece."""
UNUSED: Final = 5
"""The piece type that segmentation must avoid."""

_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER, _PROTECTED = 1, 2, 3, 5, 9000
_TEXT, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _SUFFIX, _BYTE_FALLBACK, _UNKNOWN_SURFACE = 3, 24, 35, 44
_CHARSMAP, _DUMMY_PREFIX, _REMOVE_EXTRA, _ESCAPE = 2, 3, 4, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_MODEL_TYPES: dict[int, Literal["unigram", "bpe", "char"]] = {1: "unigram", 2: "bpe", 4: "char"}
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


class _Field(NamedTuple):
    number: int
    value: int | bytes
    end: int
    """Offset of the next field."""


def read_pieces(data: bytes) -> list[VocabularyPiece]:
    """Read the vocabulary of a SentencePiece model, in id order.

    Raises:
        ValueError: if `data` is not a SentencePiece model.
    """
    return [_parse_piece(field.value) for field in _fields(data) if field.number == _PIECES]


def read_model_type(data: bytes) -> Literal["unigram", "bpe", "char"]:
    """Read the model type.

    Raises:
        ValueError: if it is not unigram, BPE or char.
    """
    model_type = 1  # the format's default
    for trainer in _fields(data):
        if trainer.number == _TRAINER and isinstance(trainer.value, bytes):
            for field in _fields(trainer.value):
                if field.number == _MODEL_TYPE and isinstance(field.value, int):
                    model_type = field.value
                    break
    if model_type not in _MODEL_TYPES:
        raise ValueError(f"the tokenizer model is of type {model_type}, not unigram, BPE or char")
    return _MODEL_TYPES[model_type]


def read_options(data: bytes) -> SegmentationOptions:
    """Read the options of segmentation.

    Raises:
        ValueError: if `data` is not a SentencePiece model.
    """
    trainer, normalizer = _merged_fields(data, _TRAINER), _merged_fields(data, _NORMALIZER)
    charsmap = normalizer.get(_CHARSMAP, b"")
    surface = trainer.get(_UNKNOWN_SURFACE, SegmentationOptions().unknown_surface.encode())
    if isinstance(charsmap, int) or isinstance(surface, int):
        raise ValueError(_DAMAGED)
    return SegmentationOptions(
        charsmap=charsmap,
        add_dummy_prefix=bool(normalizer.get(_DUMMY_PREFIX, True)),
        remove_extra_whitespaces=bool(normalizer.get(_REMOVE_EXTRA, True)),
        escape_whitespaces=bool(normalizer.get(_ESCAPE, True)),
        whitespace_as_suffix=bool(trainer.get(_SUFFIX, False)),
        byte_fallback=bool(trainer.get(_BYTE_FALLBACK, False)),
        unknown_surface=surface.decode(),
        denormalizes=bool(_merged_fields(data, _DENORMALIZER).get(_CHARSMAP)),
    )


def append_pieces(data: bytes, pieces: Iterable[VocabularyPiece]) -> bytes:
    """Append pieces to a model; existing ids do not change."""
    end = max(field.end for field in _fields(data) if field.number == _PIECES)
    added = b"".join(_message(_PIECES, _serialize_piece(piece)) for piece in pieces)
    return data[:end] + added + data[end:]


def read_protected(data: bytes) -> tuple[str, ...]:
    """Read the patterns that `with_protected` stored; none in other models.

    Raises:
        ValueError: if `data` is damaged.
    """
    stored = [field.value for field in _fields(data) if field.number == _PROTECTED]
    try:
        patterns: object = json.loads(stored[-1]) if isinstance(stored[-1], bytes) else None
    except IndexError:
        return ()
    except (ValueError, RecursionError):
        patterns = None
    if not isinstance(patterns, list):
        raise ValueError(_DAMAGED)
    return tuple(map(str, patterns))


def with_protected(data: bytes, patterns: Sequence[str]) -> bytes:
    """Store patterns of protected spans in a model file."""
    return data + _message(_PROTECTED, json.dumps(list(patterns)).encode())


def without_prefix(data: bytes) -> bytes:
    """Disable the space that the model puts before a text, to encode word-internal strings."""
    # A later occurrence of a scalar field overrides an earlier one, so appending suffices.
    return data + _message(_NORMALIZER, _encode_varint(_DUMMY_PREFIX << 3 | _VARINT) + b"\0")


class SubwordSampler:
    """Samples segmentations of words, with the pieces and scores of one SentencePiece model."""

    def __init__(self, model: bytes, *, vocabulary: Container[str] | None = None) -> None:
        """Read a model file.

        Args:
            model: the file's content.
            vocabulary: pieces that may be sampled, where an imported model's table of ids lacks
                some of the file's; None means all.

        Raises:
            ValueError: if it is not a unigram, BPE or char model.
        """
        self._segment = self._bpe if read_model_type(model) == "bpe" else self._unigram
        self._scores = {
            piece.text: piece.score
            for piece in read_pieces(model)
            if piece.type == NORMAL and (vocabulary is None or piece.text in vocabulary)
        }
        self._longest = max(map(len, self._scores), default=0)

    def sample(self, pieces: Sequence[str], *, alpha: float, rng: Random) -> list[str]:
        """Sample another segmentation of a sentence.

        Args:
            pieces: the sentence's usual segmentation; a word with a piece that is not text
                (unknown, byte, control) keeps it.
            alpha: for BPE the probability of dropping each merge (Provilkov et al. 2020,
                algorithm 1); 0 gives the usual segmentation. For unigram the exponent on the
                probability of a segmentation (Kudo 2018); larger is closer to the usual one.
            rng: source of randomness; advanced.

        Returns:
            Pieces that spell the same text.
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


def _merged_fields(data: bytes, number: int) -> Mapping[int, int | bytes]:
    """The fields of a submessage; a later occurrence overrides an earlier one."""
    return {
        inner.number: inner.value
        for field in _fields(data)
        if field.number == number and isinstance(field.value, bytes)
        for inner in _fields(field.value)
    }


def _fields(data: bytes) -> Iterator[_Field]:
    offset = 0
    while offset < len(data):
        key, offset = _decode_varint(data, offset)
        value: int | bytes
        if key & 7 == _VARINT:
            value, offset = _decode_varint(data, offset)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(key & 7)
            if key & 7 == _BYTES:
                length, offset = _decode_varint(data, offset)
            if length is None or offset + length > len(data):
                raise ValueError(_DAMAGED)
            value, offset = data[offset : offset + length], offset + length
        yield _Field(key >> 3, value, offset)


def _decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Seven bits per byte, least significant first; the high bit means that more bytes follow."""
    value = 0
    for shift, byte in zip(range(0, 70, 7), data[offset : offset + 10], strict=False):
        value |= (byte & 0x7F) << shift
        offset += 1
        if not byte & 0x80:
            return value, offset
    raise ValueError(_DAMAGED)


def _parse_piece(value: int | bytes) -> VocabularyPiece:
    text, score, piece_type = "", 0.0, NORMAL
    for field in _fields(value if isinstance(value, bytes) else b""):
        if isinstance(field.value, int):
            piece_type = field.value if field.number == _TYPE else piece_type
        elif field.number == _TEXT:
            text = field.value.decode()
        elif field.number == _SCORE and len(field.value) == 4:
            (score,) = struct.unpack("<f", field.value)
    return VocabularyPiece(text, score, piece_type)


def _serialize_piece(piece: VocabularyPiece) -> bytes:
    score = _encode_varint(_SCORE << 3 | _FIXED32) + struct.pack("<f", piece.score)
    kind = b""  # NORMAL is the default
    if piece.type != NORMAL:
        kind = _encode_varint(_TYPE << 3 | _VARINT) + _encode_varint(piece.type)
    return _message(_TEXT, piece.text.encode()) + score + kind


def _message(field: int, value: bytes) -> bytes:
    return _encode_varint(field << 3 | _BYTES) + _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
