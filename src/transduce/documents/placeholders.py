"""Placeholders: what must come out of a translation exactly as it went in.

They are what a program or a reader needs letter for letter: `{name}` `{0:.2f}` `{{ x }}` `{% if %}`
`${x}` `%{x}` `$HOME` of templates; `%s` `%(name)d` `%1$s` `%%` of printf; tags and entities;
URLs and addresses of mail; emoji, which few vocabularies have, and `:emoji:`.

Left out, because text of people holds them too: a lone `%`, also behind a number (`100%ige`),
`%1`, `$5`, `@name`, `#tag`. Of ICU's `{n, plural, one {# file}}` the words inside are to be
translated, so it is no placeholder.
"""

import re
from collections import Counter
from collections.abc import Iterable

from transduce.data.sentence_splitting import Span

_EMOJI = "\u2300-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"
_URL = '[^\\s<>"“”„«»]'
# Every repetition is bounded, or begins where nothing like it can begin within it: the time is
# linear in the text, whatever it is.
_PLACEHOLDER = re.compile(
    rf"(?:https?|ftp)://{_URL}*[^\s<>\"“”„«».,;:!?)\]}}'…]"
    rf"|\bwww\.{_URL}*[^\s<>\"“”„«».,;:!?)\]}}'…]"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
    r"|</?[A-Za-z][\w:-]{0,64}(?:\s[^<>]*)?/?>"
    r"|&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
    r"|\{\{[^{}]{1,64}\}\}|\{%[^{}%]{1,128}%\}|[$%#]?\{[^{}\s]{0,64}\}"
    r"|(?<!\d)%(?:\(\w{1,64}\)|[0-9]{1,2}\$)?[-+#0]?(?:[0-9]{1,3}|\*)?(?:\.[0-9]{1,2})?"
    r"(?:hh|h|ll|l|z)?[diouxXeEfFgGcrsa@]|%%"
    r"|\$[A-Za-z_]\w+"
    r"|(?<![\w:]):[a-z][a-z0-9_+-]{1,40}:(?![\w:])"
    rf"|[{_EMOJI}][{_EMOJI}\ufe0f\u200d\U000e0020-\U000e007f]*"
)

_HINT = re.compile(
    rf"[@<&{{%$:{_EMOJI}]|www\."
)  # every placeholder has one of these; most text none


def find(text: str) -> list[Span]:
    """Where the placeholders of a text begin and end.

    >>> [(start, end) for start, end in find("Hi {name}, 5 %s")]
    [(3, 9), (13, 15)]
    """
    return [found.span() for found in _found(text)]


def count(text: str) -> Counter[str]:
    """How often each placeholder stands in a text."""
    return Counter(found[0] for found in _found(text))


def changed(before: Counter[str], after: Counter[str]) -> tuple[str, ...]:
    """Which placeholders do not stand in `after` as often as in `before`, each once."""
    return tuple(one for one in (before | after) if before[one] != after[one])


def _found(text: str) -> Iterable[re.Match[str]]:
    return _PLACEHOLDER.finditer(text) if _HINT.search(text) else ()
