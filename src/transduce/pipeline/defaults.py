"""Default settings by the size of the corpus, in one table.

A small corpus needs few pieces, so that each is seen often, and dropout and R-Drop against
overfitting; a large one needs neither. Everything else is the shipped recipe that a row is based
on. Settings made by hand win, and what depends on them (updates on the tokens of one) follows.
"""

import itertools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from transduce.config import Recipe, explicit_settings, explicit_values, load_recipe
from transduce.pipeline.training_pairs import corpus_files, vocabulary_tags
from transduce.train.config import TrainConfig
from transduce.train.events import Event, EventHandler, LogMessage

FALLBACK: Final = "tiny"
"""The recipe if there is no corpus to measure."""


class CorpusDefaults(NamedTuple):
    """The defaults of one size of corpus."""

    below: int
    """Pairs."""
    layers: int
    """Of the encoder, and of the decoder; the width is that of `tiny`."""
    vocab_size: int
    dropout: float
    r_drop: float
    """α of R-Drop, unless words are spelled, where its gain is not measured."""
    tokens: int
    """Of one update, on the target side."""
    epochs: int
    reason: str


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CORPUS_DEFAULTS: Final = tuple(CorpusDefaults(**row) for row in _TABLE["small"])
"""From small to large; above the last one a recipe is used unchanged."""


class LargeCorpusDefaults(NamedTuple):
    """The recipe of a larger corpus."""

    at_least: int
    """Pairs."""
    recipe: str
    reason: str


LARGE_CORPUS_DEFAULTS: Final = tuple(LargeCorpusDefaults(**row) for row in _TABLE["large"])
"""From small to large."""

_LARGEST = LARGE_CORPUS_DEFAULTS[-1].at_least
_MEASURED = CORPUS_DEFAULTS[-1].below  # pairs whose words are counted
_PIECES_A_WORD = 1.3
_LETTERS_A_PIECE = 6  # at most; counts where no spaces stand
_SPELLED_WORDS, _SPELLED_LETTERS, _SPELLED_CHARACTERS = 1.5, 20, 300  # at most
_MANY_CHARACTERS = 1000  # as Chinese and Japanese have: the rarest are better spelled as bytes
_MOST_CHARACTERS = 20_000  # counted
_COVERAGE = 0.9995  # of characters that get a piece then
_SPECIAL_PIECES = 4  # EOS, UNK, PAD and the space before a text
_BYTE_PIECES = 256
_FEWEST_UPDATES = 300
VALIDATIONS: Final = 25
R_DROP_EPOCHS: Final = 30
"""A run of a given time has R-Drop by default if it would have so many epochs without: in the time
of 6 it lost 2.1 BLEU, in that of 23 and of 60 it gained about 0.3 and 0.5 (docs/quality.md)."""
_WARMUP = (15, 200)  # a 15th of the updates, and at most 200
_LONGEST_WARMUP = 4  # a quarter of the updates, where a recipe's warm-up is longer
_SMALLEST_FACTOR = 0.05  # on equation (3) that `TrainConfig` allows


class CorpusSize(NamedTuple):
    """How large a corpus is."""

    pairs: int
    """At most the bound above which nothing changes."""
    target_tokens: int
    """About: pieces and EOS, of at most the largest corpus of `CORPUS_DEFAULTS`."""
    words_a_line: float = math.inf
    """Of the side with more."""
    characters: int = 0
    """Different ones, of both sides; not counted far beyond `_MOST_CHARACTERS`."""
    letters_a_line: float = 0.0
    """Of the side with fewer: sentences in scripts without spaces have many."""

    @property
    def spells(self) -> bool:
        """Whether the task is to spell words or numbers, rather than to translate sentences."""
        short = self.words_a_line <= _SPELLED_WORDS and self.letters_a_line <= _SPELLED_LETTERS
        return short and self.characters <= _SPELLED_CHARACTERS


class EpochPlan(NamedTuple):
    """The schedule by epochs or time, known once the corpus is prepared: before, a guess."""

    epochs: int
    """Used if the recipe has none; 0: its updates."""
    by_hand: frozenset[str]
    """Settings that stay as they are."""
    recipe_given: bool = False
    """Whether the recipe's warm-up and validation interval stay, where they fit."""

    def schedule(self, recipe: Recipe, *, updates_per_epoch: int) -> Recipe:
        """Return the recipe with the updates of so many epochs, and what follows from them.

        Where the warm-up of equation (3) is shortened, its factor keeps the peak.
        """
        train = recipe.train
        if "train.updates" in self.by_hand:
            return replace(recipe, train=replace(train, epochs=0))
        if not (train.epochs or self.epochs):
            return recipe
        updates = train.epochs * updates_per_epoch
        updates = updates or max(_FEWEST_UPDATES, self.epochs * updates_per_epoch)
        every = min(train.validate_every, updates) if self.recipe_given else 0
        every = every or _validate_every(updates)
        warmup, learning_rate = self._warmup(train, updates), train.learning_rate
        if train.schedule == "paper" and warmup < train.warmup:
            learning_rate = max(_SMALLEST_FACTOR, learning_rate * (warmup / train.warmup) ** 0.5)
        return self._with(recipe, updates, warmup, every, learning_rate=learning_rate)

    def fit(self, recipe: Recipe, updates: int, *, validations: int) -> Recipe:
        """Return the recipe with so many updates and validations, and a schedule that ends.

        Equation (3) never falls to zero: "linear" takes its place, from the same peak.
        """
        warmup = self._warmup(recipe.train, updates)
        if recipe.train.schedule == "paper" and "train.schedule" not in self.by_hand:
            peak = recipe.train.learning_rate
            peak *= (recipe.model.d_model * recipe.train.warmup) ** -0.5
            # At once, as each setting is checked against the others.
            recipe = self._with(recipe, updates, warmup, 1, schedule="linear", learning_rate=peak)
        return self._with(recipe, updates, warmup, -(-updates // validations))

    def may_omit_r_drop(self, recipe: Recipe) -> bool:
        """Return whether the recipe has R-Drop by default, which a short run is better without."""
        by_default = not self.recipe_given and "train.r_drop" not in self.by_hand
        return bool(recipe.train.r_drop) and by_default

    def resume(self, recipe: Recipe, *, begun: Recipe) -> Recipe:
        """Return the recipe with the schedule that its run was begun with."""
        train = begun.train
        if "train.updates" in self.by_hand:
            return replace(recipe, train=replace(recipe.train, epochs=train.epochs))
        kept: dict[str, object] = {} if self.recipe_given else {"r_drop": train.r_drop}
        if train.time and recipe.train.time:
            kept |= {"schedule": train.schedule, "learning_rate": train.learning_rate}
        elif train.schedule == "paper" and train.warmup < recipe.train.warmup:
            kept["learning_rate"] = train.learning_rate
        return self._with(recipe, train.updates, train.warmup, train.validate_every, **kept)

    def _with(
        self, recipe: Recipe, updates: int, warmup: int, validate_every: int, **settings: object
    ) -> Recipe:
        settings |= {"warmup": warmup, "validate_every": validate_every}
        free = {key: v for key, v in settings.items() if f"train.{key}" not in self.by_hand}
        return replace(recipe, train=replace(recipe.train, updates=updates, **free))

    def _warmup(self, train: TrainConfig, updates: int) -> int:
        if "train.warmup" in self.by_hand:
            return train.warmup
        if self.recipe_given:
            return min(train.warmup, max(1, updates // _LONGEST_WARMUP))
        return _warmup(updates)


NO_PLAN: Final = EpochPlan(0, frozenset(), recipe_given=True)


class RecipeChoice(NamedTuple):
    """A recipe that fits a corpus."""

    recipe: Recipe
    summary: str
    """One line: what was chosen and why; may be empty."""
    plan: EpochPlan | None = None
    """What sets `train.updates` once the corpus is prepared; None: they are what they are."""


def choose_recipe(recipe: str | None, settings: Sequence[str] = ()) -> RecipeChoice:
    """Load a recipe, a name or file, with settings, as `load_recipe`; None: one for the corpus.

    A length of the run among the settings replaces that of the recipe.
    """
    by_hand = explicit_values(settings)
    lengths = [key for key in ("train.epochs", "train.time", "train.updates") if by_hand.get(key)]
    if len(lengths) > 1:
        raise ValueError(f"{' and '.join(lengths)} are both lengths of the run: leave one out")
    if recipe is None:
        return recipe_for_corpus(settings)
    loaded = load_recipe(recipe, ["train.time=", *settings] if lengths else settings)
    return RecipeChoice(loaded, "", schedule_plan(loaded, frozenset(by_hand)))


def schedule_plan(recipe: Recipe, by_hand: frozenset[str] = frozenset()) -> EpochPlan | None:
    """Return the plan of a recipe whose length is a number of epochs or a time.

    Settings made by hand stay as they are.
    """
    if not (recipe.train.epochs or recipe.train.time):
        return None
    return EpochPlan(0, by_hand, recipe_given=True)


def recipe_for_corpus(settings: Sequence[str] = ()) -> RecipeChoice:
    """Choose a recipe by the corpus of the settings, each "section.key=value", which win.

    Returns:
        The complete recipe. Without a corpus it is `tiny`, and the summary is empty.

    Raises:
        ValueError: if the corpus cannot be read, or a setting is wrong.
    """
    sections = ("data", "languages")
    corpus = [setting for setting in settings if setting.partition(".")[0].strip() in sections]
    named = load_recipe(FALLBACK, corpus)
    if not named.data.files:
        return RecipeChoice(load_recipe(FALLBACK, settings), "")
    size = measure_corpus(named)
    vocabulary = partial(_vocabulary, size=size, by_hand=settings, tags=len(vocabulary_tags(named)))
    row = next((row for row in CORPUS_DEFAULTS if size.pairs < row.below), None)
    if row is None:
        large_row = next(r for r in reversed(LARGE_CORPUS_DEFAULTS) if size.pairs >= r.at_least)
        usual = load_recipe(large_row.recipe).tokenizer.vocab_size
        applied = [*vocabulary(usual), *_tuned_search(settings), *settings]
        recipe = load_recipe(large_row.recipe, applied)
        plan = schedule_plan(recipe, explicit_settings(None, settings))
        return RecipeChoice(recipe, _line(recipe, size, since=large_row.reason, plan=plan), plan)
    applied = [*_settings(row, size, settings), *vocabulary(row.vocab_size)]
    recipe = load_recipe(FALLBACK, [*applied, *_tuned_search(settings), *settings])
    plan = EpochPlan(row.epochs, explicit_settings(None, settings))
    return RecipeChoice(recipe, _line(recipe, size, since=row.reason, plan=plan), plan)


def with_first_message(line: str, on_event: EventHandler) -> EventHandler:
    """Return a handler that emits a message before the first event, if there is one."""
    pending = [line] if line else []

    def handler(event: Event) -> None:
        if pending:
            on_event(LogMessage(pending.pop()))
        on_event(event)

    return handler


def describe_updates(updates: int, *, per_epoch: int) -> str:
    """Format how long a run is.

    >>> describe_updates(9614, per_epoch=437)
    '9,614 updates, about 22 epochs'
    """
    epochs = updates / per_epoch
    text = f"{epochs:,.0f}" if epochs >= 100 else f"{epochs:.3g}"
    return f"{updates:,} update{'s' * (updates != 1)}, about {text} epoch{'s' * (text != '1')}"


def measure_corpus(recipe: Recipe) -> CorpusSize:
    """Count the training pairs, up to those of a large corpus, and estimate their target tokens.

    Only the recipe's files and languages count.

    Raises:
        ValueError: if the files cannot be read that far; one line.
    """
    pairs = source_words = words = source_letters = letters = 0
    characters = set[str]()
    corpora = (part.read("drop") for part in corpus_files(recipe) if part.files)
    read = (pair for _, pair in itertools.chain.from_iterable(corpora) if all(pair))
    for pair in itertools.islice(read, _LARGEST):  # those of other languages have an empty side
        pairs += 1
        if pairs > _MEASURED:
            continue
        source_words += pair.source.count(" ") + 1
        words += pair.target.count(" ") + 1
        source_letters += len(pair.source)
        letters += len(pair.target)
        if len(characters) <= _MOST_CHARACTERS:
            characters.update(pair.source, pair.target)
    pieces = max(_PIECES_A_WORD * words, letters / _LETTERS_A_PIECE)
    measured = min(pairs, _MEASURED)
    most_words = max(source_words, words) / max(1, measured)
    fewest_letters = min(source_letters, letters) / max(1, measured)
    size = CorpusSize(pairs, round(pieces) + measured, most_words, len(characters), fewest_letters)
    return size._replace(target_tokens=letters + measured) if size.spells else size


def _settings(row: CorpusDefaults, size: CorpusSize, by_hand: Sequence[str]) -> list[str]:
    """A row as settings, without those made by hand."""
    explicit = explicit_values(by_hand)

    def positive(key: str, default: int) -> int:
        """The value set by hand, unless it is wrong: that gets its error in `load_recipe`."""
        value = explicit.get(key)
        return value if isinstance(value, int) and value > 0 else default

    tokens = positive("batch.tokens", row.tokens)
    estimate = max(_FEWEST_UPDATES, round(row.epochs * size.target_tokens / tokens / 100) * 100)
    updates = positive("train.updates", estimate)
    settings: dict[str, int | float | str] = {
        "model.encoder_layers": row.layers,
        "model.decoder_layers": row.layers,
        "tokenizer.vocab_size": row.vocab_size,
        "model.dropout": row.dropout,
        "batch.tokens": tokens,
        "train.updates": updates,
        "train.warmup": _warmup(updates),
        "train.validate_every": _validate_every(updates),
    }
    if row.r_drop and not size.spells and explicit.get("model.dropout", row.dropout):
        settings["train.r_drop"] = row.r_drop
    return [f"{key}={value}" for key, value in settings.items() if key not in explicit]


def _vocabulary(usual: int, size: CorpusSize, by_hand: Sequence[str], *, tags: int) -> list[str]:
    """What the vocabulary of words to spell, or of many characters, has instead of usual pieces."""
    explicit = explicit_values(by_hand)
    if size.spells and not {"tokenizer.kind", "tokenizer.vocab_size"} & explicit.keys():
        # Where words are spelled, each character is a piece.
        pieces = size.characters + _SPECIAL_PIECES + tags
        return ['tokenizer.kind="char"', f"tokenizer.vocab_size={pieces}"]
    vocab_size = explicit.get("tokenizer.vocab_size", usual)
    if (
        size.characters > _MANY_CHARACTERS
        and explicit.get("tokenizer.byte_fallback", True)  # without bytes the rarest would be lost
        and explicit.get("tokenizer.kind", "bpe") in ("bpe", "unigram")
        and isinstance(vocab_size, int)  # a wrong one gets its error in `load_recipe`
        and vocab_size > _MANY_CHARACTERS
    ):
        spelled = size.characters + _BYTE_PIECES  # at most; besides, words need pieces
        return [
            f"tokenizer.vocab_size={max(usual, spelled + usual // 4)}",
            f"tokenizer.character_coverage={_COVERAGE}",
            "tokenizer.byte_fallback=true",
        ]
    return []


def _tuned_search(by_hand: Sequence[str]) -> list[str]:
    """The length penalty is chosen on validation, unless it is set by hand."""
    named = {"search.alpha", "train.tune_length_penalty"} & explicit_settings(None, by_hand)
    return [] if named else ["train.tune_length_penalty=true"]


def _warmup(updates: int) -> int:
    part, most = _WARMUP
    return max(1, min(updates // part, most))


def _validate_every(updates: int) -> int:
    return max(1, updates // VALIDATIONS)


def _line(recipe: Recipe, size: CorpusSize, *, since: str, plan: EpochPlan | None = None) -> str:
    model, train = recipe.model, recipe.train
    large = size.pairs >= _MEASURED
    pairs = f"{size.pairs:,} pairs" + (" or more" if size.pairs >= _LARGEST else "")
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers of width {model.d_model}"
    vocabulary = f"{recipe.tokenizer.vocab_size:,} pieces"
    if recipe.tokenizer.kind == "char":
        vocabulary = f"a vocabulary of characters ({size.words_a_line:.1f} words a line)"
    if recipe.tokenizer.byte_fallback and size.characters > _MANY_CHARACTERS:
        vocabulary += " (rare ones of the many characters are spelled as bytes)"
    pieces = f"{vocabulary}, dropout {model.dropout:g}"
    if train.r_drop:
        pieces += f" and R-Drop {train.r_drop:g}"
    updates = f"{train.updates:,} updates"
    if train.time:
        updates = f"as many updates as {train.time} allow"
    elif plan and "train.updates" not in plan.by_hand:  # a guess: what they are is said later
        least = f", at least {_FEWEST_UPDATES}" if train.updates < 3 * _FEWEST_UPDATES else ""
        epochs, least = (train.epochs, "") if train.epochs else (plan.epochs, least)
        updates = f"updates for {epochs} epoch{'s' * (epochs != 1)}{least}"
    gpu = " (it needs a GPU; on a CPU name the recipe tiny)" if large else ""
    return (
        f"{pairs}: {layers}, {pieces}, {updates}, since {since}{gpu}; name a recipe or --set to "
        f"choose otherwise"
    )
