"""Whether systems differ is sacreBLEU's to say; what differs in a line or two is left to chance."""

import os
import random
from collections.abc import Sequence

import pytest

from transduce.evaluation import significance
from transduce.evaluation.metrics import bleu, chrf, ter
from transduce.evaluation.significance import (
    Comparison,
    System,
    SystemComparison,
    TestMethod,
    compare_systems,
)

WORDS = ["a", "dog", "cat", "house", "runs", "sees", "the", "red", "small", "old", "garden"]
TESTS: tuple[TestMethod, ...] = ("bootstrap", "randomization")


def sentences(count: int = 31) -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 11))) for _ in range(count)]


def worsened(lines: Sequence[str], *, share: float, seed: int = 5) -> list[str]:
    """Put a wrong word in the place of so many of the words."""
    draw = random.Random(seed)
    return [
        " ".join("wrong" if draw.random() < share else word for word in line.split())
        for line in lines
    ]


REFERENCES = sentences()
POOR = worsened(REFERENCES, share=0.4)
GOOD = worsened(REFERENCES, share=0.1)


def compared(
    *systems: Sequence[str],
    metrics: Sequence[str] = ("bleu",),
    language: str = "",
    tokenize: str = "",
    lower_case: bool = False,
    test: TestMethod = "bootstrap",
    samples: int = 101,
    seed: int = 7,
) -> Comparison:
    return compare_systems(
        [System(f"system {number}", lines) for number, lines in enumerate(systems)],
        REFERENCES,
        metrics=metrics,
        language=language,
        tokenize=tokenize,
        lower_case=lower_case,
        test=test,
        samples=samples,
        seed=seed,
    )


def last(comparison: Comparison) -> SystemComparison:
    return comparison.metrics[0].systems[-1]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_case_counts_unless_text_is_lower_cased(metric: str):
    capitals = [line.upper() for line in GOOD]

    assert last(compared(GOOD, capitals, metrics=[metric])).verdict == "worse"
    lower_cased = last(compared(GOOD, capitals, metrics=[metric], lower_case=True))
    assert (lower_cased.value, lower_cased.p) == (
        last(compared(GOOD, GOOD, metrics=[metric])).value,
        1.0,
    )


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_a_clearly_better_system_is_better(metric: str, test: TestMethod):
    result = last(compared(POOR, GOOD, metrics=[metric], test=test))

    assert result.verdict == "better"
    assert result.p is not None
    assert result.p < 0.05


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_a_clearly_worse_system_is_worse(metric: str, test: TestMethod):
    assert last(compared(GOOD, POOR, metrics=[metric], test=test)).verdict == "worse"


@pytest.mark.parametrize("test", TESTS)
def test_a_system_does_not_differ_from_itself(test: TestMethod):
    result = last(compared(GOOD, GOOD, test=test))

    assert (result.p, result.verdict) == (1.0, "unclear")


@pytest.mark.parametrize("end", ["", "\r"])
@pytest.mark.parametrize("test", TESTS)
def test_one_line_that_differs_may_be_chance(test: TestMethod, end: str):
    other = [f"{line}{end}" for line in (POOR[0], REFERENCES[1], *POOR[2:])]
    assert POOR[1] != REFERENCES[1]

    result = last(compared(POOR, other, test=test))

    assert (result.p, result.verdict) == (1.0, "unclear")


@pytest.mark.parametrize("test", TESTS)
def test_two_systems_as_good_as_each_other_are_unclear(test: TestMethod):
    other = worsened(REFERENCES, share=0.1, seed=23)

    result = last(compared(GOOD, other, test=test))

    assert result.verdict == "unclear"


def test_the_baseline_has_no_p():
    result = compared(POOR, GOOD).metrics[0].systems[0]

    assert (result.system, result.p, result.verdict) == ("system 0", None, "baseline")


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("language", ["de", "zh"])
def test_values_are_those_of_evaluate(language: str, test: TestMethod):
    result = compared(POOR, GOOD, metrics=[], language=language, test=test, samples=23)

    for number, lines in enumerate((POOR, GOOD)):
        assert [(table.metric, table.systems[number].value) for table in result.metrics] == [
            (score.name, score.value)
            for score in (
                bleu(lines, REFERENCES, language=language),
                chrf(lines, REFERENCES),
                ter(lines, REFERENCES, language=language),
            )
        ]


@pytest.mark.parametrize("test", TESTS)
def test_the_mean_lies_near_the_value(test: TestMethod):
    for system in compared(POOR, GOOD, test=test).metrics[0].systems:
        assert 0 < system.margin < 15
        assert abs(system.mean - system.value) < system.margin


@pytest.mark.parametrize("test", TESTS)
def test_the_same_seed_gives_the_same_p(test: TestMethod):
    other = worsened(REFERENCES, share=0.15, seed=23)

    assert compared(GOOD, other, test=test) == compared(GOOD, other, test=test)


def test_another_seed_draws_anew():
    assert compared(POOR, GOOD, seed=7).metrics != compared(POOR, GOOD, seed=11).metrics


def test_a_third_system_changes_nothing_for_the_second():
    two = compared(POOR, GOOD).metrics[0].systems

    three = compared(POOR, GOOD, REFERENCES).metrics[0].systems

    assert three[:2] == two


def test_the_signature_says_test_samples_seed_and_tokeniser():
    result = compared(POOR, GOOD, language="zh", samples=23, seed=17).metrics[0].signature

    for part in ("bs:23|", "seed:17|", "tok:zh|", "version:"):
        assert part in result


@pytest.mark.parametrize("before", [None, "99"])
def test_the_environment_stays_as_it_was(before: str | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if before is not None:
        monkeypatch.setenv("SACREBLEU_SEED", before)

    result = compared(POOR, GOOD, samples=23)

    assert os.environ.get("SACREBLEU_SEED") == before
    assert "seed:7" in result.metrics[0].signature


@pytest.mark.parametrize("test", TESTS)
def test_empty_and_tokenised_lines_are_compared_in_silence(
    test: TestMethod, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    tokenised = [f"{line} ." for line in GOOD]

    compared([""] * len(REFERENCES), tokenised, metrics=[], test=test, samples=23)

    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_the_table_is_aligned_one_block_a_metric():
    result = str(compared(POOR, GOOD, metrics=["ter", "bleu"], samples=23))

    blocks = [block.split("\n") for block in result.split("\n\n")]
    assert [block[0].split()[0] for block in blocks] == ["BLEU", "TER"]
    for _, _, baseline, other in blocks:
        assert baseline.index("±") == other.index("±")
        assert baseline.index("baseline") == other.index("better")


def test_unequal_numbers_of_lines_name_the_system():
    with pytest.raises(ValueError, match=r"^system 1 has 30 lines but there are 31 references"):
        compared(POOR, GOOD[:-1])


def test_one_system_is_too_few():
    with pytest.raises(ValueError, match="two systems or more"):
        compared(POOR)


def test_no_line_is_nothing_to_compare():
    with pytest.raises(ValueError, match="the references have no lines"):
        compare_systems([System("a", []), System("b", [])], [])


@pytest.mark.parametrize("name", ["rouge", "perplexity"])
def test_an_unknown_metric_is_named(name: str):
    with pytest.raises(ValueError, match=f"unknown metric '{name}': use bleu, chrf, ter"):
        compared(POOR, GOOD, metrics=["bleu", name])


def test_an_unknown_tokeniser_is_named():
    with pytest.raises(ValueError, match="BLEU has no tokeniser 'spaces'"):
        compared(POOR, GOOD, tokenize="spaces")


def test_chance_needs_a_seed_and_samples():
    with pytest.raises(ValueError, match="seed must be 1 or more, not 0"):
        compared(POOR, GOOD, seed=0)
    with pytest.raises(ValueError, match="samples must be 20 or more, not 19"):
        compared(POOR, GOOD, samples=19)


@pytest.mark.parametrize(("samples", "most"), [(23, 30), (1000, 30), (2000, 61)])
def test_more_lines_than_the_memory_is_for_are_refused(
    monkeypatch: pytest.MonkeyPatch, samples: int, most: int
):
    monkeypatch.setattr(significance, "MAX_COMPARED_LINES", most)

    with pytest.raises(ValueError, match="memory for 30 lines, not for 31: take a random sample"):
        compared(POOR, GOOD, samples=samples)
