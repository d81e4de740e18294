"""Recipes: TOML files with all settings of a run.

A recipe may extend another, name a preset of model sizes, and leave settings at their defaults
(the paper's). A loaded recipe is frozen and complete, and `to_toml` stores all of it with the
weights. An unknown key is refused with the nearest known one. No torch is imported here.
"""

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import tomlkit
from pydantic import TypeAdapter, ValidationError

from transduce.data.config import (
    AdditionalCorpus,
    AugmentConfig,
    BatchConfig,
    CorpusConfig,
    DirectionConfig,
    Languages,
    ScoreConfig,
    TokenizerConfig,
)
from transduce.io.atomic_folder import naming, sanitise
from transduce.model.config import PRESETS, ModelConfig
from transduce.recipes import table3
from transduce.search.config import SearchConfig
from transduce.train.config import TrainConfig

Table = dict[str, object]
"""A TOML table with unchecked values."""

_Settings = TypeVar("_Settings")

_REASONS: Mapping[str, str] = {
    "model.positions=none": "without positions the model would be a bag of words"
}
"""Reasons why plausible settings do not exist."""

RENAMED: Mapping[str, str] = {
    "train.rate": "train.learning_rate",
    "train.matrix_rate": "train.muon_learning_rate",
    "train.average": "train.average_checkpoints",
    "train.most_skipped": "train.max_skipped_updates",
    "train.shard": "train.fsdp",
    "train.threads": "train.intra_op_threads",
    "train.tensorboard": "train.log_to",
    "batch.sampling": "batch.subword_sampling",
}
"""Former names of settings: recipes, runs and bundles of version 0.1.0 have them."""

REMOVED = ("train.compile",)
"""Settings that are gone and never changed what is learned: older recipes and runs have them."""

_SHAPE = ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """All settings of a run, made by `load_recipe`."""

    name: str = "recipe"
    """The default run folder is `runs/NAME`."""

    languages: Languages = field(default_factory=Languages)
    data: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    """Its `vocab_size` is the tokenizer's setting; training takes the size of the trained one."""

    augment: AugmentConfig = field(default_factory=AugmentConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)


_SECTIONS: Mapping[str, type] = {
    section: kind for section, kind in get_type_hints(Recipe).items() if section != "name"
}

_TABLES: Mapping[str, type] = {"data.directions": DirectionConfig, "data.also": AdditionalCorpus}
"""Settings that are a list of tables."""


def shipped_recipes() -> tuple[str, ...]:
    """Name the recipes that come with the package, in alphabetical order.

    >>> "tiny" in shipped_recipes()
    True
    """
    folder = resources.files("transduce").joinpath("recipes")
    return tuple(sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".toml")))


def load_recipe(recipe: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and complete it.

    Args:
        recipe: a shipped recipe's name, a row of the paper's Table 3 such as "table3-c5", or a
            TOML file.
        overrides: each "section.key=value" with a TOML value; a value that is not TOML is text.

    Returns:
        The recipe with all settings.

    Raises:
        ValueError: for a missing file, invalid TOML, an unknown setting or an invalid value; one
            line that names the key, the value and what is allowed.

    >>> load_recipe("tiny", ["train.updates=500"]).train.updates
    500
    """
    table = _read(recipe, seen=())
    _merge(table, _from_overrides(overrides))
    name = table.pop("name", Path(recipe).stem)
    for section in table:
        if section not in _SECTIONS:
            raise ValueError(_unknown(section))
    loaded = replace(
        Recipe(name=_text("name", name)),
        **{section: _build(kind, section, table=table) for section, kind in _SECTIONS.items()},
    )
    loaded = replace(loaded, model=replace(loaded.model, vocab_size=loaded.tokenizer.vocab_size))
    if loaded.data.directions and loaded.languages == Languages():
        source, target = loaded.data.trained[0].pair
        loaded = replace(loaded, languages=Languages(source=source, target=target))
    for contradiction in conflicts(loaded):
        raise ValueError(contradiction)
    return loaded


def explicit_settings(recipe: str | Path | None, overrides: Sequence[str] = ()) -> frozenset[str]:
    """Name the settings that a recipe and overrides set explicitly, as "section.key".

    Args:
        recipe: as for `load_recipe`; None looks at the overrides alone.
        overrides: as for `load_recipe`.

    >>> sorted(explicit_settings(None, ["train.seed=2", "data.folder=here"]))
    ['data.folder', 'train.seed']
    """
    table = _read(recipe, seen=()) if recipe is not None else {}
    _merge(table, _from_overrides(overrides))
    return frozenset(_flat(table))


def explicit_values(overrides: Sequence[str]) -> Table:
    """Return the settings of overrides, not checked yet, by "section.key".

    Args:
        overrides: as for `load_recipe`.
    """
    return _flat(_from_overrides(overrides))


def to_toml(recipe: Recipe) -> str:
    """Return all settings as TOML, which `load_recipe` reads back.

    Only `model.vocab_size` is left out: it follows `tokenizer.vocab_size`.
    """
    document = tomlkit.document()
    document.add("name", tomlkit.item(recipe.name))
    for section in _SECTIONS:
        table = tomlkit.table()
        values: Table = asdict(getattr(recipe, section))
        for key, value in values.items():
            if f"{section}.{key}" != "model.vocab_size":
                table.add(key, _lists(value))
        document.add(section, table)
    return tomlkit.dumps(document)


def _lists(value: object) -> object:
    """A value with lists for tuples, as TOML has them."""
    if isinstance(value, tuple):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value


def differences(first: Recipe, second: Recipe) -> Iterator[str]:
    """Name the settings in which two recipes differ, as "section.key".

    >>> list(differences(load_recipe("tiny"), load_recipe("tiny", ["train.seed=2"])))
    ['train.seed']
    """
    if first.name != second.name:
        yield "name"
    for section, kind in _SECTIONS.items():
        left, right = getattr(first, section), getattr(second, section)
        for entry in fields(kind):
            if getattr(left, entry.name) != getattr(right, entry.name):
                yield f"{section}.{entry.name}"


def conflicts(recipe: Recipe) -> Iterator[str]:
    """Yield a line for each pair of settings from different sections that contradict each other."""
    data, model = recipe.data, recipe.model
    longest, positions = data.max_pieces + 1, recipe.batch.positions
    if longest > model.longest:
        yield (
            f"model.max_positions {model.max_positions} is too few for the pairs of "
            f"data.max_pieces {data.max_pieces} and their EOS: raise the one to "
            f"{longest} or lower the other to {model.max_positions - 1}"
        )
    if longest > positions:
        yield (
            f"batch.micro_tokens {positions} has no room for one pair of data.max_pieces "
            f"{data.max_pieces} and its EOS: raise the one to {longest} or lower the other"
        )
    if recipe.batch.subword_sampling and recipe.tokenizer.kind in ("char", "word"):
        yield (
            f"batch.subword_sampling {recipe.batch.subword_sampling} has nothing to resample where "
            f'tokenizer.kind is "{recipe.tokenizer.kind}": set it to 0'
        )
    if not recipe.tokenizer.shared and model.tie in ("all", "input"):
        yield (
            f'model.tie "{model.tie}" makes one embedding of source and target, whose vocabularies '
            f'are separate (tokenizer.shared = false): set model.tie to "decoder" or "none"'
        )
    if recipe.train.r_drop and not model.dropout:
        yield (
            f"train.r_drop {recipe.train.r_drop} compares two passes that differ by dropout, "
            f"and model.dropout is 0: raise the one or set the other to 0"
        )
    tokenizer = recipe.tokenizer
    if data.directions and (tokenizer.protect or tokenizer.extend or not tokenizer.shared):
        yield (
            "data.directions needs one vocabulary with tags: leave out tokenizer.protect and "
            "tokenizer.extend, and tokenizer.shared = false"
        )
    if data.files and not data.validated and not data.held_out:
        yield (
            "there is nothing to validate on: name files in data.validation, or set data.held_out "
            "above 0"
        )
    for name, files in (("validation", data.validation), ("test", data.test)):
        if files and files == data.train:
            yield f"data.{name} names the files of data.train: name text that is not trained on"


def warnings(recipe: Recipe) -> Iterator[str]:
    """Yield a line for each combination of settings that is valid but hardly intended."""
    train = recipe.train
    validations = -(-train.updates // train.validate_every)
    if train.validate_every > train.updates:
        yield (
            f"train.validate_every {train.validate_every} is above train.updates {train.updates}: "
            f"there is one validation, at the end"
        )
    elif train.average_checkpoints > validations:
        yield (
            f"train.average_checkpoints {train.average_checkpoints} is more than the {validations} "
            f"checkpoints that a run of {train.updates} updates makes: all {validations} are "
            f"averaged"
        )
    if train.schedule == "paper" and train.warmup >= train.updates:
        yield (
            f"train.warmup {train.warmup} is not below train.updates {train.updates}: the rate "
            f"only rises"
        )


def _read(recipe: str | Path, *, seen: tuple[Path, ...]) -> Table:
    """Read a recipe and those it extends, with presets filled in."""
    if isinstance(recipe, str) and recipe in table3.RECIPES:
        return _extended(table3.recipe(table3.RECIPES[recipe]), Path(), seen=seen)
    path = _find(recipe)
    try:
        with naming(path):
            table: Table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text, as a recipe must be") from None
    except RecursionError:
        raise ValueError(f"{path} is no recipe: it is nested too deeply") from None
    except ValueError as error:  # TOML's own, or Python's at a number of thousands of digits
        raise ValueError(f"{path} is not TOML: {sanitise(str(error))}") from None
    return _extended(table, path, seen=seen)


def _extended(table: Table, place: Path, *, seen: tuple[Path, ...]) -> Table:
    """Merge a recipe's tables into those of the recipe it extends."""
    _rename_former(table)
    _fill_preset(table)
    parent = table.pop("extends", None)
    if parent is None:
        return table
    parent = _text("extends", parent)
    if place.resolve() in seen:
        raise ValueError(f"the recipe {place} extends itself: take the line `extends` out of one")
    if parent not in shipped_recipes() and parent not in table3.RECIPES:
        parent = str(place.parent / parent)  # a file is looked up beside the one that names it
    base = _read(parent, seen=(*seen, place.resolve()))
    base.pop("name", None)
    _merge(base, table)
    return base


def _rename_former(table: Table) -> None:
    """Replace former names of settings by the current ones, and drop what is gone."""
    for removed in REMOVED:
        section, _, key = removed.partition(".")
        if isinstance(part := table.get(section), dict):
            cast(Table, part).pop(key, None)
    for old, new in RENAMED.items():
        section, _, key = old.partition(".")
        part = table.get(section)
        if isinstance(part, dict) and key in part:
            settings: Table = part
            name = new.partition(".")[2]
            if name in settings:
                raise ValueError(f"{old} is the former name of {new}: leave it out")
            if old == "train.tensorboard":  # which was true or false
                settings[key] = ["tensorboard"] * bool(settings[key])
            table[section] = {name if k == key else k: value for k, value in settings.items()}


def _flat(table: Table) -> Table:
    """The settings of all sections, by "section.key"."""
    sections = ((name, cast(Table, part)) for name, part in table.items() if isinstance(part, dict))
    return {f"{name}.{key}": value for name, part in sections for key, value in part.items()}


def _find(recipe: str | Path) -> Path:
    if isinstance(recipe, str) and recipe in shipped_recipes():
        return Path(str(resources.files("transduce").joinpath("recipes", f"{recipe}.toml")))
    path = Path(recipe)
    if path.is_file():
        return path
    if (path / "recipe.toml").is_file():
        raise ValueError(f"{path} is a run, not a recipe: to resume it, --resume --out {path}")
    if path.exists():
        raise ValueError(f"{path} is not a recipe but a folder: name a TOML file")
    if path.suffix == ".toml":
        raise ValueError(f"there is no recipe file {path}")
    near = _nearest(str(recipe), [*shipped_recipes(), *table3.RECIPES])
    hint = f"did you mean {near}? " if near else ""
    rows = ", ".join(row.name.lower() for row in table3.ROWS)
    raise ValueError(
        f"there is no recipe {str(recipe)!r}: {hint}"
        f"Shipped are {', '.join(shipped_recipes())}, and {table3.PREFIX} with a row of the "
        f"paper's Table 3 ({rows}); or name a TOML file"
    )


def _fill_preset(table: Table) -> None:
    """Replace `model.preset` by its shape; keys set explicitly take precedence."""
    model = table.get("model")
    if not isinstance(model, dict) or "preset" not in model:
        return
    explicit: Table = dict(model)
    preset = explicit.pop("preset")
    if not isinstance(preset, str) or preset not in PRESETS:
        allowed = ", ".join(f'"{name}"' for name in PRESETS)
        raise ValueError(f"model.preset must be one of {allowed}, not {_shown(preset)}")
    defaults: Table = {entry.name: entry.default for entry in fields(ModelConfig)}
    shape: Table = {key: defaults[key] for key in _SHAPE}
    table["model"] = shape | dict(PRESETS[preset]) | explicit


def _from_overrides(overrides: Sequence[str]) -> Table:
    """Parse "section.key=value" settings into tables."""
    table: Table = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        section, dot, name = key.partition(".")
        if not (equals and (dot or section == "name")):
            raise ValueError(f"a setting is written section.key=value, not {override!r}")
        if not dot:
            table[section] = text.strip()
            continue
        text = text.strip()
        value = _parsed(text)
        kind = get_type_hints(_SECTIONS[section]).get(name) if section in _SECTIONS else None
        if kind is str and not isinstance(value, str):
            value = text  # a folder may be called 2024
        if kind is float and isinstance(value, str):
            with suppress(ValueError):  # TOML wants a digit before the point, people may not
                value = float(value)
        if get_origin(kind) is tuple and isinstance(value, str):
            if text.startswith("[") and text.endswith("]"):  # the shell took the quotes, say
                raise ValueError(
                    f"{key} is not a list in TOML: {text}; put each text in single quotes and the "
                    f"setting in double ones, as \"{key}=['a', 'b']\""
                )
            value = [value]  # one TSV file, or one tracker
        part = table.setdefault(section, {})
        if not isinstance(part, dict):
            raise ValueError(f"{section} is text and has no settings, not {override!r}")
        part[name] = value
    _fill_preset(table)
    return table


def _parsed(text: str) -> object:
    try:
        table: Table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text


def _merge(base: Table, over: Table) -> None:
    """Update the tables of `base` with those of `over`, key by key."""
    for section, part in over.items():
        below = base.get(section)
        if isinstance(below, dict) and isinstance(part, dict):
            base[section] = below | part
        else:
            base[section] = part


def _build(kind: type[_Settings], section: str, *, table: Table) -> _Settings:
    """Build one section's settings from its table: known keys only, each of the right type."""
    part = table.get(section, {})
    if not isinstance(part, dict):
        raise ValueError(f"{section} must be a table of settings, [{section}], not {_shown(part)}")
    values: Table = part
    kinds = get_type_hints(kind)
    for key in values:
        name = f"{section}.{key}"
        if name == "model.vocab_size":
            raise ValueError(f"{name} follows the tokenizer: set tokenizer.vocab_size instead")
        if key not in kinds:
            raise ValueError(_unknown(name))
        if name in _TABLES and isinstance(values[key], list):
            parts = cast(list[object], values[key])
            values[key] = [_build(_TABLES[name], name, table={name: part}) for part in parts]
        values[key] = _checked(name, values[key], kinds[key])
    return kind(**values)


def _checked(key: str, value: object, kind: object) -> object:
    """Return `value` if it is of `kind`: "12" is not a number, 1 not a boolean."""
    try:
        given = tuple(value) if isinstance(value, list) else value
        adapter = TypeAdapter[object](kind)  # pyright: ignore[reportArgumentType]  any hint will do
        checked = adapter.validate_python(given, strict=True)
    except ValidationError:
        if reason := _REASONS.get(f"{key}={value}"):
            raise ValueError(f"{key}: {reason}; choose {_allowed(kind)}") from None
        raise ValueError(f"{key} must be {_allowed(kind)}, not {_shown(value)}") from None
    if isinstance(checked, float) and not math.isfinite(checked):
        raise ValueError(f"{key} must be a finite number, not {value}")
    return checked


def _text(key: str, value: object) -> str:
    text = _checked(key, value, str)
    assert isinstance(text, str)
    return text


def _allowed(kind: object) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return 'a whole number or "auto"'
    if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Literal:
        return f"a list with any of {_allowed(get_args(kind)[0]).removeprefix('one of ')}"
    if get_origin(kind) is tuple:
        is_text = get_args(kind)[0] is str
        return 'a list of texts such as ["a.en", "a.de"]' if is_text else "a list of tables"
    if kind is bool:
        return "true or false"
    return "a whole number" if kind is int else "a number" if kind is float else "text"


def _shown(value: object) -> str:
    """A value as TOML writes it, cut where it is long."""
    try:
        text = tomlkit.item(value).as_string()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown(key: str) -> str:
    """The message for an unknown setting, with the nearest known one."""
    key = sanitise(key)
    section = next((t for t in _TABLES if key.startswith(f"{t}.")), key.partition(".")[0])
    if section == key:
        known = [*_SECTIONS, "name", "extends"]
        near = _nearest(key, known)
        return f"unknown section {section!r}: " + (
            f"the nearest known one is {near!r}" if near else f"there are {', '.join(known)}"
        )
    kinds = {**_SECTIONS, **_TABLES}
    names = [f"{table}.{entry.name}" for table, kind in kinds.items() for entry in fields(kind)]
    names = [known for known in [*names, "model.preset"] if known != "model.vocab_size"]
    siblings = [known.rpartition(".")[2] for known in names if known.rpartition(".")[0] == section]
    name = key.removeprefix(f"{section}.")
    near = _nearest(name, siblings)
    elsewhere = next((known for known in names if known.endswith(f".{name}")), "")
    if near or elsewhere:
        nearest = elsewhere or f"{section}.{near}"
        return f"unknown setting {key}: the nearest known one is {nearest}"
    return f"unknown setting {key}: {section} has {', '.join(siblings)}"


def _nearest(word: str, known: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.5)), "")
