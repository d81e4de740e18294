"""Language codes, as file names have them, and English names."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from transduce.io.streams import split_compression

_TABLE: Final[dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
_CODES: Final = {other: code for code, text in _TABLE.items() for other in text.split(", ")[1:]}
"""Two letters for the three of ISO 639-3 and 639-2."""
_KNOWN: Final = frozenset(_CODES.values())  # without codes of more meanings, such as "mt"
_TAG = re.compile("([a-zA-Z]{2,3})(?:[-_]([A-Z][a-z]{3}))?(?:[-_]([A-Z]{2}))?")


def base_language(code: str) -> str:
    """Return the language of a code without its region, in lower case.

    >>> base_language("pt_BR")
    'pt'
    """
    return code.strip().replace("_", "-").partition("-")[0].lower()


def language_name(code: str) -> str:
    """Return the English name of a language, with its variant if any; the code if it has none.

    >>> language_name("deu"), language_name("pt_BR"), language_name("xx")
    ('German', 'Portuguese (BR)', 'xx')
    """
    base, _, variant = code.replace("_", "-").partition("-")
    name = _TABLE.get(_CODES.get(base.lower(), base.lower()), "").partition(",")[0]
    return f"{name} ({variant})" if name and variant else name or code


class LanguagePair(NamedTuple):
    """A translation direction of a model that has several, by language codes."""

    source: str
    target: str

    def __str__(self) -> str:
        """Format as "en-de"."""
        return f"{self.source}-{self.target}"


def zero_shot_pairs(trained: Iterable[LanguagePair]) -> tuple[LanguagePair, ...]:
    """Return the directions between the languages of some directions that are not among them.

    >>> zero_shot_pairs([LanguagePair("de", "en"), LanguagePair("en", "fr")])
    (LanguagePair(source='de', target='fr'),)
    """
    known = list(trained)
    sources = dict.fromkeys(pair.source for pair in known)
    targets = dict.fromkeys(pair.target for pair in known)
    pairs = [LanguagePair(source, target) for source in sources for target in targets]
    return tuple(pair for pair in pairs if pair.source != pair.target and pair not in known)


def same_language(code: str, other: str) -> bool:
    """Whether two codes name one language, as "fra" and "fr" do.

    >>> same_language("fra", "fr"), same_language("zh-TW", "zh")
    (True, False)
    """
    first, second = (normalized_code(text) or text for text in (code, other))
    return first.lower() == second.lower()


def code_forms(code: str) -> tuple[str, str, str]:
    """Return a code in lower case: as it is, with two letters for the language, and normalised.

    >>> code_forms("srp_Latn")
    ('srp-latn', 'sr-latn', 'sr')
    """
    exact = code.replace("_", "-").lower()
    language, dash, variant = exact.partition("-")
    short = f"{_CODES.get(language, language)}{dash}{variant}"
    return exact, short, (normalized_code(code) or code).lower()


def file_language(*files: Path | None) -> str:
    """Return the language code in which the first of the files' names ends; "" if none does.

    Another ending may follow it. ISO 639-3 codes become two letters where there are two.

    >>> file_language(Path("train.zh-CN.gz")), file_language(Path("corpus.deu"))
    ('zh-CN', 'de')
    >>> file_language(Path("news.2024.en.txt")), file_language(Path("dev.zho_Hans"))
    ('en', 'zh-Hans')
    """
    for file in files:
        suffixes = Path(split_compression(file.name)[0]).suffixes if file else []
        for index, suffix in enumerate(reversed(suffixes[-2:])):
            if code := normalized_code(suffix[1:], known_only=index > 0):
                return code
    return ""


def normalized_code(text: str, *, known_only: bool = False) -> str:
    """Return text as a language code, of two letters where there are two; "" if it is none.

    >>> normalized_code("eng_US")
    'en-US'
    """
    tag = _TAG.fullmatch(text)
    language, script, region = tag.groups() if tag else ("", None, None)
    language = _CODES.get(language.lower(), language.lower())
    if len(language) != 2 or (known_only and language not in _KNOWN):
        return ""
    # Of scripts only those of Chinese are customary in codes: "zh-Hant", but "de" for deu_Latn.
    kept = (language, script if language == "zh" else None, region)
    return "-".join(part for part in kept if part)


def normalized_base(code: str) -> str:
    """Return the language of a code, as `base_language`, of two letters where there are two.

    >>> normalized_base("deu_AT")
    'de'
    """
    return base_language(normalized_code(code) or code)
