"""Markdown keeps all that is not text, and its markup moves with the words."""

# ruff: noqa: E501

import time

import pytest
from tests.archives import reversed_words, same, translated

from transduce.documents.formats import read_document

PAGE = """---
title: no text
---
# A *red* dog #

See **the big** world, [a link](https://a.org/b_c "no text") and `code here`.
Next line, ![no text](x.png).\\
After a break: [Ref] and [other][ref].

> [!NOTE]
> Quoted text
> over lines

- [ ] do it
- item two

| Head one | b \\| c |
|---|---|
| one cell | **bold** cell |

```python
# no text
```

    no text

<p align="center">Some <b>page</b> text</p>

[ref]: https://ref.org "no text"
[^1]: the footnote
"""
REVERSED = """---
title: no text
---
# DOG *RED* A #

SEE **BIG THE** WORLD, [LINK A](https://a.org/b_c "no text") AND `code here`. ![no text](x.png). LINE, NEXT\\
[OTHER][ref]. AND [REF][Ref] BREAK: A AFTER

> [!NOTE]
> LINES OVER TEXT QUOTED

- [ ] IT DO
- TWO ITEM

| ONE HEAD | C \\| B |
|---|---|
| CELL ONE | CELL **BOLD** |

```python
# no text
```

    no text

<p align="center">TEXT <b>PAGE</b> SOME</p>

[ref]: https://ref.org "no text"
[^1]: FOOTNOTE THE
"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_same_texts_give_the_same_bytes(end: str) -> None:
    content = PAGE.replace("\n", end).encode()

    assert same(read_document("a.md", content)) == content


def test_markup_moves_with_its_words() -> None:
    assert translated(read_document("a.md", PAGE.encode()), reversed_words).decode() == REVERSED


@pytest.mark.parametrize(
    ("source", "translation", "written"),
    [
        ("a dog", "*a* [dog]", r"\*a\* \[dog\]"),
        ("a dog", "1. dog", r"1\. dog"),
        ("a dog", "- dog", r"\- dog"),
        ("a dog", "# dog", r"\# dog"),
        ("# a dog", "1. dog", "# 1. dog"),
        ("a_dog", "b_dog", "b_dog"),
    ],
)
def test_a_translation_is_never_markup(source: str, translation: str, written: str) -> None:
    assert read_document("a.md", source.encode()).rebuild([translation]).decode() == written


@pytest.mark.parametrize("text", ["*a ", "[", "`a ", "[`", "<a ", "![a", "[a](", "_a __b ", "> "])
def test_hostile_markdown_takes_no_time(text: str) -> None:
    content = (text * 10_000).encode()
    begun = time.process_time()

    assert same(read_document("a.md", content)) == content

    assert time.process_time() - begun < 3
