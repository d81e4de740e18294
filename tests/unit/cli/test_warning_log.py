"""Warnings about sentences: the first are listed, the rest counted."""

import pytest

from transduce.cli.translate_documents import WarningLog
from transduce.inference.translation import Translation


def translation(flag: str = "", *, parts: int = 1, mended: bool = False) -> Translation:
    return Translation(
        source="a b",
        text="c",
        score=0.0,
        ids=(),
        pieces=(),
        log_probs=(),
        flag=flag,
        parts=parts,
        mended=mended,
    )


def test_few_warnings_are_listed_without_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    log = WarningLog()
    log.report(translation("repetition", mended=True), name="line 7")
    log.report(translation(), name="line 8")
    log.report(translation(parts=3), name="line 9")
    log.report_total()

    assert capsys.readouterr().err.splitlines() == [
        "line 7: repetition, retranslated",
        "line 9: too long, translated in 3 parts",
    ]


def test_of_many_the_first_are_listed_and_all_counted(capsys: pytest.CaptureFixture[str]) -> None:
    log = WarningLog()
    for number in range(1, 31):
        log.report(translation("repetition", mended=number % 3 == 0), name=f"line {number}")
    log.report(translation(parts=2), name="line 31")
    log.report_total()

    *listed, total = capsys.readouterr().err.splitlines()
    assert len(listed) == 20
    assert listed[-1] == "line 20: repetition"
    assert total.startswith("31 warnings, of which the first 20 are listed: 1 sentences translated")
    assert total.endswith("30 translations repetitive or too long, 10 of them retranslated")
