"""Tokenizers with one SentencePiece model per side, and a table of ids that is shared or per side.

Marian's models have a shared table: each side is segmented by its own model, and the pieces are
looked up in the table; a piece missing from it is UNK. With separate vocabularies
(`tokenizer.shared = false`) each side has its own table of equally many ids: the shorter one ends
in names that no text has. Ids follow the same convention: EOS 0, UNK 1, PAD last. A bundle stores
it as one zip archive of source.spm, target.spm, vocab.json and perhaps target_vocab.json.

Multilingual models select the target language by a token before the text, such as ">>deu<<". If the
table has it, it is looked up as one piece.
"""

import io
import itertools
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import sentencepiece

from transduce.data.config import TokenizerConfig
from transduce.data.corpus import one_line
from transduce.data.protection import Protection
from transduce.data.sentencepiece_model import SubwordSampler
from transduce.data.tokenizer import (
    EOS,
    EOS_PIECE,
    PAD_PIECE,
    UNK,
    UNK_PIECE,
    Tokenizer,
    encode_texts,
    load_processor,
    without_tag,
)

SOURCE, TARGET, TABLE = "source.spm", "target.spm", "vocab.json"
TARGET_TABLE = "target_vocab.json"
"""The target's table, if it is not the same."""

_ZIP = b"PK"  # no SentencePiece model starts so
_DAMAGED = "the tokenizer archive is damaged; copy the bundle or import the model again"


class PairTokenizer(Tokenizer):
    """Encodes text with the source's model; `target` is the same tokenizer with the target's.

    A side decodes with the model of its table: with a shared table both decode with the target's.
    """

    def __init__(
        self,
        source: sentencepiece.SentencePieceProcessor,
        target: sentencepiece.SentencePieceProcessor,
        tables: Sequence[Mapping[str, int]],
        *,
        data: bytes,
        is_target: bool = False,
    ) -> None:
        """Use `from_files`, `from_bytes` or `train_pair`, which check the tables."""
        super().__init__(target if is_target else source, data=data)
        self._sides = (source, target)
        self._tables = tables
        self._table = tables[is_target]
        self._pieces = len(self._table) - 1
        self._is_target = is_target

    @classmethod
    def from_files(
        cls,
        *,
        source: bytes,
        target: bytes,
        table: Mapping[str, int],
        target_table: Mapping[str, int] | None = None,
    ) -> "PairTokenizer":
        """Build a tokenizer from two models and their table or tables.

        Args:
            source: SentencePiece model of the source side.
            target: SentencePiece model of the target side.
            table: id of each piece; "</s>" is 0, "<unk>" 1, "<pad>" the last.
            target_table: the same for the target; None if both sides share the table.

        Raises:
            ValueError: if a model cannot be read, ids are missing or duplicate, or the tables
                differ in length.
        """
        files = {SOURCE: source, TARGET: target, TABLE: _ordered(table)}
        if target_table is not None:
            files[TARGET_TABLE] = _ordered(target_table)
            if len(target_table) != len(table):
                raise ValueError(
                    f"the tables of pieces have {len(table)} and {len(target_table)} ids, not as "
                    f"many; copy the bundle again"
                )
        tables = (table, table if target_table is None else target_table)
        return cls(
            _processor(source, SOURCE), _processor(target, TARGET), tables, data=zip_files(files)
        )

    @classmethod
    def train_pair(
        cls,
        sources: Iterable[str],
        targets: Iterable[str],
        config: TokenizerConfig,
        *,
        tags: Sequence[str] = (),
    ) -> "PairTokenizer":
        """Train a vocabulary a side, each as `Tokenizer.train` does; the size is that of each.

        Args:
            sources: normalised text of the source side.
            targets: normalised text of the target side.
            tags: as of `Tokenizer.train`, on the source side.
        """
        source = Tokenizer.train(sources, config, tags=tags)
        target = Tokenizer.train(targets, config)
        size = max(source.vocab_size, target.vocab_size)
        return cls.from_files(
            source=source.to_bytes(),
            target=target.to_bytes(),
            table=_padded_table(source, size),
            target_table=_padded_table(target, size),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "PairTokenizer":
        """Load the output of `to_bytes`.

        Raises:
            ValueError: if `data` is damaged.
        """
        try:
            files = _unzip_files(data)
            tables = [json.loads(files[name]) for name in (TABLE, TARGET_TABLE) if name in files]
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, RecursionError):
            raise ValueError(_DAMAGED) from None
        for table in tables:
            if not isinstance(table, dict) or not all(type(i) is int for i in table.values()):
                raise ValueError(_DAMAGED)
        return cls.from_files(
            source=files[SOURCE],
            target=files[TARGET],
            table=tables[0],
            target_table=tables[1] if len(tables) > 1 else None,
        )

    @property
    def target(self) -> "PairTokenizer":
        """The tokenizer of the target side."""
        return self if self._is_target else self._target

    @cached_property
    def _target(self) -> "PairTokenizer":
        return PairTokenizer(*self._sides, self._tables, data=self._data, is_target=True)

    @property
    def shared(self) -> bool:
        """Whether an id is the same piece on both sides."""
        return self._tables[0] is self._tables[1]

    @property
    def table(self) -> Mapping[str, int]:
        """The id of each of this side's pieces."""
        return self._table

    def files(self) -> dict[str, bytes]:
        """The two SentencePiece models, by file name."""
        files = _unzip_files(self._data)
        return {name: files[name] for name in (SOURCE, TARGET)}

    @cached_property
    def protection(self) -> Protection:
        """Nothing: vocabularies of other programs have no placeholders."""
        return Protection(())

    def encode(self, text: str) -> list[int]:
        """Encode text as ids, without EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str], *, threads: int = -1) -> list[list[int]]:
        """Encode many texts at once; `threads` -1 uses all cores."""
        split = [self.split_tag(text) for text in texts]
        synthetic = {*self.all_tags.values()}.difference(
            self.tags.values()
        )  # Marian keeps the space
        bare = [
            text.removeprefix(" ") if synthetic.intersection(tag) else text for tag, text in split
        ]
        segmented = encode_texts(self._processor, bare, out_type=str, threads=threads)
        known = self._table
        return [
            [*tag, *(known.get(piece, UNK) for piece in pieces)]
            for (tag, _), pieces in zip(split, segmented, strict=True)
        ]

    @cached_property
    def all_tags(self) -> Mapping[str, int]:
        """The ids of target language tags, and of those of synthetic pairs."""
        return {piece: id for piece, id in self._table.items() if without_tag(piece) == ""}

    @cached_property
    def _names(self) -> Sequence[str]:
        return sorted(self._table, key=self._table.__getitem__)

    @cached_property
    def _subword_sampler(self) -> SubwordSampler:
        model = self.files()[TARGET if self._is_target else SOURCE]
        return SubwordSampler(model, vocabulary=self._table)

    @cached_property
    def _piece_ids(self) -> Mapping[str, int]:
        return self._table

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids as `Tokenizer.decode`, with the model of their table."""
        pieces = [self._names[i] for i in self._checked(ids) if i not in (EOS, self.pad)]
        model = self._sides[self.shared or self._is_target]
        text = model.decode_pieces(pieces) if pieces else ""
        # A piece unknown to the model is returned as it is, "▁" included.
        return one_line(text.removeprefix("▁").replace("▁", " "))


def read_tokenizer(data: bytes) -> Tokenizer:
    """Load a tokenizer of either type, by its `from_bytes`."""
    if data.startswith(_ZIP):
        return PairTokenizer.from_bytes(data)
    return Tokenizer.from_bytes(data)


def _ordered(table: Mapping[str, int]) -> bytes:
    """A table as JSON in the order of ids, which are checked."""
    names = sorted(table, key=table.__getitem__)
    if [table[name] for name in names] != list(range(len(names))) or len(names) < 4:
        raise ValueError("the table of pieces has missing or duplicate ids; import the model again")
    if [*names[:2], names[-1]] != [EOS_PIECE, UNK_PIECE, PAD_PIECE]:
        raise ValueError(
            f"the table of pieces must begin with {EOS_PIECE}, {UNK_PIECE} and end with "
            f"{PAD_PIECE}, not with {names[0]}, {names[1]} and {names[-1]}"
        )
    return json.dumps({name: table[name] for name in names}, ensure_ascii=False, indent=0).encode()


def _padded_table(tokenizer: Tokenizer, size: int) -> dict[str, int]:
    """The ids of a vocabulary, PAD moved to the last of `size` ids."""
    pieces = tokenizer.pieces(range(tokenizer.pad))
    unused = (name for i in itertools.count() if (name := f"<unused{i}>") not in pieces)
    names = [*pieces, *itertools.islice(unused, size - len(pieces) - 1), PAD_PIECE]
    if PAD_PIECE in pieces:
        raise ValueError(f"the corpus has the word {PAD_PIECE}: write it otherwise")
    return {name: number for number, name in enumerate(names)}


def _processor(data: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    try:
        return load_processor(data)
    except (RuntimeError, UnicodeDecodeError):
        raise ValueError(f"{name} is damaged or not a SentencePiece model; copy it again") from None


def _unzip_files(data: bytes) -> dict[str, bytes]:
    """Read an archive made by `zip_files`; compression is refused, to exclude zip bombs."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise ValueError(_DAMAGED)
        names = {SOURCE, TARGET, TABLE, *{TARGET_TABLE}.intersection(archive.namelist())}
        return {name: archive.read(name) for name in names}


def zip_files(files: Mapping[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Write an archive; equal files give equal bytes, as all of them get the earliest time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=compression)
    return buffer.getvalue()
