"""Language identification without a model, by word frequencies of the corpus itself.

The evidence of a word for a side is the log ratio of its frequencies on the two sides. The bulk of
a corpus thus defines its source and target language, and a pair is swapped if each of its sides
resembles the other one. If all pairs are wrong, only a word list can tell.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from transduce.data.corpus import Pair, read_pairs
from transduce.data.languages import base_language

_WIDE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
# In scripts without spaces a character is a word.
_WORD = re.compile(f"[{_WIDE}]|[^\\W\\d{_WIDE}]+")

_MIN_COUNT = 3  # occurrences of a word that counts as evidence
_MIN_EVIDENCE = 4.0  # nats of evidence that each side must give
_MAX_WORD_EVIDENCE = 3.0  # nats that one word may give
_MIN_SHARE = 0.02  # share of listed words below which a list is not conclusive
_MIN_FACTOR = 2.0  # times as many words of another language

_TABLES: Final = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
_COMMON: Final[Mapping[str, str]] = _TABLES["common"]
"""Frequent words of languages that share a script."""
_LISTS: Final[Mapping[str, str]] = _COMMON | _TABLES["neighbours"]
_SCRIPTS: Final[Mapping[str, str]] = _TABLES["scripts"]
_SCRIPT_OF: Final[Mapping[str, str]] = dict.fromkeys(_COMMON, "Latin") | {
    code: script for script, codes in _TABLES["script_languages"].items() for code in codes
}

_GUESS_SAMPLE = 20_000  # pairs to guess languages from
_GUESS_SHARE = 0.06  # of listed words
_GUESS_FACTOR = 1.2  # times as many as of any other language
_GUESS_WORDS = 5  # distinct listed words
_SCRIPT_SAMPLE = 2000  # sentences to detect a script from

_MIN_FOREIGN_LETTERS = 4  # fewer may be a name or a formula


def words_of(text: str) -> list[str]:
    """Return the words of a text, case-folded; in scripts without spaces, its characters.

    >>> words_of("A dog, 42 cats.")
    ['a', 'dog', 'cats']
    """
    return _WORD.findall(text.casefold())


def guess_languages(files: Sequence[Path]) -> tuple[str, str]:
    """Return the languages of a corpus, two files or a TSV file; each "" unless it is clear."""
    pairs = [pair for _, pair in islice(read_pairs(files, not_utf8="drop"), _GUESS_SAMPLE)]
    return guess_language([pair.source for pair in pairs]), guess_language(
        [pair.target for pair in pairs]
    )


def guess_language(texts: Sequence[str]) -> str:
    """Return the language of texts by script and frequent words; "" unless it is clear.

    >>> guess_language(["Der Hund ist in dem Garten und die Katze nicht."]), guess_language(["7"])
    ('de', '')
    """
    script = Script(texts).name
    if sole := _TABLES["sole_languages"].get(script):
        return sole
    text = " ".join(texts)
    if script.startswith("Chinese"):
        kana, hangul = (len(re.findall(span, text)) for span in ("[ぁ-ヺ]", "[가-힣]"))
        letters = len(_WORD.findall(text))
        return "ja" if kana > 0.1 * letters else "ko" if hangul > 0.5 * letters else "zh"
    words = Counter(words_of(text))
    shares = _shares(words, _LISTS)
    second, first = sorted(shares, key=shares.__getitem__)[-2:]
    clear = shares[first] > max(_GUESS_SHARE, _GUESS_FACTOR * shares[second])
    distinct = words.keys() & _LISTS[first].split()
    return first if clear and len(distinct) >= _GUESS_WORDS else ""


class SideClassifier:
    """Distinguishes the source side of a corpus from its target side."""

    def __init__(self, sample: Iterable[Pair]) -> None:
        """Estimate word frequencies from sample pairs, few of which may be swapped."""
        source, target = Counter[str](), Counter[str]()
        for pair in sample:
            source.update(words_of(pair.source))
            target.update(words_of(pair.target))
        prior = math.log((source.total() + 1) / (target.total() + 1))
        self._evidence = {
            word: max(-_MAX_WORD_EVIDENCE, min(_MAX_WORD_EVIDENCE, evidence))
            for word in source.keys() | target.keys()
            if source[word] + target[word] >= _MIN_COUNT
            and (evidence := math.log((source[word] + 0.5) / (target[word] + 0.5)) - prior)
        }
        self.words = (source, target)

    def swapped(self, pair: Pair) -> bool:
        """Whether each side of a pair clearly resembles the other side's language."""
        return (
            self._source_evidence(pair.source) < -_MIN_EVIDENCE
            and self._source_evidence(pair.target) > _MIN_EVIDENCE
        )

    def _source_evidence(self, text: str) -> float:
        """Evidence in nats that `text` is a source."""
        evidence = self._evidence.get
        return sum([evidence(word, 0.0) for word in words_of(text)], 0.0)


class Script:
    """The script of a side."""

    def __init__(self, sample: Sequence[str]) -> None:
        """Detect the script of at least 80 % of the letters of a sample."""
        text = " ".join(sample[:: -(-len(sample) // _SCRIPT_SAMPLE) or 1])
        letters = {name: len(re.findall(f"[{span}]", text)) for name, span in _SCRIPTS.items()}
        name, count = max(letters.items(), key=lambda item: item[1])
        self.name = name if count > 0.8 * sum(letters.values()) else ""
        """Name of the script; "" if scripts are mixed or the sample has no letters."""
        foreign = "".join(span for other, span in _SCRIPTS.items() if other != self.name)
        self._own = re.compile(f"[{_SCRIPTS.get(self.name, '')} ]")
        self._foreign = re.compile(f"[{foreign}]")

    def foreign(self, text: str) -> bool:
        """Whether most letters of a text belong to another script."""
        if not self.name or (self.name == "Latin" and text.isascii()):
            return False
        if not self._foreign.search(text):
            return False
        foreign = len(self._foreign.findall(text))
        return foreign >= _MIN_FOREIGN_LETTERS and foreign > len(self._own.findall(text))


def mismatched_language(code: str, other: str, *, words: Counter[str], script: Script) -> str:
    """Return the apparent language of a side if it is clearly not the expected one.

    Args:
        code: expected language code; accepted if unknown here.
        other: language code of the other side.
        words: counts of the side's case-folded words.

    Returns:
        A language code or a script name; "" if there is no mismatch.

    >>> mismatched_language("en", "de", words=Counter(["der", "hund"]), script=Script(["der hund"]))
    'de'
    """
    code, other = base_language(code), base_language(other)
    expected = _SCRIPT_OF.get(code)
    if expected and script.name and script.name != expected:
        return script.name
    if code not in _COMMON:
        return ""
    share = _shares(words, _COMMON)
    threshold = max(_MIN_SHARE, _MIN_FACTOR * share[code])
    likely = [language for language in share if share[language] > threshold]
    return other if other in likely else max(likely, key=share.__getitem__, default="")


def _shares(words: Counter[str], lists: Mapping[str, str]) -> dict[str, float]:
    total = max(1, words.total())
    return {
        language: sum(words[word] for word in common.split()) / total
        for language, common in lists.items()
    }
