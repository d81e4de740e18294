"""A text taken apart into what is to be translated, and put together from the translations.

    >>> apart = take_apart("Hello {name}!  How are you?", "placeholders")
    >>> [ask.text for ask in apart.ask]
    ['Hello {name}!', 'Hello', 'How are you?']
    >>> put_together(apart, [Said("Hallo Name!"), Said("Hallo"), Said("Wie geht's?")]).text
    "Hallo {name}!  Wie geht's?"

All is asked for in one pass, so that a text costs one call to a translator. White space and line
ends between sentences come back as they were; what has no letter or digit is not asked for.

Of a page ("html") the tags, comments and attributes are kept as they are, `title` and `alt` too;
`script`, `style`, `pre`, `code`, `textarea` and what says `translate="no"` keep their text. What a
translation says is written as text: it can never become a tag.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.data.sentence_splitting import spans
from transduce.documents.html import covered, page_parts
from transduce.documents.marked import Ask, Marked, Markup, Said, Together

__all__ = ["Apart", "Ask", "Markup", "Said", "Together", "put_together", "take_apart"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Apart:
    """A text in parts. `take_apart` makes it."""

    ask: tuple[Ask, ...]
    """What is to be translated, in order: of each sentence the whole, then the runs between its
    marks, if it has any."""

    parts: tuple[str | Marked, ...]
    """What is kept, and the sentences."""


def take_apart(text: str, markup: Markup = "none") -> Apart:
    """Take a text apart.

    Args:
        text: of any length.
        markup: what is to come out as it was: "none" minds white space alone, "placeholders" also
            `{name}`, `%s`, URLs and their like, "html" takes the text for a page or a part of one,
            and minds placeholders too.
    """
    parts = tuple(page_parts(text) if markup == "html" else _text_parts(text, markup))
    sentences = (part for part in parts if isinstance(part, Marked))
    return Apart(ask=tuple(ask for one in sentences for ask in one.asks()), parts=parts)


def put_together(apart: Apart, said: Sequence[Said]) -> Together:
    """Put a text together.

    Args:
        apart: what `take_apart` made of it.
        said: a translation for each of `apart.ask`. One without an alignment where one was wanted
            is good for a sentence without tags in it.
    """
    assert len(said) == len(apart.ask), f"{len(said)} translations for {len(apart.ask)} asked"
    texts: list[str] = []
    lost: list[str] = []
    done = 0
    for part in apart.parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        after = done + len(part.asks())
        sentence = part.put(said[done:after])
        texts.append(sentence.text)
        lost += sentence.lost
        done = after
    return Together("".join(texts), tuple(lost))


def _text_parts(text: str, markup: Markup) -> Iterator[str | Marked]:
    done = 0
    for start, end in spans(text if markup == "none" else covered(text)):
        sentence = text[start:end]
        yield text[done:start]
        yield Marked(raw=sentence, text=sentence, markup=markup)
        done = end
    yield text[done:]
