"""What the demo found, as one page: scores, the pronoun, what *it* looks at, curves, examples."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.demo.corpus import Written
from transduce.demo.pronoun import PronounScore
from transduce.evaluation.scoring import RunResult
from transduce.visualization.attention_page import trace_attention
from transduce.visualization.attention_view import (
    AttentionTrace,
    attention_figure,
    word_attention_figure,
)
from transduce.visualization.chart import Series, line_chart
from transduce.visualization.page import Section, page, table

_PRONOUNS, _IT_PIECES = ("▁er", "▁sie", "▁es"), ("▁it",)

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
"""The pair of sentences that the paper's authors explained attention with."""


class ExampleTranslation(NamedTuple):
    """A sentence that training never saw."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoResult:
    """What the demo has to show."""

    run: RunResult
    written: Written
    """How many sentences of which sort there are."""
    examples: tuple[ExampleTranslation, ...]
    """The whole test set."""
    shown: tuple[ExampleTranslation, ...]
    """A few long ones, half of them with "it"."""
    pronouns: PronounScore

    @property
    def exact(self) -> float:
        """Share of the test set's translations that are the reference to the letter."""
        right = sum(example.translation == example.reference for example in self.examples)
        return right / len(self.examples)

    def __str__(self) -> str:
        """Say what the scores do not: exact match, and the pronoun beside two simple rules."""
        score, total = self.pronouns, len(self.examples)
        return (
            f"  exact match {_percent(self.exact)} of {total:,} sentences\n"
            f"er, sie or es for “it”: {_percent(score.accuracy)} right in {score.cases} sentences, "
            f"{_percent(score.unseen_accuracy)} in the {score.unseen_cases} whose noun and "
            f"adjective never met in training\n"
            f"  the first noun's, always: {_percent(score.always_first)};"
            f"  {score.majority_pronoun}, always: {_percent(score.majority)}"
        )


def render_report(result: DemoResult, *, bundle: Bundle, metrics: Path) -> str:
    """Write the page.

    Args:
        found: what came of it.
        bundle: the model it trained.
        metrics: the run's metrics.jsonl.
    """
    traced = {sentence: trace_attention(bundle, sentence) for sentence in (TIRED, WIDE)}
    wrong = [example for example in result.examples if example.translation != example.reference]
    return page(
        "transduce demo: er, sie or es?",
        [
            Section("How good it is", _scores(result), _PLAIN),
            Section("What “it” refers to", _pronouns(result), _REFERS),
            Section("What the model looks at", _looks(traced), _LOOKS),
            Section("Every attention of a sentence", attention_figure(traced[TIRED], title=TIRED)),
            Section("How it was learned", _curves(metrics)),
            Section("Sentences it has never seen", _examples(result.shown)),
            Section(
                "What it got wrong",
                _examples(wrong[:_MISTAKES]) if wrong else "<p>Nothing.</p>",
                f"{len(wrong)} of {len(result.examples)} translations of the test set are not, to "
                f"the letter, the reference"
                + (f"; here are {_MISTAKES}." if len(wrong) > _MISTAKES else "."),
            ),
        ],
        lead="A Transformer trained on sentences of a small English and German grammar, and tested "
        "on sentences of it that training never had.",
    )


_PLAIN = (
    "The grammar has one translation for every sentence, so a translation is right or it is wrong."
)
_REFERS = (
    "In “The animal didn't cross the street because it was too tired”, it is the animal; with “too "
    "wide”, it is the street. German must choose: das Tier is es, die Straße is sie. No two nouns "
    "stand in the test with an adjective they have in training; “unseen” are the sentences in "
    "which not even the one noun that is meant ever met the adjective there."
)
_LOOKS = (
    "First the decoder as it is about to say the pronoun: what it looks at in the source. Then the "
    "encoder's self-attention from the piece “it”."
)
_MISTAKES = 30


def _scores(found: DemoResult) -> str:
    test = found.run.test
    assert test is not None, "the demo has a test set"
    right = sum(each.translation == each.reference for each in found.examples)
    rows = [["exact match", _percent(found.exact), f"{right} of {len(found.examples)}"]]
    rows += [[score.name, f"{score.value:.1f}", score.signature] for score in test.scores]
    rows += [["perplexity", f"{test.perplexity:.3f}", "per piece, EOS counted"]]
    return table(["measure", "test set", ""], rows, numbers={1})


def _pronouns(found: DemoResult) -> str:
    score, written = found.pronouns, found.written
    rows = [
        ["this model", _percent(score.accuracy), f"{score.cases}"],
        ["… on unseen combinations", _percent(score.unseen_accuracy), f"{score.unseen_cases}"],
        ["rule: always the first noun", _percent(score.always_first), f"{score.cases}"],
        [f"rule: always {score.majority_pronoun}", _percent(score.majority), f"{score.cases}"],
    ]
    kept_out = (
        f"<p>{written.open_reference:,} sentences were drawn and kept out, of training too, "
        f"because “it” could have been either noun.</p>\n"
    )
    return table(["", "right pronoun", "sentences"], rows, numbers={1, 2}) + kept_out


def _curves(metrics: Path) -> str:
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]

    def curve(name: str, key: str) -> Series:
        some = [line for line in lines if key in line]
        return Series(name, [line["update"] for line in some], [line[key] for line in some])

    loss = [
        curve("training", "loss"),
        curve("validation", "validation_loss"),
    ]
    bleu = [curve("validation, greedy", "bleu")]
    return line_chart(loss, x_label="update", y_label="nats per piece", title="Loss") + line_chart(
        bleu, x_label="update", y_label="BLEU", title="BLEU"
    )


def _examples(examples: Sequence[ExampleTranslation]) -> str:
    rows = [
        [
            each.source,
            each.translation,
            "" if each.translation == each.reference else each.reference,
        ]
        for each in examples
    ]
    return table(["English", "translation", "expected, where it differs"], rows)


def _looks(traced: Mapping[str, AttentionTrace]) -> str:
    """The pronoun's look at the source, and the look of "it" at its own sentence."""
    figures: list[str] = []
    for sentence, each in traced.items():
        place = _place(each.target_pieces, _PRONOUNS)
        if place is not None:
            title = f"{each.target_pieces[place][1:]}: {sentence}"
            figures.append(word_attention_figure(each, position=place, side="target", title=title))
    for sentence, each in traced.items():
        place = _place(each.source_pieces, _IT_PIECES)
        if place is not None:
            title = f"it: {sentence}"
            figures.append(word_attention_figure(each, position=place, side="source", title=title))
    return "".join(figures) or "<p>The model says no pronoun here.</p>"


def _place(pieces: Sequence[str], wanted: Collection[str]) -> int | None:
    """Where the last of some pieces stands, if there is one."""
    return max((place for place, piece in enumerate(pieces) if piece in wanted), default=None)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
