"""Options about a corpus, which several commands have, and the settings that they imply."""

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from transduce.cli.app import Overrides, SourceLanguage, TargetLanguage
from transduce.data.languages import base_language, file_language

if TYPE_CHECKING:
    from transduce.config import Recipe

_SIDES = ("source", "target")
# A hyphen is followed by a script or region in capitals, or by the target; a colon by that alone.
_CODE = r"(?:[a-z]+(?:-(?:[A-Z][a-z]{3}|[A-Z]{2}|\d{3}))+|\w+)"
_DIRECTION = rf"([\w-]+(?=:)|{_CODE})[-:]((?<=:)[\w-]+|{_CODE})"
_COLON = "(a colon separates codes with hyphens, as pt-br:en)"
PAIR_OPTIONS = ("source", "target", "source_lang", "target_lang")
"""Of the two sides of a corpus."""


def corpus_settings(
    source: Annotated[
        Path | None, Option(help="Source side of the corpus, one sentence per line.")
    ] = None,
    target: Annotated[Path | None, Option(help="Target side of the corpus, line by line.")] = None,
    source_lang: SourceLanguage = None,
    target_lang: TargetLanguage = None,
    directions: Annotated[
        list[str] | None,
        Option(
            "--direction",
            metavar="EN-DE=SOURCE,TARGET",
            help="A direction of several in one model, and its files; repeatable.",
        ),
    ] = None,
    validation: Annotated[
        tuple[Path, Path] | None,
        Option(
            "--validation",
            metavar="SOURCE TARGET",
            help="Validation pairs, two files [default: held out of the corpus].",
        ),
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None,
        Option("--test", metavar="SOURCE TARGET", help="Test pairs, two files, for a score."),
    ] = None,
    also: Annotated[
        list[str] | None,
        Option(
            "--also",
            metavar="FILE[,FILE][:WEIGHT]",
            help="Train on this corpus too, such as synthetic pairs; an epoch goes through it "
            "WEIGHT times [default: once]; EN-DE=FILE belongs to that --direction; repeatable.",
        ),
    ] = None,
    settings: Overrides = None,
) -> list[str]:
    """Return the settings that the options about the corpus imply, and then those of `--set`.

    Without --source-lang and --target-lang, file names tell.

    Raises:
        ValueError: for options that exclude or need each other, or a direction of another form.
    """
    corpus = [f"data.also=[{', '.join(map(_addition_table, also))}]"] if also else []
    if directions:
        if source or target or validation or test or source_lang or target_lang:
            raise ValueError(
                "--direction names the training files and their languages: leave out --source, "
                "--target, --source-lang, --target-lang, --validation and --test (a recipe's "
                "data.directions has all of them)"
            )
        tables = ", ".join(map(_direction_table, directions))
        return [f"data.directions=[{tables}]", *corpus, *(settings or ())]
    if (source is None) != (target is None):
        raise ValueError(
            "--source and --target belong together: name both files, or one TSV file by "
            "--set data.train=FILE"
        )
    train = None if source is None or target is None else (source, target)
    for key, files in (("train", train), ("validation", validation), ("test", test)):
        if files:
            names = json.dumps([str(file) for file in files], ensure_ascii=False)
            corpus.append(f"data.{key}={names}")
    languages = (source_lang, target_lang)
    for side, file, named in zip(_SIDES, (source, target), languages, strict=True):
        code = file_language(file) if named is None else named
        if code or named is not None:
            corpus.append(f"languages.{side}={json.dumps(code, ensure_ascii=False)}")
    return [*corpus, *(settings or ())]


def with_corpus_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of `corpus_settings` and --set; its `settings` are what they imply."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = inspect.signature(corpus_settings, eval_str=True).parameters.values()
        options = [option for option in options if option.name in (*names, "settings")]
        own = inspect.signature(command, eval_str=True)

        @wraps(command)
        def run(**given: Any) -> None:
            corpus = {option.name: given.pop(option.name) for option in options}
            command(settings=corpus_settings(**corpus), **given)

        parameters = [
            parameter
            for declared in own.parameters.values()
            for parameter in (options if declared.name == "settings" else [declared])
        ]
        vars(run)["__signature__"] = own.replace(parameters=parameters)  # typer reads it
        return run

    return decorate


def _direction_table(text: str) -> str:
    match = re.fullmatch(rf"{_DIRECTION}=([^,]+)(?:,([^,]+))?", text)
    if not match:
        raise ValueError(f"--direction takes en-de=SOURCE,TARGET, not {text!r} {_COLON}")
    source, target, *files = match.groups()
    names = json.dumps([file for file in files if file], ensure_ascii=False)
    codes = [json.dumps(code, ensure_ascii=False) for code in (source, target)]
    return f"{{source = {codes[0]}, target = {codes[1]}, train = {names}}}"


def _addition_table(text: str) -> str:
    # A path may have a colon.
    match = re.fullmatch(rf"(?:{_DIRECTION}=)?(.+?)(?::(\d*\.?\d+))?", text)
    source, target, files, weight = match.groups("") if match else ("", "", text, "")
    if not source and re.match(r"\w+(?:[-:]\w+)+=", files):
        raise ValueError(f"--also takes en-de=SOURCE,TARGET:WEIGHT, not {text!r} {_COLON}")
    names = json.dumps(files.split(","), ensure_ascii=False)
    codes = f"source = {json.dumps(source)}, target = {json.dumps(target)}"
    return f"{{{codes}, train = {names}, weight = {float(weight or 1)}}}"


def complete_languages(recipe: "Recipe", *, run: Path | None = None) -> "tuple[Recipe, str]":
    """Return the recipe with the languages that it lacks, and a line that names guessed ones.

    The corpus's files' names or text tell; of a run that was begun its languages are kept.

    Raises:
        ValueError: if one language of a file that names them stays unknown.
    """
    files, missing = recipe.data.paths(recipe.data.train), recipe.languages.missing
    if not files or not missing:
        return recipe, ""
    codes: dict[str, str] = {}
    if run is not None and (run / "recipe.toml").is_file():
        from transduce.config import load_recipe

        recorded = load_recipe(run / "recipe.toml").languages
        codes = {side: getattr(recorded, side) for side in missing}
        return replace(recipe, languages=replace(recipe.languages, **codes)), ""
    from transduce.corpus_check.language import guess_languages
    from transduce.data.pair_files import names_languages

    named = [file_language(file) for file in files] if len(files) == 2 else ["", ""]
    guesses = ("", "") if all(named) else guess_languages(files)
    languages = recipe.languages
    known = {base_language(code) for code in (*named, languages.source, languages.target)}
    guessed: list[str] = []
    for side, name, guess in zip(_SIDES, named, guesses, strict=True):
        if side in missing and (name or guess not in known):  # "" is known where a name is ""
            codes[side] = name or guess
            guessed += [] if name else [f"{side} {guess}"]
    recipe = replace(recipe, languages=replace(languages, **codes))
    unknown = recipe.languages.missing
    if len(unknown) == len(files) == 1 and names_languages(files[0]):
        raise ValueError(f"{files[0]} names the languages of its texts: add --{unknown[0]}-lang")
    line = f"languages guessed from the text: {', '.join(guessed)}"
    options = "--source-lang and --target-lang name others"
    return recipe, f"{line}; {options}" if guessed else ""
