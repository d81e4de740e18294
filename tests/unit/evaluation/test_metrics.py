"""Scores are sacreBLEU's, with the signature that says how; perplexity is the written-out loss."""

import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from sacrebleu.metrics.chrf import CHRF
from tests.conftest import SHAPE, made
from torch.utils._python_dispatch import TorchDispatchMode

from transduce.data.batch import Batch, collate
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.metrics import bleu, bleu_tokenizer, chrf, exact_match, ter
from transduce.evaluation.perplexity import perplexity
from transduce.evaluation.scoring import ScoringOptions, score_lines, select_metrics
from transduce.evaluation.significance import System, compare_systems
from transduce.model.loss import cross_entropy
from transduce.model.transformer import Transformer

REFERENCES = ["the cat sat on the mat today", "a dog barks at the red door"]
HYPOTHESES = ["the cat sat on the mat today", "a dog barks at a red door"]


def test_bleu_is_the_one_done_by_hand():
    score = bleu(HYPOTHESES, REFERENCES)

    # n-grams that match, of 14 words in two lines of seven; no brevity penalty.
    expected = (13 / 14 * 10 / 12 * 7 / 10 * 5 / 8) ** (1 / 4)
    assert score.value == pytest.approx(100 * expected)
    assert score.name == "BLEU"


def test_a_perfect_translation_has_perfect_scores():
    assert bleu(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert chrf(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert ter(REFERENCES, REFERENCES).value == 0


def test_ter_counts_edits_per_word():
    assert ter(HYPOTHESES, REFERENCES).value == pytest.approx(100 / 14)


def test_every_score_says_how_it_was_measured():
    for score in (
        bleu(HYPOTHESES, REFERENCES),
        chrf(HYPOTHESES, REFERENCES),
        ter(HYPOTHESES, REFERENCES),
    ):
        assert "nrefs:1|" in score.signature
        assert "version:" in score.signature
        assert str(score) == f"{score.name} {score.value:.2f}  {score.signature}"


def test_an_interval_is_that_of_the_bootstrap():
    (table,) = compare_systems(
        [System("", HYPOTHESES), System("other", REFERENCES)], REFERENCES, metrics=("chrf",)
    ).metrics

    score = chrf(HYPOTHESES, REFERENCES, interval=True)

    assert score.margin == pytest.approx(table.systems[0].margin, abs=1e-3)
    assert str(score).startswith(f"chrF2 {score.value:.2f} ± {score.margin:.2f}  nrefs:1|bs:1000|")
    assert chrf(["x"], ["a"], interval=True).margin == 0
    assert chrf(HYPOTHESES, REFERENCES).margin is None


def test_words_count_in_chrf_plus_plus():
    score = chrf(HYPOTHESES, REFERENCES, word_order=2)

    expected = CHRF(word_order=2).corpus_score(HYPOTHESES, [REFERENCES])
    assert (score.name, score.value) == ("chrF2++", expected.score)
    assert score.value != chrf(HYPOTHESES, REFERENCES).value
    assert select_metrics(["chrf++"]) == ("chrf++",)
    assert "chrf++" not in select_metrics([])
    assert [
        score_line.name
        for score_line in score_lines(
            HYPOTHESES, REFERENCES, options=ScoringOptions(metrics=("chrf", "chrf++"))
        )
    ] == ["chrF2", "chrF2++"]


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("de", "13a"), ("", "13a"), ("zh", "zh"), ("zh-Hant", "zh"), ("ZH_cn", "zh"), ("zha", "13a")],
)
def test_the_tokeniser_follows_the_language(language: str, tokenizer: str):
    assert bleu_tokenizer(language) == tokenizer
    assert f"tok:{tokenizer}|" in bleu(HYPOTHESES, REFERENCES, language=language).signature


@pytest.mark.parametrize("language", ["ja", "ko"])
@pytest.mark.parametrize(("installed", "tokenizer"), [(True, "mecab"), (False, "char")])
def test_without_a_dictionary_characters_are_words(
    language: str, installed: bool, tokenizer: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if installed else None)

    assert bleu_tokenizer(language).endswith(tokenizer)


def test_a_tokeniser_by_name_wins_over_the_language():
    assert "tok:none|" in bleu(HYPOTHESES, REFERENCES, language="zh", tokenize="none").signature


@pytest.mark.parametrize("tokenize", ["", "none"])
def test_tokenised_text_is_scored_without_a_word_on_stderr(
    tokenize: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    lines = ["a small house ."] * 200

    bleu(lines, lines, tokenize=tokenize)

    assert capfd.readouterr().err == ""
    assert caplog.records == []


def test_chinese_is_edited_by_characters():
    score = ter(["我喜歡貓"], ["我喜歡狗"], language="zh")

    assert score.value == pytest.approx(25)
    assert "asian:yes" in score.signature


@pytest.mark.parametrize(
    ("language", "line", "reference", "edits"),
    [
        *(("th", "แมวนอน", "แมวนอก", 1 / 6), ("km", "ខ្មែ", "ខ្មេ", 1 / 4)),
        ("", "แมว นอน", "แมวนอน", 0),  # spaces do not count
    ],
)
def test_scripts_without_spaces_are_edited_by_characters(
    language: str, line: str, reference: str, edits: float
):
    score = ter([line], [reference], language=language)

    assert score.value == pytest.approx(100 * edits)
    assert "tok:char" in score.signature
    assert "tok:char" in ter([line], [reference], language=language, interval=True).signature


def test_an_unknown_tokeniser_is_named():
    with pytest.raises(ValueError, match="BLEU has no tokeniser 'spaces'"):
        bleu(HYPOTHESES, REFERENCES, tokenize="spaces")


@pytest.mark.skipif(bleu_tokenizer("ja") != "char", reason="the dictionary is installed")
def test_a_tokeniser_that_is_not_installed_says_what_is_missing():
    with pytest.raises(ValueError, match=r"'ja-mecab' is not available: .*pip install") as caught:
        bleu(HYPOTHESES, REFERENCES, tokenize="ja-mecab")

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
def test_sides_of_unequal_length_are_refused(metric: type):
    with pytest.raises(ValueError, match=r"^the translation has 2 lines but there are 1 ref"):
        metric(HYPOTHESES, REFERENCES[:1])


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
def test_nothing_has_no_score(metric: type):
    with pytest.raises(ValueError, match="nothing to score"):
        metric([], [])


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
def test_an_empty_translation_has_a_score(metric: type):
    assert math.isfinite(metric(["", HYPOTHESES[1]], REFERENCES).value)


@pytest.fixture
def batches(tokenizer: Tokenizer) -> list[Batch]:
    def batch(sources: list[list[int]], targets: list[list[int]]) -> Batch:
        return collate(sources, targets, pad=tokenizer.pad, eos=tokenizer.EOS)

    return [batch([[5, 7, 11], [13]], [[2, 3], [5, 7, 11, 13, 17]]), batch([[19]], [[23, 29, 31]])]


def test_perplexity_sums_the_nats_of_all_pieces(untrained: Transformer, batches: list[Batch]):
    result = perplexity(untrained, batches)

    with torch.no_grad():
        parts = [
            cross_entropy(
                untrained(b.source, b.source_mask, b.target_in), b.target_out, smoothing=0.0
            )
            for b in batches
        ]
    expected = sum(part.plain.item() for part in parts)
    assert result.tokens == 3 + 6 + 4
    assert result.loss_sum == pytest.approx(expected, rel=1e-5)
    assert result.per_token == pytest.approx(expected / 13, rel=1e-5)
    assert result.perplexity == pytest.approx(math.exp(expected / 13), rel=1e-4)


def test_a_model_in_training_is_measured_without_dropout_and_trains_on(
    untrained: Transformer, batches: list[Batch]
):
    expected = perplexity(untrained, batches)

    result = perplexity(untrained.train(), batches)

    assert result == expected
    assert untrained.training


class NoFloat64(TorchDispatchMode):
    """Refuses what Apple's GPUs refuse."""

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            raise TypeError("the MPS framework doesn't support float64")
        return result


def test_perplexity_needs_no_float64(untrained: Transformer, batches: list[Batch]):
    expected = perplexity(untrained, batches)

    with NoFloat64():
        with pytest.raises(TypeError):
            torch.zeros(2, dtype=torch.float64)
        result = perplexity(untrained, batches)

    assert result == expected


def test_nothing_has_no_perplexity(untrained: Transformer):
    with pytest.raises(ValueError, match="at least one sentence pair"):
        perplexity(untrained, [])


def test_perplexity_counts_a_bias_of_the_logits(tokenizer: Tokenizer, batches: list[Batch]):
    model = made(replace(SHAPE, vocab_size=tokenizer.vocab_size, output_bias=True)).eval()
    torch.nn.init.normal_(model.output_bias, generator=torch.Generator().manual_seed(3))

    result = perplexity(model, batches)

    with torch.no_grad():
        parts = [
            cross_entropy(model(b.source, b.source_mask, b.target_in), b.target_out, smoothing=0.0)
            for b in batches
        ]
    assert result.loss_sum == pytest.approx(sum(part.plain.item() for part in parts), rel=1e-5)


JAPANESE = ["猫はマットの上に座っています。", "赤いドアで犬が吠えています。"]


@pytest.mark.parametrize(
    ("lines", "tokenizer"),
    [
        (JAPANESE, bleu_tokenizer("ja")),
        (["แมวนั่งอยู่บนเสื่อ", "สุนัขเห่าที่ประตูสีแดง"], "char"),
        (["猫坐在垫子上。", "一只狗在红色的门前吠叫。"], "zh"),
        (["кот сидит на коврике", "собака лает у двери 赤"], "13a"),
    ],
)
@pytest.mark.parametrize("language", ["", "target"])
def test_without_a_language_the_script_selects_the_tokeniser(
    lines: list[str], tokenizer: str, language: str
):
    score = bleu(lines, lines, language=language)

    assert score.value == pytest.approx(100)
    assert f"tok:{tokenizer}|" in score.signature
    assert score.note == ""


@pytest.mark.parametrize("language", ["th", "tha", "lo", "km", "my", "bo"])
def test_languages_without_spaces_are_scored_by_characters(language: str):
    assert bleu_tokenizer(language) == "char"


def test_edits_are_counted_by_characters_whatever_the_language_is_called():
    assert ter(["我喜歡貓"], ["我喜歡狗"]).value == pytest.approx(25)


def test_a_bleu_that_says_nothing_has_a_note():
    words = ["tomato", "potato", "7 412"]

    assert bleu(words, words).value == 0
    assert "too short" in bleu(words, words).note
    assert str(bleu(words, words)).endswith(
        "(the references are too short for 4-grams: see exact match and chrF2)"
    )
    assert bleu(["nonsense"], REFERENCES[:1]).note == ""


def test_lines_are_equal_in_any_unicode_form():
    assert exact_match(["caf\u00e9 ", "b"], ["cafe\u0301", "B"]).value == 50


def test_of_short_lines_exact_match_is_first_and_bleu_last():
    names = [score.name for score in score_lines(["tomato", "x"], ["tomato", "potato"])]

    assert names == ["exact match", "chrF2", "TER", "BLEU"]
    assert score_lines(HYPOTHESES, REFERENCES)[0].name == "BLEU"
