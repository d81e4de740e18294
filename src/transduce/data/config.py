"""Settings of languages, corpus, tokenizer, batches and scoring.

A value out of range is a ValueError, whose message names the setting and the value. Torch-free, so
that the command line can read a recipe without waiting for torch.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from transduce.data.languages import LanguagePair
from transduce.data.protection import PLACEHOLDERS, protection_of
from transduce.io.settings import check_choices

MICRO_TOKENS = 4096
"""Default size of a micro-batch in positions. Larger ones are no faster on a CPU."""

_CODE = re.compile(r"[A-Za-z][\w-]*")
_BLEU_TOKENIZERS = (
    *("", "none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"),
    *("spm", "flores101", "flores200"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """Batch size: `tokens` affects learning, `micro_tokens` only memory."""

    tokens: int = 25000
    """Target tokens per update, EOS counted, padding not (approximate; paper, 5.1)."""

    micro_tokens: int | Literal["auto"] = MICRO_TOKENS
    """Maximum positions per forward pass: rows x the longest source or target, padding counted.
    It splits an update into micro-batches (gradient accumulation) and never changes which
    sentences are in it. "auto" measures before training what fits into memory, at most 4096 on a
    CPU."""

    subword_sampling: float = 0.0
    """Subword regularisation: resample the segmentation of each training sentence. For BPE the
    probability of dropping a merge (typically 0.1), for unigram the exponent α that smooths the
    segmentation probabilities (typically 0.2); 0 disables it. Inference never samples."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.subword_sampling < 1.0:
            raise ValueError(
                f"batch.subword_sampling must be in [0, 1), not {self.subword_sampling}"
            )
        if self.tokens < 1:
            raise ValueError(f"batch.tokens must be 1 or more, not {self.tokens}")
        if self.positions < 1:
            raise ValueError(f"batch.micro_tokens must be 1 or more, not {self.micro_tokens}")

    @property
    def positions(self) -> int:
        """`micro_tokens` as a number; the default while "auto" has not been measured.

        >>> BatchConfig(micro_tokens="auto").positions
        4096
        """
        return MICRO_TOKENS if self.micro_tokens == "auto" else self.micro_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class AugmentConfig:
    """Shares of the training pairs that are varied each time they are used; see `augmentation`."""

    upper_case: float = 0.0
    """Both sides in upper case (typically 0.07)."""

    title_case: float = 0.0
    """Every word of both sides with a capital (typically 0.05)."""

    typing_errors: float = 0.0
    """Errors in a tenth of the source's words (typically 0.05)."""

    no_end_punctuation: float = 0.0
    """Both sides without their final punctuation (typically 0.2)."""

    stray_spaces: float = 0.0
    """A space too many or too few in the source (typically 0.02)."""

    emoji: float = 0.0
    """The same emoji at the end of both sides (typically 0.005)."""

    def __post_init__(self) -> None:
        for name, share in asdict(self).items():
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"augment.{name} must be in [0, 1], not {share}")
        if self.upper_case + self.title_case > 1.0:
            raise ValueError("augment.upper_case and augment.title_case must not exceed 1 together")

    @property
    def active(self) -> bool:
        """Whether any pair is varied."""
        return self != AugmentConfig()


@dataclass(frozen=True, kw_only=True, slots=True)
class Languages:
    """Translation direction: language codes, and display names."""

    source: str = "source"
    """Source language code, such as "en". Any name will do for data that is not a language, if file
    names may have it."""

    target: str = "target"
    """Target language code. Selects BLEU's tokenizer unless `score` sets one."""

    source_name: str = ""
    target_name: str = ""
    """Display names ("English", "German"); the code if empty, or on the server the English name."""

    @property
    def codes(self) -> tuple[str, str]:
        """Both codes; two empty texts if both are the default."""
        named = (self.source, self.target) != ("source", "target")
        return (self.source, self.target) if named else ("", "")

    def __post_init__(self) -> None:
        for side, code in (("source", self.source), ("target", self.target)):
            if not code.strip() or not code.isprintable() or {"/", "\\"} & {*code}:
                raise ValueError(
                    f'languages.{side} must be a code such as "en", without slashes and control '
                    f"characters, not {code!r}"
                )

    def with_codes(self, *, source: str | None, target: str | None) -> "Languages":
        """Return these languages with other codes; a new code drops the display name."""
        return Languages(
            source=self.source if source is None else source,
            target=self.target if target is None else target,
            source_name=self.source_name if source in (None, self.source) else "",
            target_name=self.target_name if target in (None, self.target) else "",
        )

    @property
    def missing(self) -> list[str]:
        """The sides without a language, as a model has them that was made without any.

        >>> Languages(target="de").missing
        ['source']
        """
        return [side for side in ("source", "target") if getattr(self, side) == side]


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectionConfig:
    """One of several translation directions, and its files."""

    source: str = ""
    """Source language code."""

    target: str = ""
    """Target language code, of which the tag is made."""

    train: tuple[str, ...] = ()
    """As `CorpusConfig.train`. Without training files the direction is zero-shot: only scored."""

    validation: tuple[str, ...] = ()
    """As `CorpusConfig.validation`."""

    test: tuple[str, ...] = ()
    """As `CorpusConfig.test`; of a zero-shot direction too."""

    def __post_init__(self) -> None:
        for side, code in (("source", self.source), ("target", self.target)):
            if not _CODE.fullmatch(code):
                raise ValueError(
                    f'data.directions: {side} must be a language code such as "en", not {code!r}'
                )
        if self.source == self.target:
            raise ValueError(f"data.directions: {self.pair} has one language on both sides")
        if not self.train and (self.validation or not self.test):
            raise ValueError(
                f"data.directions: {self.pair} has no training files: name train, or test alone "
                f"for a zero-shot direction"
            )
        for name in ("train", "validation", "test"):
            _check_files(f"data.directions: {name} of {self.pair}", getattr(self, name))

    @property
    def pair(self) -> LanguagePair:
        """The two codes."""
        return LanguagePair(self.source, self.target)


@dataclass(frozen=True, kw_only=True, slots=True)
class AdditionalCorpus:
    """A corpus to train on besides `train`, such as synthetic pairs of `transduce augment`."""

    source: str = ""
    target: str = ""
    """With `data.directions`: the language codes of the direction that it belongs to."""

    train: tuple[str, ...] = ()
    """As `CorpusConfig.train`. A source may begin with the tag <bt> or <ft>."""

    weight: float = 1.0
    """How often an epoch goes through it; of a fraction, other pairs each time."""

    def __post_init__(self) -> None:
        _check_files("data.also: train", self.train, least=1)
        if not 0.0 < self.weight <= 1000.0:
            raise ValueError(
                f"data.also: the weight of {self.train[0]} must be above 0 and at most 1000, "
                f"not {self.weight}"
            )

    @property
    def pair(self) -> LanguagePair:
        """The two codes."""
        return LanguagePair(self.source, self.target)


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig:
    """Files of the parallel corpus, and the filters applied to its pairs."""

    folder: str = "."
    """Base folder of relative file names (itself relative to the working directory)."""

    train: tuple[str, ...] = ()
    """Two files (source, target), or one of pairs: TSV of two columns, .csv, .tmx, .xlf,
    .xliff, .po, .jsonl, .ndjson; plain or compressed."""

    validation: tuple[str, ...] = ()
    """As `train`. If empty, `held_out` pairs of `train` are held out and never trained on, with all
    pairs of their sources."""

    test: tuple[str, ...] = ()
    """As `train`. If empty, there is no test score."""

    held_out: int = 1000
    """Pairs of `train` held out if there are no validation files; at most 5 % of them."""

    not_utf8: Literal["refuse", "drop"] = "refuse"
    """For a training line that is not UTF-8: raise an error, or drop and count its pair (two files
    and TSV only)."""

    duplicates: Literal["keep", "drop"] = "keep"
    """For a pair that stands in `train` again: train on it each time, or drop and count it. The
    recipes for one's own corpus drop."""

    directions: tuple[DirectionConfig, ...] = ()
    """Several directions in one model, in place of `train`: the source begins with a tag of the
    target language, such as <2de>."""

    temperature: float = 1.0
    """T of sampling among directions and their text for the vocabulary: a direction with n pairs
    is used in proportion to n^(1/T). 1 is the corpus as it is, 5 is usual for unequal sizes."""

    also: tuple[AdditionalCorpus, ...] = ()
    """Further corpora, each with a weight, of which nothing is held out. With `directions` each
    names the one that it belongs to; `temperature` leaves the weights alone."""

    max_ratio: float = 4.0
    """Maximum (longer side + 10) / (shorter side + 10), in non-blank characters."""

    max_pieces: int = 256
    """Maximum pieces of a training source or target, without EOS; longer pairs are dropped."""

    def __post_init__(self) -> None:
        check_choices("data", self)
        check_file_names(self.folder)
        for name in ("train", "validation", "test"):
            _check_files(f"data.{name}", getattr(self, name))
        pairs = [direction.pair for direction in self.directions]
        for pair in pairs:
            if pairs.count(pair) > 1:
                raise ValueError(f"data.directions has {pair} twice: concatenate its files")
        if self.directions and (self.train or self.validation or self.test):
            raise ValueError(
                "data.directions names all files: leave out data.train, data.validation and "
                "data.test"
            )
        if self.directions and not self.trained:
            raise ValueError("data.directions has no direction with training files")
        if self.directions and 0 < sum(bool(part.validation) for part in self.trained) < len(
            self.trained
        ):
            raise ValueError(
                "data.directions: name validation files of all directions with training files, or "
                "of none"
            )
        if self.also and not (self.train or self.directions):
            raise ValueError("data.also is trained on besides data.train: name that")
        known = [part.pair for part in self.trained]
        for part in self.also:
            if known and part.pair not in known:
                raise ValueError(
                    f"data.also: name the direction of {part.train[0]}, one of "
                    f"{', '.join(map(str, known))}, as in --also {known[0]}=FILE"
                )
            if any(part.pair) and not known:
                raise ValueError(
                    f"data.also: {part.train[0]} names the direction {part.pair}, but there are no "
                    f"data.directions: leave it out"
                )
        if not 1.0 <= self.temperature <= 100.0:
            raise ValueError(f"data.temperature must be in [1, 100], not {self.temperature}")
        for name, least in (("held_out", 0), ("max_ratio", 1), ("max_pieces", 1)):
            if not getattr(self, name) >= least:  # NaN fails this comparison too
                raise ValueError(f"data.{name} must be {least} or more, not {getattr(self, name)}")

    @property
    def trained(self) -> tuple[DirectionConfig, ...]:
        """The directions that have training files; the others are zero-shot."""
        return tuple(direction for direction in self.directions if direction.train)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files."""
        several = [(*part.train, *part.validation, *part.test) for part in self.directions]
        several += [part.train for part in self.also]
        return (*self.train, *self.validation, *self.test, *itertools.chain(*several))

    @property
    def validated(self) -> bool:
        """Whether the corpus names validation files; else pairs are held out."""
        return bool(self.validation) or any(part.validation for part in self.directions)

    def paths(self, names: Sequence[str]) -> tuple[Path, ...]:
        """Resolve file names against `folder`; absolute names are kept.

        >>> [path.as_posix() for path in CorpusConfig(folder="corpus").paths(["a.en", "/tmp/a.de"])]
        ['corpus/a.en', '/tmp/a.de']
        """
        return tuple(Path(self.folder).expanduser() / Path(name).expanduser() for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    """Subword vocabulary, shared by source and target (paper, 5.1) unless that is turned off."""

    kind: Literal["bpe", "unigram", "char", "word"] = "bpe"
    """SentencePiece model type; the paper used byte-pair encoding. "char" makes every character a
    piece (the most frequent `vocab_size` of them), for words to spell, transliterate or inflect;
    "word" every word between spaces, for tokenised text: all others become UNK."""

    vocab_size: int = 8000
    """Vocabulary size, EOS, UNK and PAD included; an upper bound for small corpora."""

    shared: bool = True
    """Whether source and target share the vocabulary; false trains one of `vocab_size` a side, for
    scripts that have nothing in common. It needs model.tie "decoder" or "none"."""

    character_coverage: float = 1.0
    """Share of the corpus's characters that get a piece; the rarest others become UNK.
    Below 1 helps with large character sets, such as Chinese (0.9995)."""

    lower_case: bool = False
    """Lower-case all text. The rule is part of the SentencePiece model, so whatever reads the model
    applies it; translations are lower-cased, and scores compare lower-cased text."""

    byte_fallback: bool = False
    """Encode characters without a piece as UTF-8 bytes (256 additional pieces) instead of UNK."""

    protect: tuple[str, ...] = ()
    """Text that a translation repeats unchanged: "code", "url", "number", "capitals", or regular
    expressions. Where both sides of a pair have it, placeholders replace it."""

    extend: int = 0
    """Pieces to add, learned from the corpus, to the vocabulary of the initial model."""

    def __post_init__(self) -> None:
        check_choices("tokenizer", self)
        if self.extend < 0:
            raise ValueError(f"tokenizer.extend must be 0 or more, not {self.extend}")
        if self.kind == "word" and (self.protect or self.byte_fallback):
            raise ValueError(
                "tokenizer.protect and tokenizer.byte_fallback need pieces smaller than a word: "
                'leave them out, or set tokenizer.kind to "bpe"'
            )
        if self.vocab_size < 4:
            raise ValueError(
                f"tokenizer.vocab_size must be 4 or more (EOS, UNK, PAD and a piece), "
                f"not {self.vocab_size}"
            )
        if self.byte_fallback and self.vocab_size < 4 + 256:
            raise ValueError(
                f"tokenizer.byte_fallback needs a tokenizer.vocab_size of 260 or more (256 bytes, "
                f"EOS, UNK, PAD and a piece), not {self.vocab_size}"
            )
        if not self.shared and (self.protect or self.extend):
            raise ValueError(
                "tokenizer.protect and tokenizer.extend need a vocabulary of both sides: leave "
                "them out, or set tokenizer.shared to true"
            )
        if self.protect:
            _check_protected(self.protect, self.vocab_size - 256 * self.byte_fallback)
        if not 0.98 <= self.character_coverage <= 1.0:
            raise ValueError(
                f"tokenizer.character_coverage must be in [0.98, 1], not {self.character_coverage}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreConfig:
    """Scoring of translations."""

    bleu_tokenize: str = ""
    """sacreBLEU tokenizer; "" selects it by target language, "none" is for tokenized text."""

    def __post_init__(self) -> None:
        if self.bleu_tokenize not in _BLEU_TOKENIZERS:
            allowed = ", ".join(repr(name) for name in _BLEU_TOKENIZERS)
            raise ValueError(
                f"score.bleu_tokenize must be one of {allowed}, not {self.bleu_tokenize!r}"
            )


def check_file_names(*names: str) -> None:
    """Refuse file names that are not UTF-8: recipes and records are.

    Raises:
        ValueError: for the first of them.
    """
    for name in names:
        if name.encode(errors="replace").decode() != name:
            raise ValueError(f"{name!r}: the file's name is not UTF-8: rename it")


def _check_files(setting: str, files: Sequence[str], *, least: int = 0) -> None:
    if not least <= len(files) <= 2:
        raise ValueError(
            f"{setting} must be two files (source, target) or one of pairs, not {len(files)} files"
        )
    check_file_names(*files)


def _check_protected(patterns: Sequence[str], pieces: int) -> None:
    """Refuse invalid patterns, and a vocabulary without room for placeholders."""
    try:
        protection_of(tuple(patterns))
    except ValueError as error:
        raise ValueError(f"tokenizer.protect: {error}") from None
    if pieces < 4 + len(PLACEHOLDERS):
        raise ValueError(
            f"tokenizer.protect needs {len(PLACEHOLDERS)} pieces for placeholders: raise "
            f"tokenizer.vocab_size"
        )
