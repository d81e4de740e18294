"""Language identification without a model, by word frequencies of the corpus itself.

The evidence of a word for a side is the log ratio of its frequencies on the two sides. The bulk of
a corpus thus defines its source and target language, and a pair is swapped if each of its sides
resembles the other one. If all pairs are wrong, only a word list can tell.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from transduce.data.corpus import Pair, read_pairs

_WIDE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
# In scripts without spaces a character is a word.
_WORD = re.compile(f"[{_WIDE}]|[^\\W\\d{_WIDE}]+")

_MIN_COUNT = 3  # occurrences of a word that counts as evidence
_MIN_EVIDENCE = 4.0  # nats of evidence that each side must give
_MAX_WORD_EVIDENCE = 3.0  # nats that one word may give
_MIN_SHARE = 0.02  # share of listed words below which a list is not conclusive
_MIN_FACTOR = 2.0  # times as many words of another language

_COMMON: Final[Mapping[str, str]] = {
    "en": "the of and to is was that it with for you he she this are a in on at",
    "de": "der die und das ist nicht ein eine einem einen den mit ich sie zu auf im sich",
    "fr": "le les et des est une dans pas que il du je vous au pour",
    "es": "el los y una por con que las no es lo se su del un",
    "it": "il di che è non una per della gli sono mi ho con le",
    "nl": "het een van en de niet dat ik zijn op te voor hij met",
    "pt": "os que não uma em um da do eu com para é se as",
    "sv": "och att det är en som på inte jag för han med av den ett",
    "pl": "nie się na że jest jak w z do po czy tak ale dla",
    "cs": "se na že v jsem si není ale jak co jsou byl bych",
    "tr": "bir ve bu için çok ne ben var mı değil ile ama daha gibi",
}
"""Frequent words of languages that share a script."""

_NEIGHBOURS: Final[Mapping[str, str]] = {
    "da": "og det er ikke jeg en som på til med af at mig vi",
    "nb": "og det er ikke jeg en som på til med av å meg vi",
    "ca": "que el la els i és amb no per una al del les però",
    "gl": "que os non unha un da do é eu con para se as máis",
    "ro": "și nu este în cu pe un o să mai din că la sunt",
    "sk": "sa na že v je som si nie ale ako čo sú bol s",
    "af": "die het nie en is van ek sy in om te vir wat hy",
    "ru": "это что как он она но был так его мне мы все только",
    "uk": "це що як він вона але був так його мені ми є та",
    "bg": "това че като той тя но беше ще се да сме е са",
}
"""Frequent words of languages that a guess must not confuse with others."""

_GUESS_SAMPLE = 20_000  # pairs to guess languages from
_GUESS_SHARE = 0.06  # of listed words
_GUESS_FACTOR = 1.2  # times as many as of any other language
_GUESS_WORDS = 5  # distinct listed words
_SOLE_LANGUAGE: Final[Mapping[str, str]] = {
    "Greek": "el",
    "Armenian": "hy",
    "Hebrew": "he",
    "Thai": "th",
    "Georgian": "ka",
}

_SCRIPT_SAMPLE = 2000  # sentences to detect a script from

_SCRIPTS: Final[Mapping[str, str]] = {
    "Latin": "A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ",
    "Greek": "Ͱ-Ͽἀ-῿",
    "Cyrillic": "Ѐ-ԯ",
    "Armenian": "Ա-֏",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f",
    "Devanagari": "\u0900-\u097f",
    "Thai": "\u0e00-\u0e7f",
    "Georgian": "Ⴀ-ჿ",
    "Chinese, Japanese or Korean": "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af",
}
_SCRIPT_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(_COMMON, "Latin"),
    **dict.fromkeys(("ru", "uk", "bg", "be"), "Cyrillic"),
    **dict.fromkeys(("ar", "fa", "ur"), "Arabic"),
    **dict.fromkeys(("zh", "ja", "ko"), "Chinese, Japanese or Korean"),
    **{"el": "Greek", "he": "Hebrew", "hi": "Devanagari", "th": "Thai"},
}
_MIN_FOREIGN_LETTERS = 4  # fewer may be a name or a formula


def words_of(text: str) -> list[str]:
    """Return the words of a text, case-folded; in scripts without spaces, its characters.

    >>> words_of("A dog, 42 cats.")
    ['a', 'dog', 'cats']
    """
    return _WORD.findall(text.casefold())


def guess_languages(files: Sequence[Path]) -> tuple[str, str]:
    """Return the languages of a corpus, each "" unless the text is clear.

    Args:
        files: source and target, or one TSV file.
    """
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
    if script in _SOLE_LANGUAGE:
        return _SOLE_LANGUAGE[script]
    text = " ".join(texts)
    if script.startswith("Chinese"):
        kana, hangul = (len(re.findall(span, text)) for span in ("[ぁ-ヺ]", "[가-힣]"))
        letters = len(_WORD.findall(text))
        return "ja" if kana > 0.1 * letters else "ko" if hangul > 0.5 * letters else "zh"
    words, lists = Counter(words_of(text)), {**_COMMON, **_NEIGHBOURS}
    shares = _shares(words, lists)
    second, first = sorted(shares, key=shares.__getitem__)[-2:]
    clear = shares[first] > max(_GUESS_SHARE, _GUESS_FACTOR * shares[second])
    distinct = words.keys() & lists[first].split()
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
        script: script of the side.

    Returns:
        A language code or a script name; "" if there is no mismatch.

    >>> mismatched_language("en", "de", words=Counter(["der", "hund"]), script=Script(["der hund"]))
    'de'
    """
    code, other = (tag.casefold().replace("_", "-").partition("-")[0] for tag in (code, other))
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
    """Return the share of each language's listed words."""
    total = max(1, words.total())
    return {
        language: sum(words[word] for word in common.split()) / total
        for language, common in lists.items()
    }
