"""The tokenizer: one SentencePiece vocabulary for both sides, and the special ids.

EOS is 0 and UNK is 1; PAD is the last id and not part of the SentencePiece model, so that other
programs accept the model file. There is no BOS: the decoder starts from PAD, whose embedding is
zero. Normalisation is the identity, because SentencePiece's rules rewrite targets irreversibly (½
becomes 1⁄2); `corpus` normalises text instead. Only lower-casing, if wanted, is a rule of the
model. With byte fallback the ids 2 to 257 are bytes, which spell characters without a piece.
"""

import hashlib
import io
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import sentencepiece

from transduce.data.config import TokenizerConfig
from transduce.data.corpus import one_line
from transduce.data.languages import code_forms
from transduce.data.protection import PLACEHOLDERS, Protection, protection_of
from transduce.data.sentencepiece_model import (
    SubwordSampler,
    read_protected,
    with_protected,
    without_rule_file,
)

EOS: Final = 0
"""End of sentence."""

UNK: Final = 1
"""Unknown: characters without a piece, unless bytes spell them."""

TAG: Final = re.compile(r"<2([\w-]+)>|>>([\w-]+)<<")
"""A target language tag before a text: ours, or that of OPUS-MT's models."""

BACK_TRANSLATED, FORWARD_TRANSLATED = "<bt>", "<ft>"
"""Tags before sources of synthetic pairs: a machine's source, or a machine's target."""

SYNTHETIC_TAGS: Final = (BACK_TRANSLATED, FORWARD_TRANSLATED)

_SYNTHETIC: Final = re.compile("|".join(SYNTHETIC_TAGS))

EOS_PIECE, UNK_PIECE, PAD_PIECE = "</s>", "<unk>", "<pad>"

_SAMPLE = 1_000_000  # training lines; more hardly change the vocabulary
_LINE = 1000  # characters of a training line: the library skips lines above 4192 bytes
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")
_MIN_PARALLEL_TEXTS = 32
PieceT = TypeVar("PieceT", int, str)
_ERRORS_ONLY = 2  # minloglevel; the library logs to stderr otherwise


class Tokenizer:
    """Encodes text as ids of one vocabulary, and decodes ids to text.

    For normalised text (`corpus.tidy`) whose characters are in the vocabulary or spelt in bytes,
    `decode(encode(text))` is `text`. Text that looks like a control piece ("</s>") is plain text.
    """

    EOS: Final = EOS
    UNK: Final = UNK

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, *, data: bytes) -> None:
        """Use `train` or `from_bytes`, which ensure that `processor` was loaded from `data`."""
        self._processor = processor
        self._data = data
        self._pieces = processor.get_piece_size()

    @classmethod
    def train(
        cls, lines: Iterable[str], config: TokenizerConfig, *, tags: Sequence[str] = ()
    ) -> "Tokenizer":
        """Train a vocabulary. The same lines in the same order give the same bytes.

        Args:
            lines: normalised text of both sides; a fixed random million of them if there are more.
            config: type and size of the vocabulary, which is smaller if the corpus does not
                support its size; see `vocab_size`.
            tags: `target_tag` of languages, or `SYNTHETIC_TAGS`: pieces that no text is cut into.

        Raises:
            ValueError: if there is no text, or `vocab_size` is too small for the characters.
        """
        if config.lower_case:
            with TemporaryDirectory() as folder:
                rules = Path(folder) / "lower_case.tsv"
                rules.write_text(_lower_case_rules(), encoding="utf-8")
                options = {"normalization_rule_tsv": str(rules), "control_symbols": [*tags]}
                return cls._train(lines, config, options)
        options = {"normalization_rule_name": "identity", "control_symbols": [*tags]}
        return cls._train(lines, config, options)

    @classmethod
    def _train(
        cls, lines: Iterable[str], config: TokenizerConfig, options: Mapping[str, Any]
    ) -> "Tokenizer":
        source = _TrainingLines(lines)
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(source),
                model_writer=model,
                model_type=config.kind,
                vocab_size=config.vocab_size - 1,  # PAD is not in the model
                hard_vocab_limit=False,
                character_coverage=config.character_coverage,
                byte_fallback=config.byte_fallback,
                user_defined_symbols=list(PLACEHOLDERS) if config.protect else [],
                **options,
                remove_extra_whitespaces=False,
                eos_id=cls.EOS,
                unk_id=cls.UNK,
                bos_id=-1,
                pad_id=-1,
                input_sentence_size=_SAMPLE,  # all of them
                shuffle_input_sentence=True,
                num_threads=1,  # fixed order of sums: the same vocabulary on every machine
                minloglevel=_ERRORS_ONLY,
            )
        except RuntimeError as error:
            if source.failure is not None:  # the library hides what the iterator raised
                raise source.failure from None
            raise _training_error(error, lines=source.count, config=config) from error
        data = model.getvalue()
        if config.lower_case:
            data = without_rule_file(data)
        return cls.from_bytes(with_protected(data, config.protect) if config.protect else data)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Tokenizer":
        """Load the output of `to_bytes`.

        Raises:
            ValueError: if `data` is damaged, or a SentencePiece model of another program.
        """
        if not data:
            raise ValueError("the tokenizer model is empty; copy or train it again")
        try:
            processor = load_processor(data)
            spaced = processor.normalize(" ½  b")
            protected = read_protected(data)
        except (RuntimeError, UnicodeDecodeError) as error:
            raise ValueError(
                "the tokenizer model is damaged or not a SentencePiece model; copy or train "
                "it again"
            ) from error
        ids = (processor.eos_id(), processor.unk_id(), processor.bos_id(), processor.pad_id())
        if ids != (cls.EOS, cls.UNK, -1, -1):
            raise ValueError(
                f"the tokenizer model has the ids (EOS, UNK, BOS, PAD) {ids}, "
                f"not {(cls.EOS, cls.UNK, -1, -1)}; use one trained by transduce"
            )
        if spaced != "▁▁½▁▁b":  # also detects a file truncated in its normalisation rules
            raise ValueError(
                "the tokenizer model is truncated or normalises its text; use one trained by "
                "transduce, whose normalisation is the identity"
            )
        protection_of(protected)  # raises for an invalid pattern
        return cls(processor, data=data)

    def to_bytes(self) -> bytes:
        """The SentencePiece model file, compatible with other programs."""
        return self._data

    @property
    def vocab_size(self) -> int:
        """Number of ids, PAD included: the rows of the embedding."""
        return self._pieces + 1

    @property
    def target(self) -> "Tokenizer":
        """The tokenizer of the target side; here the same, as both sides share the vocabulary."""
        return self

    @cached_property
    def lower_case(self) -> bool:
        """Whether all text is lower-cased."""
        return self._processor.normalize("A").endswith("a")

    def surface(self, text: str) -> str:
        """Return a text as pieces spell it: without a tag, lower-cased or the same."""
        text = without_tag(text)
        return text.lower() if self.lower_case else text

    @property
    def shared(self) -> bool:
        """Whether an id is the same piece on both sides."""
        return True

    @property
    def pad(self) -> int:
        """Padding: the last id; never the encoding of text."""
        return self._pieces

    @property
    def checksum(self) -> str:
        """SHA-256 of the model file in hexadecimal; stores of one checksum share their ids."""
        return hashlib.sha256(self._data).hexdigest()

    @cached_property
    def tags(self) -> Mapping[str, int]:
        """The ids of target language tags; empty for a model of one direction."""
        return {piece: id for piece, id in self.all_tags.items() if TAG.fullmatch(piece)}

    @cached_property
    def all_tags(self) -> Mapping[str, int]:
        """The ids of target language tags, and of those of synthetic pairs."""
        processor = self._processor
        pieces = ((processor.id_to_piece(id), id) for id in range(UNK + 1, self._pieces))
        controls = itertools.takewhile(lambda entry: processor.is_control(entry[1]), pieces)
        return {piece: id for piece, id in controls if not without_tag(piece)}

    def find_tag(self, language: str) -> str:
        """Return the tag of a target language, in its script if it has several; "" for none."""
        tags = self._language_tags
        return next((tags[form] for form in code_forms(language) if form in tags), "")

    @cached_property
    def _language_tags(self) -> Mapping[str, str]:
        """The tags by `code_forms`: of equal forms the least altered code, then the first."""
        codes = ((TAG.fullmatch(tag), tag) for tag in [*self.tags][::-1])
        forms = [(code_forms(match[1] or match[2]), tag) for match, tag in codes if match]
        return {form[kind]: tag for kind in (2, 1, 0) for form, tag in forms}

    def split_tag(self, text: str) -> tuple[list[int], str]:
        """Split a text into the ids of its tags, and the rest.

        Args:
            text: may start with a language tag and a synthetic one that the vocabulary has. Another
                spelling of a language tag, such as `<2de>` of `>>deu<<`, includes a space after it.
        """
        ids: list[int] = []
        for pattern in (TAG, _SYNTHETIC) if self.all_tags else ():
            match = pattern.match(text.removeprefix(" ") if ids else text)
            if match and (number := self.all_tags.get(match[0])) is not None:
                ids.append(number)
                text = match.string[match.end() :]
            elif match and match.lastindex and (tag := self.find_tag(match[match.lastindex])):
                ids.append(self.tags[tag])
                text = match.string[match.end() :].removeprefix(" ")
        return ids, text

    def encode(self, text: str) -> list[int]:
        """Encode text as ids, without EOS; a tag at its start is an id."""
        if self.all_tags:
            return self.encode_all([text])[0]
        return self._processor.encode(text)

    def encode_all(self, texts: Sequence[str], *, threads: int = -1) -> list[list[int]]:
        """Encode many texts at once, which is much faster; `threads` -1 uses all cores."""
        if not self.all_tags:
            return encode_texts(self._processor, texts, out_type=int, threads=threads)
        split = [self.split_tag(text) for text in texts]
        bare = [text.removeprefix(" ") if tag else text for tag, text in split]
        encoded = encode_texts(self._processor, bare, out_type=int, threads=threads)
        return [[*tag, *ids] for (tag, _), ids in zip(split, encoded, strict=True)]

    def sample_subwords(self, ids: Iterable[int], *, alpha: float, rng: Random) -> list[int]:
        """Sample ids that spell the text of others (subword regularisation, for training).

        Args:
            ids: the sentence as encoded by `encode`.
            alpha: see `SubwordSampler.sample`.
            rng: source of randomness; advanced.
        """
        pieces = self._subword_sampler.sample(self.pieces(ids), alpha=alpha, rng=rng)
        return [self._piece_ids[piece] for piece in pieces]

    @cached_property
    def protection(self) -> Protection:
        """The spans that the vocabulary has placeholders for; none for most tokenizers."""
        return protection_of(read_protected(self._data))

    @cached_property
    def placeholders(self) -> Mapping[int, str]:
        """The placeholder symbols by id; empty if the tokenizer protects nothing."""
        return {self.encode(symbol)[-1]: symbol for symbol in PLACEHOLDERS if self.protection}

    def encode_span(self, text: str) -> list[int]:
        """Encode text that stands for a placeholder, as within a word: without a space before."""
        ids = self.encode(PLACEHOLDERS[0] + text)
        return ids[next(i for i, id in enumerate(ids) if id in self.placeholders) + 1 :]

    @cached_property
    def _subword_sampler(self) -> SubwordSampler:
        return SubwordSampler(self._data)

    @cached_property
    def _names(self) -> Sequence[str]:
        """The pieces, by id."""
        return [*map(self._processor.id_to_piece, range(self._pieces)), PAD_PIECE]

    @cached_property
    def _piece_ids(self) -> Mapping[str, int]:
        return {self._names[i]: i for i in range(self._pieces)}

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to one line of text, without EOS and PAD; UNK becomes " ⁇ ".

        Invalid byte sequences become U+FFFD, line ends spelt in bytes a space.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        text_ids = [i for i in self._checked(ids) if i not in (EOS, self.pad)]
        return one_line(self._processor.decode(text_ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each of `ids` for display; "▁" is a space.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        return [self._names[i] for i in self._checked(ids)]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        known, size = list(map(int, ids)), self.vocab_size  # the library rejects NumPy integers
        if known and not (min(known) >= 0 and max(known) < size):
            outside = next(i for i in known if not 0 <= i < size)
            raise ValueError(f"id {outside} is not in the vocabulary of {size} pieces")
        return known


def encode_texts(
    processor: sentencepiece.SentencePieceProcessor,
    texts: Sequence[str],
    *,
    out_type: type[PieceT],
    threads: int,
) -> list[list[PieceT]]:
    """Encode texts with a SentencePiece model alone, by as many threads as pay off.

    Args:
        processor: of one side.
        texts: without tags.
        out_type: int for ids, str for pieces.
        threads: -1 uses all cores.
    """
    if len(texts) < _MIN_PARALLEL_TEXTS:  # starting threads takes longer
        return [processor.encode(text, out_type=out_type) for text in texts]
    return processor.encode(list(texts), out_type=out_type, num_threads=threads)


def _lower_case_rules() -> str:
    """Rules that lower-case every character by itself, as SentencePiece's trainer reads them."""
    return "".join(
        f"{code:X}\t{' '.join(f'{ord(letter):X}' for letter in chr(code).lower())}\n"
        for code in range(sys.maxunicode + 1)
        if chr(code).isprintable() and chr(code).lower() != chr(code)
    )


def target_tag(language: str) -> str:
    """Return the tag that asks for a target language.

    >>> target_tag("de")
    '<2de>'
    """
    return f"<2{language}>"


def marian_tag(tag: str) -> str:
    """Spell a target language's tag as MarianTokenizer looks it up at the start of a text.

    >>> marian_tag("<2de>")
    '>>de<<'
    """
    return TAG.sub(lambda match: f">>{match[1] or match[2]}<<", tag)


def without_tag(text: str) -> str:
    """Return a text without tags before it, of a target language and of a synthetic pair.

    >>> without_tag("<2de> A dog."), without_tag("<2de> <bt> A dog."), without_tag("A <2de> dog.")
    ('A dog.', 'A dog.', 'A <2de> dog.')
    """
    for pattern in (TAG, _SYNTHETIC):
        if match := pattern.match(text):
            text = text[match.end() :].removeprefix(" ")
    return text


def load_processor(data: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a model file, with checks that the library lacks.

    Raises:
        RuntimeError: if it is not a SentencePiece model (raised by the library).
        UnicodeDecodeError: if a piece is not UTF-8, on which the library fails later.
    """
    if not data:  # the library accepts an empty model and fails much later
        raise RuntimeError("empty")
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    for number in range(processor.get_piece_size()):
        processor.id_to_piece(number)
    return processor


class _TrainingLines:
    """Lines for the trainer, or a sample of many; keeps an exception raised while they are read.

    SentencePiece 0.2.3 can sample too, but other lines in each process.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.failure: BaseException | None = None
        self.count = 0
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        sample: list[str] = []
        draw, read = Random(0).randrange, 0
        try:
            for line in self._lines:
                self.count += bool(line)
                for part in _trainer_lines(line):
                    read += 1
                    if len(sample) < _SAMPLE:
                        sample.append(part)
                    elif (slot := draw(read)) < _SAMPLE:  # every line is as likely as another
                        sample[slot] = part
        except BaseException as failure:
            self.failure = failure
            raise
        yield from sample


def _trainer_lines(line: str) -> Iterator[str]:
    """Split and escape a line that the trainer would skip, in full or in part."""
    for reserved in "\0\t\u2585":  # the trainer's separators; it skips lines with U+2585
        line = line.replace(reserved, " ")
    for piece in (EOS_PIECE, UNK_PIECE, *_BYTE_PIECE.findall(line)):
        line = line.replace(piece, f"{piece[:-1]} {piece[-1]}")
    start = 0
    while len(line) - start > _LINE:
        space = line.rfind(" ", start + 1, start + _LINE)
        end = space if space > 0 else start + _LINE
        yield line[start:end]
        start = end
    yield line[start:]


def _training_error(error: RuntimeError, *, lines: int, config: TokenizerConfig) -> ValueError:
    """Translate the library's error into terms of the recipe."""
    needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if needed:
        return ValueError(
            f"tokenizer.vocab_size {config.vocab_size} is too small for the corpus's "
            f"characters: make it at least {int(needed[1]) + 1}, or lower "
            f"tokenizer.character_coverage"
        )
    if not lines or "sentences_.empty()" in str(error):
        return ValueError("no text to train the tokenizer on; check the files in data.train")
    return ValueError(f"SentencePiece could not train a vocabulary on {lines} lines: {error}")
