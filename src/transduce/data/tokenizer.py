"""The tokenizer: one SentencePiece vocabulary for both sides, and the three ids that are no text.

EOS is 0 and UNK is 1; PAD is the last id and lives outside the SentencePiece model, so that the
model file stays one that other programs accept. There is no BOS: the decoder starts from PAD, whose
embedding is zero. Normalisation is the identity, because SentencePiece's own rules rewrite targets
for good (½ becomes 1⁄2); what text needs is done, and counted, in `corpus`. With byte fallback the
ids 2 to 257 are bytes, which spell the characters that have no piece.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Final

import sentencepiece

from transduce.data.corpus import one_line
from transduce.data.corpus_config import TokenizerConfig
from transduce.data.subword_sampling import Cutter

EOS: Final = 0
"""Ends every sentence."""

UNK: Final = 1
"""Stands for characters that the vocabulary lacks, unless bytes spell them."""

_SAMPLE = 1_000_000  # lines that training looks at; more change the vocabulary little
_LINE = 1000  # characters of one training line: the library skips lines above 4192 bytes
_EOS_PIECE, _UNK_PIECE, _PAD_PIECE = "</s>", "<unk>", "<pad>"
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")
_ERRORS_ONLY = 2  # minloglevel; the library talks on stderr otherwise


class Tokenizer:
    """Cuts text into the pieces of one vocabulary, and joins pieces to text again.

    For tidy text (`corpus.tidy`) whose characters are in the vocabulary or spelt in bytes,
    `decode(encode(text))` is `text`. Text that looks like a control piece ("</s>") is cut as text.
    """

    EOS: Final = EOS
    UNK: Final = UNK

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, *, data: bytes) -> None:
        """Use `train` or `from_bytes`: they make sure that `processor` is what `data` holds."""
        self._processor = processor
        self._data = data
        self._pieces = processor.get_piece_size()

    @classmethod
    def train(cls, lines: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Learn a vocabulary. The same lines in the same order give the same bytes.

        Args:
            lines: tidy text of both sides. Above a million lines a fixed random choice is read.
            config: the kind and size of the vocabulary. Where the corpus has no room for so many
                pieces the vocabulary is as large as it can be; see `vocab_size`.

        Raises:
            ValueError: if there is no text, or `vocab_size` has no room for the characters.
        """
        source = _TrainingLines(lines)
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(source),
                model_writer=model,
                model_type=config.kind,
                vocab_size=config.vocab_size - 1,  # PAD is ours
                hard_vocab_limit=False,
                character_coverage=config.character_coverage,
                byte_fallback=config.byte_fallback,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                eos_id=cls.EOS,
                unk_id=cls.UNK,
                bos_id=-1,
                pad_id=-1,
                input_sentence_size=_SAMPLE,
                shuffle_input_sentence=True,
                num_threads=1,  # sums in one order: the same vocabulary on every machine
                minloglevel=_ERRORS_ONLY,
            )
        except RuntimeError as error:
            if source.failure is not None:  # the library hides what the iterator raised
                raise source.failure from None
            raise _explained(error, lines=source.count, config=config) from error
        return cls.from_bytes(model.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Tokenizer":
        """Load what `to_bytes` gave.

        Raises:
            ValueError: if `data` is damaged, or a SentencePiece model of another make.
        """
        if not data:
            raise ValueError("the tokenizer model is empty; copy or train it again")
        try:
            processor = load_processor(data)
            spaced = processor.normalize(" ½  b")
        except (RuntimeError, UnicodeDecodeError) as error:
            raise ValueError(
                "the tokenizer model is damaged or no SentencePiece model; copy or train it again"
            ) from error
        found = (processor.eos_id(), processor.unk_id(), processor.bos_id(), processor.pad_id())
        if found != (cls.EOS, cls.UNK, -1, -1):
            raise ValueError(
                f"the tokenizer model has the ids (EOS, UNK, BOS, PAD) {found}, "
                f"not {(cls.EOS, cls.UNK, -1, -1)}; take one that transduce trained"
            )
        if spaced != "▁▁½▁▁b":  # also when the rules at its end are cut off
            raise ValueError(
                "the tokenizer model is cut short or rewrites its text; take one that transduce "
                "trained, whose normalisation is the identity"
            )
        return cls(processor, data=data)

    def to_bytes(self) -> bytes:
        """The SentencePiece model file, as other programs read it."""
        return self._data

    @property
    def vocab_size(self) -> int:
        """Number of ids, PAD included: the rows of the embedding."""
        return self._pieces + 1

    @property
    def target(self) -> "Tokenizer":
        """What cuts text of the target side: one vocabulary serves both sides, so this one."""
        return self

    @property
    def pad(self) -> int:
        """The last id, which no text is encoded to."""
        return self._pieces

    @property
    def checksum(self) -> str:
        """SHA-256 of the model file in hexadecimal: two stores of one checksum share their ids."""
        return hashlib.sha256(self._data).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Cut text into ids, without EOS."""
        return self._processor.encode(text)

    def encode_all(self, texts: Sequence[str], *, threads: int = -1) -> list[list[int]]:
        """Cut many texts at once, on all cores or as many as said; much faster than one by one."""
        return self._processor.encode(list(texts), num_threads=threads)

    def draw(self, ids: Iterable[int], *, alpha: float, chance: Random) -> list[int]:
        """Cut a sentence anew, at random: subword regularisation, for training alone.

        Args:
            ids: the sentence as `encode` cuts it.
            alpha: how far from that; see `Cutter.draw`.
            chance: decides; equal ones draw the same.

        Returns:
            Ids that spell the same text.
        """
        drawn = self._cutter.draw(self.pieces(ids), alpha=alpha, chance=chance)
        return [self._numbers[piece] for piece in drawn]

    @cached_property
    def _cutter(self) -> Cutter:
        return Cutter(self._data)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """The id of each piece."""
        return {self._processor.id_to_piece(i): i for i in range(self._pieces)}

    def decode(self, ids: Iterable[int]) -> str:
        """Join ids to one line of text. EOS and PAD are left out, an UNK becomes " ⁇ ".

        Bytes that spell no character become U+FFFD, those that spell a line's end a space.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        said = [i for i in self._checked(ids) if i not in (EOS, self.pad)]
        return one_line(self._processor.decode(said))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id, as people look at them; "▁" is a space.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        return [
            _PAD_PIECE if i == self.pad else self._processor.id_to_piece(i)
            for i in self._checked(ids)
        ]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]  # NumPy's integers mean nothing to the library
        for i in known:
            if not 0 <= i < self.vocab_size:
                raise ValueError(f"id {i} is not in the vocabulary of {self.vocab_size} pieces")
        return known


def load_processor(data: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a model file. What the library itself does not look at is looked at here.

    Raises:
        RuntimeError: if it is none: the library's.
        UnicodeDecodeError: if a piece is no text, on which the library fails when it is said.
    """
    if not data:  # the library takes nothing for a model and fails much later
        raise RuntimeError("empty")
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    for number in range(processor.get_piece_size()):
        processor.id_to_piece(number)
    return processor


class _TrainingLines:
    """Lines as the trainer can take them, and what went wrong while they were read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.failure: BaseException | None = None
        self.count = 0
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                self.count += bool(line)
                yield from _trainable(line)
        except BaseException as failure:
            self.failure = failure
            raise


def _trainable(line: str) -> Iterator[str]:
    """Keep the trainer from skipping a line, or the characters of a control piece within it."""
    for reserved in "\0\t\u2585":  # the trainer's own separators; a line with U+2585 is skipped
        line = line.replace(reserved, " ")
    for piece in (_EOS_PIECE, _UNK_PIECE, *_BYTE_PIECE.findall(line)):
        line = line.replace(piece, f"{piece[:-1]} {piece[-1]}")
    start = 0
    while len(line) - start > _LINE:
        space = line.rfind(" ", start + 1, start + _LINE)
        end = space if space > 0 else start + _LINE
        yield line[start:end]
        start = end
    yield line[start:]


def _explained(error: RuntimeError, *, lines: int, config: TokenizerConfig) -> ValueError:
    """What the library's complaint means to someone with a recipe."""
    needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if needed:
        return ValueError(
            f"tokenizer.vocab_size {config.vocab_size} has no room for the corpus's "
            f"characters: make it at least {int(needed[1]) + 1}, or lower "
            f"tokenizer.character_coverage"
        )
    if not lines or "sentences_.empty()" in str(error):
        return ValueError("no text to train the tokenizer on; check the files in data.train")
    return ValueError(f"SentencePiece could not train a vocabulary on {lines} lines: {error}")
