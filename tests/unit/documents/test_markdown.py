"""Markdown keeps all that is not text, and its markup moves with the words."""

# ruff: noqa: E501

import time

import pytest
from tests.archives import MARKDOWN, reversed_words, same, translated

from transduce.documents.formats import read_document

REVERSED = """---
title: no text
---
# DOG *RED* A #

SEE **BIG THE** WORLD, [LINK A](https://a.org/b_c "no text") AND `code here`. ![no text](x.png). LINE, NEXT\\
[OTHER][ref]. AND [REF][Ref] BREAK: A AFTER

> [!NOTE]
> LINES OVER TEXT QUOTED

::: tip
DIRECTIVE A IN
:::

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
    content = MARKDOWN.replace("\n", end).encode()

    assert same(read_document("a.md", content)) == content


def test_markup_moves_with_its_words() -> None:
    assert translated(read_document("a.md", MARKDOWN.encode()), reversed_words).decode() == REVERSED


@pytest.mark.parametrize(
    ("source", "translation", "written"),
    [
        ("a dog", "*a* [dog]", r"\*a\* \[dog\]"),
        ("a dog", "1. dog", r"1\. dog"),
        ("a dog", "- dog", r"\- dog"),
        ("a dog", "# dog", r"\# dog"),
        ("# a dog", "1. dog", "# 1. dog"),
        ("a_dog", "b_dog", "b_dog"),
        ("a dog\n===", "1. dog", "1\\. dog\n==="),
        ("a dog", "a | dog", "a | dog"),
    ],
)
def test_a_translation_is_never_markup(source: str, translation: str, written: str) -> None:
    assert read_document("a.md", source.encode()).rebuild([translation]).decode() == written


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("---\n\na dog\n\n---\n", "---\n\nDOG A\n\n---\n"),  # rules, no front matter
        ("---\ntitle: a b\n...\na dog\n", "---\ntitle: a b\n...\nDOG A\n"),
        ("- a dog\n  - *b* c\n\n    d\n    e\n", "- DOG A\n  - C *B*\n\n    E D\n"),
        ("> a dog\nb\n>> c d\n", "> B DOG A\n>> D C\n"),
        ("a dog  \nb c\n===\n", "DOG A  \nC B\n===\n"),
        ("<div>\n\na *b*\n\n</div>\n", "<div>\n\n*B* A\n\n</div>\n"),
        ("a | b c\n--- | ---\nd | b c\n", "A | C B\n--- | ---\nD | C B\n"),
        ("b c | b c\n--- | ---\n", "C B | C B\n--- | ---\n"),
        ("a | b\n--- | ---\n![](c.png) | c\n", "A | B\n--- | ---\n![](c.png) | C\n"),
        ("a `C` b\n", "B `C` A\n"),
        ("a <b>c d</b> e f\n", "F E <b>D C</b> A\n"),
        ("a <code>C</code> \\<X_Y> b\n", "B \\<X_Y> <code>C</code> A\n"),
        ("> <p>a\n> b</p>\n", "> <p>a\n> b</p>\n"),
        ("a dog\n$$\nx_1\n- y\n\n= z\n$$\nb c\n", "DOG A\n$$\nx_1\n- y\n\n= z\n$$\nC B\n"),
        ("> $$a_b$$\n> a dog\n", "> $$a_b$$\n> DOG A\n"),
        ("a $(x + y_1)$ *b c* $$xy - z$$ d\n", "A $(x + y_1)$ *C B* $$xy - z$$ D\n"),
        ("costs $5 and $6 or 7 $ or a_b\n", "A_B OR $ 7 OR $6 AND $5 COSTS\n"),
        ("a dog\n: b c\n:   d e\n\ncat\n\n: f g\n", "DOG A\n: C B\n:   E D\n\nCAT\n\n: G F\n"),
        ("a\0b\nc dog", "a\0b\nc dog"),  # the parser replaces NUL
    ],
)
def test_blocks_keep_their_place(source: str, written: str) -> None:
    document = read_document("a.md", source.encode())

    assert translated(document, reversed_words).decode() == written


def test_emphasis_stays_emphasis_beside_other_words() -> None:
    document = read_document("a.md", b"**s**mall *b*ig")

    written = document.rebuild(["<g id=0>Boot.</g>Hut, Tor<g id=1>(x</g> d"])

    assert written == b"**Boot.** Hut, Tor *(x* d"


@pytest.mark.parametrize(
    "text",
    [
        "*a ",
        "[",
        "`a ",
        "[`",
        "<a ",
        "![a",
        "[a](",
        "_a __b ",
        "> ",
        "a <!--",
        "$a ",
        "$$\n",
        "$$a\n",
    ],
)
def test_hostile_markdown_takes_no_time(text: str) -> None:
    content = (text * 10_000).encode()
    begun = time.process_time()

    assert same(read_document("a.md", content)) == content

    assert time.process_time() - begun < 3


def test_front_matter_without_end_takes_no_time() -> None:
    content = b"---\r\n" + b"a: b\r\n" * 10_000 + b"..\r\n"
    begun = time.process_time()

    assert same(read_document("a.md", content)) == content

    assert time.process_time() - begun < 3
