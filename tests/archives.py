"""Small archives, and a translator of documents without a model."""

import io
import re
import zipfile
from collections.abc import Mapping

from transduce.documents.document import Document
from transduce.documents.markup import UnitTranslation, restore_text, segment_text

CATALOGUES = {
    "a.json": '{ "greeting" : "Hi {name}.",\n\t"n": "{n, plural, one {# dog} other {# dogs}}" }\n',
    "a.arb": '{"@@locale": "en", "hi": "Hello {name}!", "@hi": {"description": "no text"}}',
    "messages.json": """{"hi": {"message": "A dog $1", "description": "no text",
  "placeholders": {"x": {"content": "$1", "example": "no text"}}}}""",
    "a.yml": """# a comment
en: # "no text"
  plain: plain dog
  single: 'it''s one'
  double: "two \\u00e9"
  literal: |
    First line.
    Second line.
  folded: >-
    a folded
    text

  anchor: &x an anchor
  alias: *x
  flow: [1, yes, in a list]
""",
    "a.properties": """# a=b\\
! c=d
key\\ 1 : one \\
    two
b=It''s {0} dog
c=\\u00e9t\\u00e9 a=b
d=
""",
    "a.strings": """/* "no" = "text"; */
"key" = "A \\"dog\\" %@"; // "no" = "text";
plain = "value here";
""",
}
"""Catalogues of keys and texts, by the names of their files."""

STRING_CATALOG = """{
  "sourceLanguage" : "en",
  "strings" : {
    "A dog %@" : {

    },
    "cats" : {
      "comment" : "no text",
      "localizations" : {
        "en" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld cat"
                }
              },
              "other" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld cats"
                }
              }
            }
          }
        }
      }
    },
    "Old" : {
      "extractionState" : "manual",
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "new",
            "value" : ""
          }
        }
      }
    }
  },
  "version" : "1.0"
}
"""
"""A String Catalog of Xcode, with German to be added and to be filled."""

MARKDOWN = """---
title: no text
---
# A *red* dog #

See **the big** world, [a link](https://a.org/b_c "no text") and `code here`.
Next line, ![no text](x.png).\\
After a break: [Ref] and [other][ref].

> [!NOTE]
> Quoted text
> over lines

::: tip
In a directive
:::

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
"""A page of Markdown with every kind of block."""


def archive(files: Mapping[str, str | bytes], *, stored: tuple[str, ...] = ()) -> bytes:
    """A zip archive of files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2020, 2, 20, 20, 20, 20))
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            out.writestr(info, content)
    return stream.getvalue()


def unpacked(content: bytes) -> dict[str, bytes]:
    """The files of an archive, in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as archived:
        assert archived.testzip() is None
        return {info.filename: archived.read(info) for info in archived.infolist()}


def reversed_words(text: str) -> UnitTranslation:
    """A translation with the words in upper case and the last first."""
    words = [word for word in re.split(r"[ \n]+", text) if word]
    last = len(words) - 1
    links = " ".join(f"{i}-{last - i}" for i in range(len(words)))
    return UnitTranslation(" ".join(words[::-1]).upper(), links)


def upper_words(text: str) -> UnitTranslation:
    """A translation with the words in upper case, in the same order."""
    words = [word for word in re.split(r"[ \n]+", text) if word]
    return UnitTranslation(" ".join(words).upper(), " ".join(f"{i}-{i}" for i in range(len(words))))


def translated_texts(document: Document, translate: object = upper_words) -> list[str]:
    """The texts of a document translated by a function of a sentence."""
    assert callable(translate)
    texts: list[str] = []
    for segment in document.segments:
        segmented = segment_text(segment.text, segment.markup)
        results = [translate(unit.text) for unit in segmented.units]
        texts.append(restore_text(segmented, results).text)
    return texts


def translated(document: Document, translate: object = upper_words) -> bytes:
    """A document translated by a function of a sentence."""
    return document.rebuild(translated_texts(document, translate))


def same(document: Document) -> bytes:
    """A document with its own texts."""
    return document.rebuild([segment.text for segment in document.segments])
