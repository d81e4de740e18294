"""The end of a run: select its best weights on validation, score them, save the bundle to ship."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.bundle.averaging import average_weights
from transduce.bundle.bundle import Bundle
from transduce.config import Recipe
from transduce.data.config import Languages
from transduce.data.corpus import Pair
from transduce.data.tokenizer import without_tag
from transduce.evaluation.metrics import Perplexity, Score, bleu, chrf
from transduce.evaluation.perplexity import evaluate_perplexity
from transduce.evaluation.scoring import (
    EvaluationResult,
    RunResult,
    ScoringOptions,
    describe_decoding,
    fit_confidence,
    score_lines,
    translate_pairs,
    translation_texts,
)
from transduce.evaluation.significance import System, SystemComparison, compare_systems
from transduce.inference.translation import Translation
from transduce.io.atomic_folder import recover_interrupted
from transduce.model.transformer import Transformer
from transduce.pipeline.length_penalty import propose_alpha
from transduce.pipeline.prepared import Prepared, PreparedDirection
from transduce.pipeline.run_bundle import new_model, run_bundle
from transduce.pipeline.run_folder import find_damage, write_text
from transduce.pipeline.run_page import RunPage
from transduce.search.config import SearchConfig
from transduce.train.checkpoint import EMA_WEIGHTS, WEIGHTS, load_weights
from transduce.train.events import EventHandler, LogMessage
from transduce.train.loop import TrainResult, Validation


def check_until(recipe: Recipe, prepared: Prepared) -> None:
    """Refuse a `train.until` above the BLEU of a perfect translation, which may be too short."""
    until, references = recipe.train.until, [pair.target for pair in prepared.validation]
    # A perfect score is 100 up to rounding.
    if (
        until
        and (best := recipe_bleu(recipe, references, prepared.validation).value) < until - 1e-6
    ):
        raise ValueError(
            f"train.until {until:g} cannot be reached: even the validation targets have BLEU "
            f"{best:.2f}, as they are too short for 4-grams; use train.patience"
        )


class ScoredWeights(NamedTuple):
    """Weights, and their translations of the validation pairs."""

    model: Transformer
    name: str
    translations: tuple[Translation, ...]
    bleu: Score
    chrf: Score


class RunEvaluator(NamedTuple):
    """Evaluates the weights of a run on its validation and test text."""

    recipe: Recipe
    out: Path
    prepared: Prepared
    on_event: EventHandler

    def validate(self, model: Transformer, *, run_page: RunPage) -> Validation:
        """Return the loss, and scores of greedy search, which is fast."""
        pairs, greedy = self.prepared.validation, replace(self.recipe.search, beam=1)
        hypotheses = translation_texts(
            self.translate(model, pairs, search=greedy, retry_loops=False)
        )
        score, measured = recipe_bleu(self.recipe, hypotheses, pairs), self.perplexity(model, pairs)
        directions = [
            (part, recipe_bleu(self.recipe, hypotheses[s], pairs[s], language=part.target))
            for part, s in self._spans("validation")
        ]
        if directions:
            scores = ", ".join(f"{part} {score.value:.2f}" for part, score in directions)
            self.on_event(LogMessage(f"BLEU by direction: {scores}"))
        return Validation(
            loss=measured.per_token,
            bleu=score.value,
            signature=score.signature,
            chrf=recipe_chrf(self.recipe, hypotheses, pairs).value,
            accuracy=measured.accuracy,
            translations=tuple(hypotheses[index] for index in run_page.shown_pairs),
            attention=run_page.trace(model),
        )

    def page(self, model: Transformer) -> RunPage:
        """Return the page that shows the run of a model."""
        return RunPage(
            out=self.out,
            recipe=self.recipe,
            prepared=self.prepared,
            parameters=model.size,
            device=str(model.embedding.weight.device),
        )

    def finish(self, trained: TrainResult) -> None:
        """Average checkpoints, select the best weights, score them, and save the bundle."""
        test = " and test" * bool(self.prepared.test)
        text = f"training is done; selecting weights, and evaluating on validation{test} text"
        self.on_event(LogMessage(text))
        selected = self.select_weights(trained)
        self.on_event(LogMessage(selected.name))
        search, selected = self._tune_length_penalty(selected)
        tuned = self._replace(recipe=replace(self.recipe, search=search))
        result = tuned._evaluate(selected, trained)
        bundle = run_bundle(
            self.recipe, selected.model, prepared=self.prepared, scores=_bundle_scores(result)
        )
        bundle.search = search
        bundle.confidence = fit_confidence(
            selected.translations, self.prepared.validation, tokenizer=self.prepared.tokenizer
        )
        bundle.save(self.out / "model")
        self.page(selected.model).write(result)

    def select_weights(self, trained: TrainResult) -> ScoredWeights:
        """Select on validation: the checkpoint average, the best checkpoint, or the EMA."""
        model, ema, pairs = trained.model.eval(), trained.ema_model, self.prepared.validation
        model.load_state_dict(average_weights([load_weights(path) for path in trained.checkpoints]))
        count = len(trained.checkpoints)
        name = (
            f"the average of the last {count} checkpoints" if count > 1 else "the last checkpoint"
        )
        candidates = {name: model}
        if ema:
            candidates["the running mean of the weights"] = ema
        is_candidate = (ema or count == 1) and trained.state.best_update == trained.state.update
        if not is_candidate:  # the best weights so far, of an earlier update or not averaged
            kind = "running mean" if ema else "single checkpoint"
            if single := self._best_model(trained, model.embedding.weight.device):
                candidates[f"the best {kind} (update {trained.state.best_update})"] = single
        scored = [
            self.candidate(candidate, name, search=self.recipe.search)
            for name, candidate in candidates.items()
        ]
        return select(scored, perplexity=lambda model: self.perplexity(model, pairs).perplexity)

    def candidate(self, model: Transformer, name: str, *, search: SearchConfig) -> ScoredWeights:
        """Translate the validation pairs and score that."""
        pairs = self.prepared.validation
        translations = self.translate(model, pairs, search=search)
        texts = translation_texts(translations)
        score = recipe_bleu(self.recipe, texts, pairs)
        chrf_score = recipe_chrf(self.recipe, texts, pairs)
        return ScoredWeights(model, name, translations, score, chrf_score)

    def _tune_length_penalty(self, selected: ScoredWeights) -> tuple[SearchConfig, ScoredWeights]:
        """Choose the length penalty on validation, where the recipe leaves it to that.

        A short list proposes another exponent, which is taken only if all validation pairs, as
        `translate` translates them, score higher with it.
        """
        recipe, pairs, model = self.recipe, self.prepared.validation, selected.model
        if not recipe.train.tune_length_penalty:
            return recipe.search, selected

        def measure(texts: Sequence[str], some: Sequence[Pair]) -> tuple[float, float]:
            score, chrf_score = recipe_bleu(recipe, texts, some), recipe_chrf(recipe, texts, some)
            return 0.0 if score.note else round(score.value, 2), chrf_score.value

        alpha = propose_alpha(
            model, self.prepared.tokenizer, pairs=pairs, search=recipe.search, measure=measure
        )
        if alpha == recipe.search.alpha:
            return recipe.search, selected
        search = replace(recipe.search, alpha=alpha)
        tuned = self.candidate(model, f"length penalty {alpha:g}", search=search)
        usual = selected._replace(name=f"length penalty {recipe.search.alpha:g}")
        winner = select([usual, tuned], perplexity=lambda model: 0.0)
        self.on_event(LogMessage(f"{winner.name} (search.alpha)"))
        if winner.translations is tuned.translations:
            return search, tuned._replace(name=selected.name)
        return recipe.search, selected

    def _best_model(self, trained: TrainResult, device: torch.device) -> Transformer | None:
        """The model in best/; if that was lost, the same from its checkpoint, or None."""
        best, update = self.out / "best", trained.state.best_update
        # A damaged one was deleted when training began.
        if not recover_interrupted(best):
            checkpoint = self.out / "checkpoints" / f"update-{update:08d}"
            if not checkpoint.is_dir() or find_damage(checkpoint):
                text = f"{best} and the checkpoint of update {update} are lost: left out"
                self.on_event(LogMessage(text))
                return None
            model = new_model(self.recipe, self.prepared)
            name = EMA_WEIGHTS if trained.ema_model else WEIGHTS
            model.load_state_dict(load_weights(checkpoint, name=name))
            run_bundle(self.recipe, model, prepared=self.prepared, scores={}).save(best)
        return Bundle.load(best, device=device).model

    def _evaluate(self, selected: ScoredWeights, trained: TrainResult) -> RunResult:
        """Score the selected weights; writes results.json and hypotheses.*."""
        model, language = selected.model, self.recipe.languages.target
        sets = {"validation": (self.prepared.validation, selected.translations)}
        if test := self.prepared.test:
            sets["test"] = test, self.translate(model, test, search=self.recipe.search)
        results: dict[str, EvaluationResult] = {}
        directions: dict[str, EvaluationResult] = {}
        for name, (pairs, translations) in sets.items():
            file = f"hypotheses.{language}" if name == "test" else f"hypotheses.{name}.{language}"
            results[name] = self._score(model, pairs, translations, file)
            for part, s in self._spans(name):
                kind = "" if part.pairs else " (zero-shot)"
                languages = Languages(source=part.source, target=part.target)
                own = self._replace(recipe=replace(self.recipe, languages=languages))
                directions[f"{name} {part}{kind}"] = own._score(
                    model, pairs[s], translations[s], f"hypotheses.{name}.{part}"
                )
        result = RunResult(
            recipe=self.recipe.name,
            chosen=selected.name,
            updates=trained.state.update,
            seconds=trained.state.seconds,
            parameters=model.size,
            validation=results["validation"],
            test=results.get("test"),
            directions=directions,
        )
        write_text(self.out / "results.json", result.to_json())
        return result

    def _score(
        self,
        model: Transformer,
        pairs: Sequence[Pair],
        translations: Sequence[Translation],
        name: str,
    ) -> EvaluationResult:
        """Score the translations of some pairs, and write them to the file of that name."""
        hypotheses, loss = translation_texts(translations), self.perplexity(model, pairs)
        scores = score_lines(
            hypotheses,
            [pair.target for pair in pairs],
            sources=[without_tag(pair.source) for pair in pairs],
            options=ScoringOptions(
                language=self.recipe.languages.target,
                tokenize=self.recipe.score.bleu_tokenize,
                lower_case=self.recipe.tokenizer.lower_case,
            ),
        )
        write_text(self.out / name, "".join(f"{text}\n" for text in hypotheses))
        return EvaluationResult(
            pairs=len(pairs),
            loss=loss.per_token,
            perplexity=loss.perplexity,
            decoding=describe_decoding(self.recipe.search, translations),
            scores=scores,
        )

    def _spans(self, name: str) -> Iterator[tuple[PreparedDirection, slice]]:
        """Each direction that has pairs in the validation or test set, and where they are."""
        start = 0
        for part in self.prepared.directions:
            count = part.validation_pairs if name == "validation" else part.test_pairs
            if count:
                yield part, slice(start, start + count)
            start += count

    def translate(
        self,
        model: Transformer,
        pairs: Sequence[Pair],
        *,
        search: SearchConfig,
        retry_loops: bool = True,
    ) -> tuple[Translation, ...]:
        """Translate the sources of some pairs."""
        return translate_pairs(
            model, self.prepared.tokenizer, pairs=pairs, search=search, retry_loops=retry_loops
        )

    def perplexity(self, model: Transformer, pairs: Sequence[Pair]) -> Perplexity:
        """Measure the perplexity of some pairs."""
        return evaluate_perplexity(
            model, self.prepared.tokenizer, pairs=pairs, micro_tokens=self.recipe.batch.positions
        )


def recipe_bleu(
    recipe: Recipe, hypotheses: Sequence[str], pairs: Sequence[Pair], *, language: str = ""
) -> Score:
    """Compute BLEU as the recipe has it, in its target language unless another is named."""
    return bleu(
        hypotheses,
        [pair.target for pair in pairs],
        language=language or recipe.languages.target,
        tokenize=recipe.score.bleu_tokenize,
        lower_case=recipe.tokenizer.lower_case,
    )


def recipe_chrf(recipe: Recipe, hypotheses: Sequence[str], pairs: Sequence[Pair]) -> Score:
    """Compute chrF2 as the recipe has it."""
    references = [pair.target for pair in pairs]
    return chrf(hypotheses, references, lower_case=recipe.tokenizer.lower_case)


def compare_texts(
    recipe: Recipe, texts: Sequence[Sequence[str]], pairs: Sequence[Pair], *, metric: str = "bleu"
) -> tuple[SystemComparison, ...]:
    """Compare translations with the first ones by paired bootstrap, scored as the recipe has it."""
    comparison = compare_systems(
        [System(str(index), lines) for index, lines in enumerate(texts)],
        [pair.target for pair in pairs],
        metrics=(metric,),
        language=recipe.languages.target,
        tokenize=recipe.score.bleu_tokenize,
        lower_case=recipe.tokenizer.lower_case,
    )
    return comparison.metrics[0].systems


def select(
    candidates: Sequence[ScoredWeights], *, perplexity: Callable[[Transformer], float]
) -> ScoredWeights:
    """Select by BLEU, ties by chrF2, then perplexity; the name says by what, and against what.

    BLEU does not decide where it is 0.00 for all, or the references are too short for its 4-grams.

    Args:
        candidates: of equals the first is selected.
        perplexity: measures that of a model, if it comes to that.
    """
    measures: dict[str, Callable[[ScoredWeights], float]] = {
        "BLEU": lambda candidate: candidate.bleu.value,
        "chrF2": lambda candidate: candidate.chrf.value,
        "perplexity": lambda candidate: -perplexity(candidate.model),
    }
    if candidates[0].bleu.note or not any(round(c.bleu.value, 2) for c in candidates):
        del measures["BLEU"]
    score, tied, scored = "", list(candidates), list[tuple[float, ScoredWeights]]()
    for name, measure in measures.items():
        scored = [(measure(candidate), candidate) for candidate in tied]
        best = max(value for value, _ in scored)
        score = f"{abs(best):.2f} {name}"
        tied = [candidate for value, candidate in scored if value == best]
        if len(tied) == 1:
            break
    others = [f"{abs(value):.2f} of {c.name}" for value, c in scored if c is not tied[0]]
    against = f", against {' and '.join(others)}" if others else ""
    return tied[0]._replace(name=f"{tied[0].name}: {score} on validation{against}")


def _bundle_scores(finished: RunResult) -> dict[str, float]:
    """The scores as a bundle records them, by set, name and signature."""
    scores: dict[str, float] = {}
    results = {"validation": finished.validation, "test": finished.test, **finished.directions}
    for name, result in results.items():
        if result is not None:
            scores[f"{name} perplexity"] = result.perplexity
            scores |= {f"{name} {s.name} ({s.signature})": s.value for s in result.scores}
    return scores
