"""The tokenizer's file, as far as pieces can be added to it: a few fields of protocol buffers.

SentencePiece stores a model as one message, whose first field repeats once a piece:

    pieces          = 1 {string piece = 1; float score = 2; enum type = 3 [default NORMAL]}
    trainer_spec    = 2 {...; enum model_type = 3; ...}
    normalizer_spec = 3 {...; bool add_dummy_prefix = 3; ...}

The library itself cannot add to a vocabulary, and reading these three needs no package of Google's:
a message is a row of (field number and wire type, value), and what we do not know stays as it is.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

NORMAL: Final = 1
BYTE: Final = 6
"""Of the types of a piece the two that are text: a piece itself, and a byte of what has none."""

_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_TEXT, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _DUMMY_PREFIX = 3, 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_KINDS: dict[int, Literal["unigram", "bpe"]] = {1: "unigram", 2: "bpe"}


class Piece(NamedTuple):
    """One entry of the vocabulary; its id is its place in the file."""

    text: str
    """"▁" is a space."""

    score: float
    """BPE: higher merges first. Unigram: ln p."""

    type: int = NORMAL


class _Field(NamedTuple):
    number: int
    value: int | bytes
    end: int
    """Where the next field begins."""


def read_pieces(data: bytes) -> list[Piece]:
    """Read the vocabulary of a SentencePiece model, in the order of its ids.

    Raises:
        ValueError: if `data` is no such model.
    """
    return [_piece(field.value) for field in _fields(data) if field.number == _PIECES]


def read_kind(data: bytes) -> Literal["unigram", "bpe"]:
    """Read which of the two subword models it is.

    Raises:
        ValueError: if `data` is neither.
    """
    kind = 1  # what the format takes where nothing is said
    for field in _fields(data):
        if field.number == _TRAINER and isinstance(field.value, bytes):
            said = [one.value for one in _fields(field.value) if one.number == _MODEL_TYPE]
            kind = next((value for value in said if isinstance(value, int)), kind)
    if kind not in _KINDS:
        raise ValueError(f"the tokenizer model is of kind {kind}, neither unigram nor BPE")
    return _KINDS[kind]


def append_pieces(data: bytes, pieces: Iterable[Piece]) -> bytes:
    """Give the model further pieces: their ids follow those that are there, which all stay."""
    end = max(field.end for field in _fields(data) if field.number == _PIECES)
    return (
        data[:end] + b"".join(_message(_PIECES, _written(piece)) for piece in pieces) + data[end:]
    )


def without_prefix(data: bytes) -> bytes:
    """Keep the model from putting a space before the text: it then cuts the inside of a word.

    What stands last in a message wins, so the setting is simply said once more.
    """
    return data + _message(_NORMALIZER, _number(_DUMMY_PREFIX << 3 | _VARINT) + b"\0")


def _fields(data: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: int | bytes
        if key & 7 == _VARINT:
            value, at = _varint(data, at)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(key & 7)
            if key & 7 == _BYTES:
                length, at = _varint(data, at)
            if length is None or at + length > len(data):
                raise ValueError("the tokenizer model is damaged; copy or train it again")
            value, at = data[at : at + length], at + length
        yield _Field(key >> 3, value, at)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
    value = 0
    for shift in range(0, 70, 7):
        if at == len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise ValueError("the tokenizer model is damaged; copy or train it again")


def _piece(value: int | bytes) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for field in _fields(value if isinstance(value, bytes) else b""):
        if isinstance(field.value, int):
            kind = field.value if field.number == _TYPE else kind
        elif field.number == _TEXT:
            text = field.value.decode()
        elif field.number == _SCORE:
            (score,) = struct.unpack("<f", field.value)
    return Piece(text, score, kind)


def _written(piece: Piece) -> bytes:
    score = _number(_SCORE << 3 | _FIXED32) + struct.pack("<f", piece.score)
    kind = b"" if piece.type == NORMAL else _number(_TYPE << 3 | _VARINT) + _number(piece.type)
    return _message(_TEXT, piece.text.encode()) + score + kind


def _message(field: int, value: bytes) -> bytes:
    return _number(field << 3 | _BYTES) + _number(len(value)) + value


def _number(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
