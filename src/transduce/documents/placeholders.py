"""Placeholders: text that a translation must contain unchanged.

These are `{name}` `{0:.2f}` `{{ x }}` `{% if %}` `${x}` `%{x}` `$HOME` of templates; ICU's
`{d, date, short}`; `%s` `%(name)d` `%<name>s` `%1$s` `%,d` `%%` of printf; tags, entities and
timings of words in WebVTT (`<00:00:01.500>`); URLs and e-mail addresses; emoji, which few
vocabularies have, and `:emoji:`.

Excluded, because ordinary text has them too: a lone `%`, also after a number (`100%ige`), `%1`,
`$5`, `@name`, `#tag`; and ICU's `{n, plural, one {# file}}`, whose words are to be translated.
"""

import re
from collections import Counter
from collections.abc import Iterable

from transduce.data.protection import ADDRESS, VARIABLE
from transduce.data.segmentation import MASK, Span

_EMOJI = "\u2300-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"
# Every repetition is bounded, or starts where no match of it can start inside it, so that the time
# is linear in the text.
_PLACEHOLDER = re.compile(
    f"{ADDRESS}"
    r"|<(?:[0-9]{2,4}:)?[0-9]{2}:[0-9]{2}\.[0-9]{3}>"
    r"|</?[A-Za-z][\w:.-]{0,64}(?:\s[^<>]*)?/?>"
    r"|&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
    r"|\{\{[^{}]{1,64}\}\}|\{%[^{}%]{1,128}%\}|[$%#]?\{[^{}\s]{0,64}\}"
    r"|\{\s*[\w.-]{1,64}\s*,\s*(?:number|date|time|duration|spellout|ordinal|choice)\b[^{}]{0,64}\}"
    r"|(?<!\d)%(?:\(\w{1,64}\)|<\w{1,64}>|[0-9]{1,2}\$)?[-+#0,']{0,3}(?:[0-9]{1,3}|\*)?"
    r"(?:\.[0-9]{1,2})?(?:hh|h|ll|l|z)?[diouxXeEfFgGcrsa@]|%%"
    rf"|{VARIABLE}"
    r"|(?<![\w:]):[a-z][a-z0-9_+-]{1,40}:(?![\w:])"
    rf"|[{_EMOJI}][{_EMOJI}\ufe0f\u200d\U000e0020-\U000e007f]*"
)
# A quick test: every placeholder has one of these, most text has none.
_HINT = re.compile(rf"[@<&{{%$:{_EMOJI}]|www\.")


def find(text: str) -> list[Span]:
    """Return the spans of the placeholders of a text.

    >>> find("Hi {name}, 5 %s")
    [(3, 9), (13, 15)]
    """
    return [match.span() for match in _matches(text)]


def count(text: str) -> Counter[str]:
    """Count the placeholders of a text."""
    return Counter(match[0] for match in _matches(text))


def mismatched(before: Counter[str], after: Counter[str]) -> tuple[str, ...]:
    """Return the placeholders whose counts differ."""
    return tuple(text for text in (before | after) if before[text] != after[text])


def mask_placeholders(text: str) -> str:
    """Replace each character of a placeholder by `MASK`, so that segmentation does not split it."""
    if not _HINT.search(text):
        return text
    return _PLACEHOLDER.sub(lambda match: MASK * len(match[0]), text)


def _matches(text: str) -> Iterable[re.Match[str]]:
    return _PLACEHOLDER.finditer(text) if _HINT.search(text) else ()
