"""transduce relabel."""

from transduce.cli.app import (
    ModelFolder,
    SourceLanguage,
    TargetLanguage,
    app,
    edited_card,
    print_stderr,
    print_stdout,
)


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

    from transduce.bundle.bundle import CARD, Bundle, find_bundle

    folder = find_bundle(model)
    if folder.name == "best" and folder != model:
        raise ValueError(f"the training of {model} is unfinished: relabel the finished model")
    bundle = Bundle.load(folder)
    card = edited_card(folder, bundle)
    if bundle.directions and target_lang is not None:
        raise ValueError(
            f"{folder} has several directions, whose targets follow its tags: leave out "
            f"--target-lang"
        )
    bundle.relabel(bundle.languages.with_codes(source=source_lang, target=target_lang))
    bundle.save(folder, card=card)
    print_stdout(f"{folder} translates {bundle.languages.source} to {bundle.languages.target}")
    if card is not None:
        print_stderr(f"{folder / CARD} was edited and stays: correct its languages by hand")
