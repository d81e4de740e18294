import time
from collections import Counter

import pytest

from transduce.data.corpus import Pair
from transduce.data.protection import BUILT_IN, PLACEHOLDERS, TIME_LIMIT, Protection, count_copies

ALL = Protection(BUILT_IN)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("SHOW WARNINGS [limit row_count]", ["SHOW", "WARNINGS", "row_count"]),
        ("See https://a.b/c?d=1, or mail a@b.de.", ["https://a.b/c?d=1", "a@b.de"]),
        ("Run os.path.join() with --no-verify -x", ["os.path.join()", "--no-verify", "-x"]),
        (
            "camelCase, utf-8, x86, go(), {name}, %s",
            ["camelCase", "utf-8", "x86", "go()", "{name}", "%s"],
        ),
        ("version 1.2.3 in /etc/passwd.", ["1.2.3", "/etc/passwd"]),
        ("5 GB in 1984", ["5 GB", "1984"]),
        ("3.5 or 1,000 men, 2nd, 1990s, and/or U.S. e.g. 100%", ["100"]),
        ("CHAPTER ONE", []),
        ("请访问https://a.org了解，联系我们a@b.org吧", ["https://a.org", "a@b.org"]),
        ("看www.a.org（首页）和$HOME目录", ["www.a.org", "$HOME"]),
        ("почта@пример.рф, https://пример.рф", ["почта@пример.рф", "https://пример.рф"]),
    ],
)
def test_builtin_patterns(text: str, spans: list[str]) -> None:
    assert ALL.find(text) == spans


def test_pair_masks_only_what_both_sides_have() -> None:
    pair = Pair("The row_count of 5 is 12 in SQL", "Der row_count von 5 ist 12,5 in SQL-Text")
    source, target = ALL.mask_pair(pair, every=True)
    assert "12" in source
    assert "12,5" in target
    assert not {"row_count", "SQL"} & set(source.split())
    symbols = [c for c in source if c in PLACEHOLDERS]
    assert len(symbols) == 3
    assert symbols == [c for c in target if c in PLACEHOLDERS]


def test_mask_and_restore() -> None:
    text = "Set a_b to c_d, not a_b"
    masked = ALL.mask(text)
    assert masked.restore(masked.text) == text
    assert masked.is_intact(masked.text)
    assert not masked.is_intact(masked.text[:-1])
    assert not masked.is_intact(masked.text + masked.text[-1])
    foreign = next(symbol for symbol in PLACEHOLDERS if symbol not in masked.text)
    assert masked.restore(f"x{foreign}y") == "xy"
    own = f"{PLACEHOLDERS[0]} a_b"
    assert ALL.mask(own).text == own


def test_more_spans_than_symbols() -> None:
    names = [f"name_{index}" for index in range(len(PLACEHOLDERS) + 3)]
    masked = ALL.mask(" ".join(names))
    assert masked.text.split()[-3:] == names[-3:]
    assert masked.restore(masked.text) == " ".join(names)


def test_some_pairs_stay_as_they_are() -> None:
    pairs = [Pair(f"line_{index} here", f"line_{index} hier") for index in range(400)]
    unmasked = sum(ALL.mask_pair(pair) == pair for pair in pairs)
    assert 20 < unmasked < 90


def test_exponential_pattern_is_stopped() -> None:
    with pytest.raises(ValueError, match=rf"take more than {TIME_LIMIT} s for one sentence"):
        Protection([r"(\w|\w\w)+:"]).find("a" * 60 + " :")


@pytest.mark.parametrize("pattern", ["(", "", "x" * 1001])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        Protection([pattern])


def test_builtin_patterns_take_linear_time() -> None:
    units = ("A", "a_", "1.", "/a", "a.b", "a-1", "a@", "-", "http://", "1,", "`")
    for text in (*(unit * 8000 for unit in units), f"{'1.' * 8000}1a5"):
        begun = time.process_time()
        ALL.find(text)
        assert time.process_time() - begun < TIME_LIMIT


def test_builtin_patterns_have_no_time_limit() -> None:
    assert len(ALL.spans("7 " * 50_000, time_limit=0.0)) == 50_000


def test_copies_are_what_the_reference_keeps() -> None:
    copies = count_copies(
        ["SHOW row_count 5 and 7 times", "6 dogs"],
        ["SHOW limit_count 5 und 7,5 mal", "sechs Hunde"],
        ["SHOW row_count 5 und 7 mal", "sechs Hunde"],
    )
    assert dict(copies.times) == {"url": 0, "code": 1, "number": 2, "capitals": 1}
    assert copies.lost == Counter(code=1, number=1)
    assert copies.missing == ((0, "row_count"), (0, "7"))
