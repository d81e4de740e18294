"""A tokenizer of another make: a SentencePiece model a side, and one table that numbers the pieces.

Marian's models come with one: each side's text is cut by its own model, and what came of it is
looked up in the table; a piece that the table lacks is UNK. The ids keep our rule: EOS 0, UNK 1,
PAD last. In a bundle it is one file, a zip archive of source.spm, target.spm and vocab.json.

A model of many target languages is told which by a word before the text, such as ">>deu<<". Where
the table has that word it is looked up whole.
"""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import sentencepiece

from transduce.data.corpus import one_line
from transduce.data.subword_sampling import Cutter
from transduce.data.tokenizer import EOS, UNK, Tokenizer, load_processor

EOS_PIECE, UNK_PIECE, PAD_PIECE = "</s>", "<unk>", "<pad>"
SOURCE, TARGET, TABLE = "source.spm", "target.spm", "vocab.json"

_ZIP = b"PK"  # a SentencePiece model begins otherwise
_THEN = (1980, 1, 1, 0, 0, 0)  # the least that an archive can say: equal files, equal bytes
_DAMAGED = "the tokenizer of two models is damaged; copy the bundle or import the model again"


class PairTokenizer(Tokenizer):
    """Cuts text with the source's model; `target` is the same tokenizer with the target's.

    Both share ids and pieces. The pieces of ids are joined by the target's model on either side, as
    translations are.
    """

    def __init__(
        self,
        source: sentencepiece.SentencePieceProcessor,
        target: sentencepiece.SentencePieceProcessor,
        table: Mapping[str, int],
        *,
        data: bytes,
        of_target: bool = False,
    ) -> None:
        """Use `from_files` or `from_bytes`: they check that the table is one."""
        super().__init__(target if of_target else source, data=data)
        self._sides = (source, target)
        self._table = table
        self._names = sorted(table, key=table.__getitem__)
        self._pieces = len(table) - 1
        self._of_target = of_target

    @classmethod
    def from_files(
        cls, *, source: bytes, target: bytes, table: Mapping[str, int]
    ) -> "PairTokenizer":
        """Put one together.

        Args:
            source: the SentencePiece model of the source side.
            target: that of the target side.
            table: the id of each piece, "</s>" 0, "<unk>" 1, "<pad>" last.

        Raises:
            ValueError: if a model cannot be read, or the table has holes.
        """
        names = sorted(table, key=table.__getitem__)
        if [table[name] for name in names] != list(range(len(names))) or len(names) < 4:
            raise ValueError("the table of pieces has holes or doubles; import the model again")
        if [*names[:2], names[-1]] != [EOS_PIECE, UNK_PIECE, PAD_PIECE]:
            raise ValueError(
                f"the table of pieces must begin with {EOS_PIECE}, {UNK_PIECE} and end with "
                f"{PAD_PIECE}, not with {names[0]}, {names[1]} and {names[-1]}"
            )
        ordered = json.dumps({name: table[name] for name in names}, ensure_ascii=False, indent=0)
        held = {SOURCE: source, TARGET: target, TABLE: ordered.encode()}
        return cls(
            _processor(source, SOURCE), _processor(target, TARGET), table, data=_packed(held)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "PairTokenizer":
        """Load what `to_bytes` gave.

        Raises:
            ValueError: if `data` is damaged.
        """
        try:
            held = _unpacked(data)
            table = json.loads(held[TABLE])
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, RecursionError):
            raise ValueError(_DAMAGED) from None
        if not isinstance(table, dict) or not all(type(i) is int for i in table.values()):
            raise ValueError(_DAMAGED)
        return cls.from_files(source=held[SOURCE], target=held[TARGET], table=table)

    @property
    def target(self) -> "PairTokenizer":
        """The same vocabulary, for text of the target side."""
        return PairTokenizer(*self._sides, self._table, data=self._data, of_target=True)

    @property
    def table(self) -> Mapping[str, int]:
        """The id of each piece."""
        return self._table

    def files(self) -> dict[str, bytes]:
        """The two SentencePiece models, by name."""
        held = _unpacked(self._data)
        return {name: held[name] for name in (SOURCE, TARGET)}

    def encode(self, text: str) -> list[int]:
        """Cut text into ids, without EOS."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str], *, threads: int = -1) -> list[list[int]]:
        """Cut many texts at once, on all cores or as many as said."""
        codes, bare = self._codes(texts)
        cut = self._processor.encode(bare, out_type=str, num_threads=threads)
        return self._numbered(codes, cut)

    @cached_property
    def _cutter(self) -> Cutter:
        return Cutter(self.files()[TARGET if self._of_target else SOURCE])

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return self._table

    def decode(self, ids: Iterable[int]) -> str:
        """Join ids to one line of text. EOS and PAD are left out, an UNK becomes " ⁇ ".

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        said = [self._names[i] for i in self._checked(ids) if i not in (EOS, self.pad)]
        joined = self._sides[1].decode_pieces(said) if said else ""
        # A piece that the target's model lacks comes back as it is, with its mark of a space.
        return one_line(joined.removeprefix("▁").replace("▁", " "))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id, as people look at them; "▁" is a space.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        return [self._names[i] for i in self._checked(ids)]

    def _codes(self, texts: Sequence[str]) -> tuple[list[list[int]], list[str]]:
        """Take the target language's word, where there is one, off each text."""
        codes: list[list[int]] = []
        bare: list[str] = []
        for text in texts:
            end = text.find("<<") + 2 if text.startswith(">>") else 0
            known = self._table.get(text[:end]) if end > 1 else None
            codes.append([] if known is None else [known])
            bare.append(text if known is None else text[end:])
        return codes, bare

    def _numbered(
        self, codes: Sequence[list[int]], cut: Iterable[Sequence[str]]
    ) -> list[list[int]]:
        known = self._table
        return [
            [*code, *(known.get(piece, UNK) for piece in pieces)]
            for code, pieces in zip(codes, cut, strict=True)
        ]


def read_tokenizer(data: bytes) -> Tokenizer:
    """Load a tokenizer of either kind from what its `to_bytes` gave.

    Raises:
        ValueError: if `data` is damaged, or a SentencePiece model of another make.
    """
    if data.startswith(_ZIP):
        return PairTokenizer.from_bytes(data)
    return Tokenizer.from_bytes(data)


def _processor(data: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    try:
        return load_processor(data)
    except (RuntimeError, UnicodeDecodeError):
        raise ValueError(f"{name} is damaged or no SentencePiece model; copy it again") from None


def _unpacked(data: bytes) -> dict[str, bytes]:
    """The files of an archive as `_packed` makes it: nothing is compressed, so it is no bomb."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
            raise ValueError(_DAMAGED)
        return {name: archive.read(name) for name in (SOURCE, TARGET, TABLE)}


def _packed(held: Mapping[str, bytes]) -> bytes:
    """One archive, the same bytes for the same files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in held.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=_THEN), data)
    return packed.getvalue()
