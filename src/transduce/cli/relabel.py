"""transduce relabel."""

from typing import TYPE_CHECKING

from transduce.cli.app import (
    ModelFolder,
    SourceLanguage,
    TargetLanguage,
    app,
    edited_card,
    print_stderr,
    print_stdout,
)

if TYPE_CHECKING:
    from transduce.bundle.bundle import Bundle


@app.command()
def relabel(
    model: ModelFolder, source_lang: SourceLanguage = None, target_lang: TargetLanguage = None
) -> None:
    """Correct the languages of a model; weights and vocabulary stay as they are.

    The folder is replaced atomically, with new checksums and model card. A new code drops the
    former display name.

    Example:

    \b
      transduce relabel runs/mine --source-lang en --target-lang de
    """
    if source_lang is None and target_lang is None:
        raise ValueError("name a language: --source-lang CODE, --target-lang CODE or both")

    from transduce.bundle.bundle import CARD, Bundle, find_bundle, is_unfinished

    if is_unfinished(model):
        raise ValueError(f"the training of {model} is unfinished: relabel the finished model")
    folder = find_bundle(model)
    bundle = Bundle.load(folder)
    card = edited_card(folder, bundle)
    correct_languages(bundle, source=source_lang, target=target_lang)
    bundle.save(folder, card=card)
    print_stdout(f"{folder} translates {bundle.languages.source} to {bundle.languages.target}")
    if card is not None:
        print_stderr(f"{folder / CARD} was edited and stays: correct its languages by hand")


def correct_languages(bundle: "Bundle", *, source: str | None, target: str | None) -> None:
    """Correct the languages of a bundle.

    Args:
        bundle: changed in place.
        source: code by --source-lang; None keeps the former one.
        target: the same by --target-lang.

    Raises:
        ValueError: if a target is given for several directions, or two would be equal.
    """
    if bundle.directions and target is not None:
        raise ValueError(
            "the model has several directions, whose targets follow its tags: leave out "
            "--target-lang"
        )
    bundle.relabel(bundle.languages.with_codes(source=source, target=target))
