"""Numbers, identifiers and placeholders are found in text, words are not."""

import pytest

from transduce.evaluation.copied_text import copied_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The U.S. has two states, e.g. and/or a well-known one: I am.", set()),
        ("Call getName() of std::vector, or row_count.", {"getName()", "std::vector", "row_count"}),
        ("MySQL 5.7.3 with utf8 at 10:30", {"MySQL", "5.7.3", "utf8", "10:30"}),
        ("SHOW WARNINGS --dry-run", {"SHOW", "WARNINGS", "--dry-run"}),
        ("see https://a.b/c_d2 or {name}, %s", {"https://a.b/c_d2", "{name}", "%s"}),
    ],
)
def test_what_must_be_copied(text: str, expected: set[str]):
    assert {found.text for found in copied_text(text)} == expected
