"""Run the demo: generate a corpus, train a model on it, and report what it learned."""

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.config import Recipe, differences, load_recipe, to_toml
from transduce.demo.corpus import PronounScore, read_cases, score_pronouns, write_corpus
from transduce.evaluation.scoring import RunResult
from transduce.io.lock import LOCK_FILE, exclusive_lock
from transduce.pipeline.prepare import is_up_to_date
from transduce.pipeline.run import run_recipe
from transduce.pipeline.run_folder import write_text
from transduce.pipeline.run_page import REPORT, curves, read_metrics
from transduce.train.events import EventHandler, LogMessage
from transduce.visualization.attention_page import trace_attention
from transduce.visualization.attention_view import (
    AttentionTrace,
    attention_figure,
    word_attention_figure,
)
from transduce.visualization.page import Section, page, table

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
"""The example by which the paper's authors explained attention."""

PRONOUN_PIECES, IT_PIECES = ("▁er", "▁sie", "▁es"), ("▁it",)
_MAX_SHOWN, _MAX_ERRORS = 6, 30

_EXACT = "The grammar has exactly one translation per sentence, so each is either right or wrong."
_REFERENCE = (
    "In “The animal didn't cross the street because it was too tired” it is the animal; with “too "
    "wide” it is the street. German must choose: das Tier is es, die Straße is sie. No test "
    "sentence shares both nouns and the adjective with training; in the “unseen” rows the referent "
    "and the adjective never occurred together in training."
)
_ATTENTION = (
    "First the decoder's cross-attention as it predicts the pronoun, then the encoder's "
    "self-attention from the piece “it”."
)


class ExampleTranslation(NamedTuple):
    """A test sentence with its translation."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoResult:
    """The results of the demo."""

    run: RunResult
    open_reference: int
    """Generated sentences discarded because "it" could refer to either noun."""
    examples: tuple[ExampleTranslation, ...]
    """The full test set."""
    shown: tuple[ExampleTranslation, ...]
    """A few long sentences, half of them with "it"."""
    pronouns: PronounScore

    @property
    def wrong(self) -> tuple[ExampleTranslation, ...]:
        """The test translations that differ from the reference."""
        return tuple(e for e in self.examples if e.translation != e.reference)

    @property
    def exact(self) -> float:
        """Share of test translations identical to the reference."""
        return (len(self.examples) - len(self.wrong)) / len(self.examples)

    def __str__(self) -> str:
        """Format exact match and pronoun accuracy, with two baselines."""
        score, total = self.pronouns, len(self.examples)
        return (
            f"  exact match {_percent(self.exact)} of {total:,} sentences\n"
            f"er, sie or es for “it”: {_percent(score.accuracy)} right in {score.cases} sentences, "
            f"{_percent(score.unseen_accuracy)} in the {score.unseen_cases} whose noun and "
            f"adjective were never combined in training\n"
            f"  baselines: always the first noun {_percent(score.always_first)}; always "
            f"{score.majority_pronoun} {_percent(score.majority)}"
        )


def run_demo(out: Path, *, on_event: EventHandler) -> DemoResult:
    """Generate the corpus, train on it, and evaluate the test set's translations.

    Args:
        out: run folder; an interrupted demo in it is resumed, a finished one replaced.
            `report.html` in it has all results.
        on_event: called with each event of the run.

    Raises:
        ValueError: if `out` holds anything but a demo.
    """
    with exclusive_lock(out):
        corpus = out / "corpus"
        recipe = load_recipe("demo", [f"data.folder={corpus}"])
        resume = _is_interrupted(out, recipe)
        if not resume:
            _begin(out, recipe)
        on_event(LogMessage(text=f"writing English and German sentences to {corpus}"))
        open_reference = write_corpus(corpus)
        # Another version may write other sentences than those that were trained on.
        if resume and not is_up_to_date(recipe, out):
            resume = False
            _begin(out, recipe)
            open_reference = write_corpus(corpus)
        run = run_recipe(recipe, out, resume=resume, on_event=on_event)
        files = (corpus / "test.en", out / "hypotheses.de", corpus / "test.de")
        sides = [file.read_text(encoding="utf-8").split("\n")[:-1] for file in files]
        examples = tuple(ExampleTranslation(*lines) for lines in zip(*sides, strict=True))
        cases = read_cases(corpus)
        result = DemoResult(
            run=run,
            open_reference=open_reference,
            examples=examples,
            shown=_select_shown(examples, with_it=[case.line for case in cases]),
            pronouns=score_pronouns([example.translation for example in examples], cases),
        )
        html = render_report(result, bundle=Bundle.load(out), metrics=out / "metrics.jsonl")
        write_text(out / REPORT, html)
    return result


def _select_shown(
    examples: tuple[ExampleTranslation, ...], *, with_it: list[int]
) -> tuple[ExampleTranslation, ...]:
    """The longest of the first sentences with and without "it"."""
    without = sorted(set(range(len(examples))).difference(with_it))
    shown: list[ExampleTranslation] = []
    for lines in (with_it, without):
        first = [examples[line] for line in lines[:20]]
        shown += sorted(first, key=lambda example: -len(example.source))[: _MAX_SHOWN // 2]
    return tuple(shown)


def _is_interrupted(out: Path, recipe: Recipe) -> bool:
    """Whether a folder holds a demo of this recipe that was stopped in training or evaluation."""
    file = out / "recipe.toml"
    begun = (out / "checkpoints").is_dir() and not (out / "model").exists() and file.is_file()
    return begun and not any(differences(load_recipe(file), recipe))


def _begin(out: Path, recipe: Recipe) -> None:
    """Clear the folder and mark it as a demo's, which the next demo may replace."""
    _clear(out)
    write_text(out / "recipe.toml", to_toml(recipe))


def _clear(out: Path) -> None:
    """Delete an earlier demo, and nothing else."""
    paths = [path for path in out.iterdir() if path.name != LOCK_FILE]
    # A demo that was killed may have left the new recipe alone.
    if all(path.name.startswith(".recipe.toml.") for path in paths):
        return
    file = out / "recipe.toml"
    if not file.is_file() or load_recipe(file).name != "demo":
        raise ValueError(f"{out} is not a demo's folder: name another folder with --out")
    names = {"corpus", "recipe.toml", "prepared", "checkpoints", "best", "model", REPORT}
    names |= {"metrics.jsonl", "results.json"}
    # Hidden ones are of killed writers: `.NAME.new-PID`, `.NAME.old-PID`, `.NAME.lock`.
    prefixes = ("hypotheses.", ".hypotheses.", *(f".{name}." for name in names))
    for path in paths:
        if path.name not in names and not path.name.startswith(prefixes):
            raise ValueError(f"{path} is not the demo's: move it away, or name another --out")
    # By the recipe a demo's folder is known, and by checkpoints an interrupted one.
    order = {"checkpoints": -1, "recipe.toml": 1}
    for path in sorted(paths, key=lambda path: order.get(path.name, 0)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def render_report(result: DemoResult, *, bundle: Bundle, metrics: Path) -> str:
    """Render the report as an HTML page.

    Args:
        result: the demo's results.
        bundle: the trained model.
        metrics: the run's metrics.jsonl.
    """
    traces = {sentence: trace_attention(bundle, sentence) for sentence in (TIRED, WIDE)}
    wrong = result.wrong
    shown = f"; the first {_MAX_ERRORS}" if len(wrong) > _MAX_ERRORS else ""
    return page(
        "transduce demo: er, sie or es?",
        [
            Section("Scores", _scores(result), _EXACT),
            Section("What “it” refers to", _pronouns(result), _REFERENCE),
            Section("Attention of the pronoun", _attention(traces), _ATTENTION),
            Section("All attention heads", attention_figure(traces[TIRED], title=TIRED)),
            Section("Training curves", curves(read_metrics(metrics))),
            Section("Sentences not in the training set", _examples(result.shown)),
            Section(
                "Errors",
                _examples(wrong[:_MAX_ERRORS]) if wrong else "<p>None.</p>",
                f"{len(wrong)} of {len(result.examples)} test translations differ from the "
                f"reference{shown}.",
            ),
        ],
        lead="A Transformer trained on sentences generated by a small English-German grammar, and "
        "tested on sentences that are not in the training set.",
    )


def _scores(result: DemoResult) -> str:
    test = result.run.test
    assert test is not None, "the demo has a test set"
    total = len(result.examples)
    rows = [["exact match", _percent(result.exact), f"{total - len(result.wrong)} of {total}"]]
    rows += [[score.name, f"{score.value:.1f}", score.signature] for score in test.scores]
    rows += [["perplexity", f"{test.perplexity:.3f}", "per piece, EOS included"]]
    return table(["metric", "test set", ""], rows, numbers={1})


def _pronouns(result: DemoResult) -> str:
    score = result.pronouns
    rows = [
        ["this model", _percent(score.accuracy), f"{score.cases}"],
        ["… on unseen combinations", _percent(score.unseen_accuracy), f"{score.unseen_cases}"],
        ["baseline: always the first noun", _percent(score.always_first), f"{score.cases}"],
        [f"baseline: always {score.majority_pronoun}", _percent(score.majority), f"{score.cases}"],
    ]
    discarded = (
        f"<p>{result.open_reference:,} generated sentences were discarded because “it” could "
        f"have referred to either noun.</p>\n"
    )
    return table(["", "correct pronoun", "sentences"], rows, numbers={1, 2}) + discarded


def _examples(examples: Sequence[ExampleTranslation]) -> str:
    rows = [
        [source, translation, "" if translation == reference else reference]
        for source, translation, reference in examples
    ]
    return table(["English", "translation", "reference, if different"], rows)


def _attention(traces: Mapping[str, AttentionTrace]) -> str:
    """Figures of the pronoun's cross-attention and of the self-attention of "it"."""
    figures: list[str] = []
    for side in ("target", "source"):
        for sentence, trace in traces.items():
            pieces = trace.target_pieces if side == "target" else trace.source_pieces
            position = last_index(pieces, PRONOUN_PIECES if side == "target" else IT_PIECES)
            if position is not None:
                title = f"{pieces[position][1:]}: {sentence}"
                figure = word_attention_figure(trace, position=position, side=side, title=title)
                figures.append(figure)
    return "".join(figures) or "<p>The translations contain no pronoun.</p>"


def last_index(pieces: Sequence[str], wanted: Collection[str]) -> int | None:
    """Return the index of the last of the wanted pieces, if any."""
    return max((index for index, piece in enumerate(pieces) if piece in wanted), default=None)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
