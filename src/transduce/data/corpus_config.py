"""Settings of the text room: where the corpus lies, its languages, how it is cut into pieces.

Torch-free, so that the command line can read a recipe without waiting for torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_BLEU_TOKENIZERS = (
    *("", "none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"),
    *("spm", "flores101", "flores200"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Languages:
    """What is translated into what: codes for programs, names for people.

    Raises:
        ValueError: if a code is blank; the message names the setting.
    """

    source: str = "source"
    """Code of the source language, such as "en". Any text does for what is no language."""

    target: str = "target"
    """Code of the target language. BLEU's tokeniser follows it unless `score` says otherwise."""

    source_name: str = ""
    target_name: str = ""
    """Names shown to people ("English", "German"); empty shows the code."""

    def __post_init__(self) -> None:
        for side, code in (("source", self.source), ("target", self.target)):
            if not code.strip():
                raise ValueError(f'languages.{side} must be a code such as "en", not {code!r}')


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig:
    """Where the parallel text lies and which pairs of it are worth learning from.

    Raises:
        ValueError: if a value is out of range; the message names the setting and the value.
    """

    folder: str = "."
    """The folder that relative file names are looked up in (relative to the working directory)."""

    train: tuple[str, ...] = ()
    """Two files (source, target), or one TSV file of two columns; each plain or named .gz."""

    validation: tuple[str, ...] = ()
    """As `train`. Empty: `held_out` pairs of `train` are kept apart and never trained on."""

    test: tuple[str, ...] = ()
    """As `train`. Empty: no test score."""

    held_out: int = 1000
    """Pairs of `train` kept apart when there are no validation files; at most 5 % of it."""

    not_utf8: Literal["refuse", "drop"] = "refuse"
    """A training line that is not UTF-8 is an error, or its pair is dropped and counted."""

    max_ratio: float = 4.0
    """Most (longer side + 10) / (shorter side + 10), counted in characters that are not blank."""

    max_pieces: int = 256
    """Most pieces of a training pair's source or target, without EOS; longer pairs are dropped."""

    def __post_init__(self) -> None:
        for name, files in (
            ("train", self.train),
            ("validation", self.validation),
            ("test", self.test),
        ):
            if len(files) > 2:
                raise ValueError(
                    f"data.{name} must be two files (source, target) or one TSV file, "
                    f"not {len(files)} files"
                )
        if self.not_utf8 not in ("refuse", "drop"):
            raise ValueError(f'data.not_utf8 must be "refuse" or "drop", not {self.not_utf8!r}')
        if self.held_out < 0:
            raise ValueError(f"data.held_out must be 0 or more, not {self.held_out}")
        if not self.max_ratio >= 1.0:  # written so that nan is refused too
            raise ValueError(f"data.max_ratio must be 1 or more, not {self.max_ratio}")
        if self.max_pieces < 1:
            raise ValueError(f"data.max_pieces must be 1 or more, not {self.max_pieces}")

    def paths(self, names: Sequence[str]) -> tuple[Path, ...]:
        """Look file names up in `folder`; an absolute name stays as it is.

        >>> [path.as_posix() for path in CorpusConfig(folder="corpus").paths(["a.en", "/tmp/a.de"])]
        ['corpus/a.en', '/tmp/a.de']
        """
        return tuple(Path(self.folder).expanduser() / Path(name).expanduser() for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    """How text is cut into pieces. One vocabulary serves source and target (paper, 5.1).

    Raises:
        ValueError: if a value is out of range; the message names the setting and the value.
    """

    kind: Literal["bpe", "unigram"] = "bpe"
    """The two subword models of SentencePiece; the paper used byte-pair encoding."""

    vocab_size: int = 8000
    """Pieces wanted, EOS, UNK and PAD included. A small corpus may have no room for so many."""

    character_coverage: float = 1.0
    """Share of the corpus's characters that get a piece; the rarest rest becomes UNK.
    Below 1 helps where characters are many, as in Chinese (0.9995)."""

    byte_fallback: bool = False
    """Spell characters that have no piece in the bytes of UTF-8 (256 pieces more), never by UNK."""

    extend: int = 0
    """Pieces to learn from the corpus for the vocabulary of the model that training starts from."""

    def __post_init__(self) -> None:
        if self.extend < 0:
            raise ValueError(f"tokenizer.extend must be 0 or more, not {self.extend}")
        if self.kind not in ("bpe", "unigram"):
            raise ValueError(f'tokenizer.kind must be "bpe" or "unigram", not {self.kind!r}')
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
        if not 0.98 <= self.character_coverage <= 1.0:
            raise ValueError(
                f"tokenizer.character_coverage must be in [0.98, 1], not {self.character_coverage}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreConfig:
    """How translations are scored.

    Raises:
        ValueError: if the tokeniser is none of sacreBLEU's.
    """

    bleu_tokenize: str = ""
    """sacreBLEU's tokeniser; "" follows the target language, "none" is for text cut already."""

    def __post_init__(self) -> None:
        if self.bleu_tokenize not in _BLEU_TOKENIZERS:
            allowed = ", ".join(repr(name) for name in _BLEU_TOKENIZERS)
            raise ValueError(
                f"score.bleu_tokenize must be one of {allowed}, not {self.bleu_tokenize!r}"
            )
