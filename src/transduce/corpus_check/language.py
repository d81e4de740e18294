"""Which language a text is in, without a model: words that the corpus itself tells apart.

A word says as much for a side as the sides differ in how often they use it. So the bulk of a corpus
says what its source and its target look like, and a pair whose source looks like the target and
whose target looks like the source is swapped. What all pairs have wrong only a list of words knows.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from transduce.data.corpus import Pair

_WIDE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(f"[{_WIDE}]|[^\\W\\d{_WIDE}]+")  # where no spaces stand, a character is a word

_SEEN = 3  # times that a word was seen before it says anything
_CLEAR = 4.0  # nats of evidence that a side must give
_MOST = 3.0  # nats that one word may give
_OWN = 0.02  # of a text's words are among its language's, or the list says nothing
_CLEARLY = 2.0  # times as many words of another language

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
"""Words that a language uses much, of languages that share a script."""

_ENOUGH = 2000  # sentences to see a script by

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
_WRITTEN: Final[Mapping[str, str]] = {
    **dict.fromkeys(_COMMON, "Latin"),
    **dict.fromkeys(("ru", "uk", "bg", "be"), "Cyrillic"),
    **dict.fromkeys(("ar", "fa", "ur"), "Arabic"),
    **dict.fromkeys(("zh", "ja", "ko"), "Chinese, Japanese or Korean"),
    **{"el": "Greek", "he": "Hebrew", "hi": "Devanagari", "th": "Thai"},
}
_FOREIGN_LETTERS = 4  # fewer are a name or a formula


def words_of(text: str) -> list[str]:
    """The words of a text, case folded; where no spaces stand between them, its characters.

    >>> words_of("A dog, 42 cats.")
    ['a', 'dog', 'cats']
    """
    return _WORD.findall(text.casefold())


class Sides:
    """What tells the source side of a corpus from its target side."""

    def __init__(self, sample: Iterable[Pair]) -> None:
        """Learn it from some pairs, of which most are the right way round."""
        source, target = Counter[str](), Counter[str]()
        for pair in sample:
            source.update(words_of(pair.source))
            target.update(words_of(pair.target))
        usual = math.log((source.total() + 1) / (target.total() + 1))
        self._evidence = {
            word: max(-_MOST, min(_MOST, evidence))
            for word in source.keys() | target.keys()
            if source[word] + target[word] >= _SEEN
            and (evidence := math.log((source[word] + 0.5) / (target[word] + 0.5)) - usual)
        }
        self.words = (source, target)

    def swapped(self, pair: Pair) -> bool:
        """Whether each side of a pair clearly looks like the other one's."""
        return self._says(pair.source) < -_CLEAR and self._says(pair.target) > _CLEAR

    def _says(self, text: str) -> float:
        """Nats for `text` being a source."""
        evidence = self._evidence.get
        return sum([evidence(word, 0.0) for word in words_of(text)], 0.0)


class Script:
    """The script that a side is written in, and what is none of it."""

    def __init__(self, sample: Sequence[str]) -> None:
        """Find the script of nearly all letters of a sample; there may be none."""
        text = " ".join(sample[:: -(-len(sample) // _ENOUGH) or 1])
        letters = {name: len(re.findall(f"[{span}]", text)) for name, span in _SCRIPTS.items()}
        name, count = max(letters.items(), key=lambda item: item[1])
        self.name = name if count > 0.8 * sum(letters.values()) else ""
        """"" where several scripts are mixed, or none is used."""
        foreign = "".join(span for other, span in _SCRIPTS.items() if other != self.name)
        self._own = re.compile(f"[{_SCRIPTS.get(self.name, '')} ]")
        self._foreign = re.compile(f"[{foreign}]")

    def foreign(self, text: str) -> bool:
        """Whether most letters of a text are of another script."""
        if not self.name or (self.name == "Latin" and text.isascii()):
            return False
        if not self._foreign.search(text):
            return False
        foreign = len(self._foreign.findall(text))
        return foreign >= _FOREIGN_LETTERS and foreign > len(self._own.findall(text))


def not_said(code: str, other: str, *, words: Counter[str], script: Script) -> str:
    """What a side seems to be written in, if that is clearly not the language of `code`.

    Args:
        code: of the language that it should be; one that is not known here is believed.
        other: of the language of the other side.
        words: of the side, case folded, with their counts.
        script: of the side.

    Returns:
        A language's code or a script's name; "" if nothing is amiss.

    >>> not_said("en", "de", words=Counter(["der", "hund"]), script=Script(["der hund"]))
    'de'
    """
    code, other = (each.casefold().replace("_", "-").partition("-")[0] for each in (code, other))
    written = _WRITTEN.get(code)
    if written and script.name and script.name != written:
        return script.name
    if code not in _COMMON:
        return ""
    total = max(1, words.total())
    share = {
        each: sum(words[word] for word in common.split()) / total
        for each, common in _COMMON.items()
    }
    clear = [each for each in share if share[each] > max(_OWN, _CLEARLY * share[code])]
    return other if other in clear else max(clear, key=lambda each: share[each], default="")
