"""transduce calibrate."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say
from transduce.io.streams import all_lines


@app.command()
def calibrate(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    source: Annotated[Path, typer.Option(help="Text that the model was not trained on.")],
    target: Annotated[Path, typer.Option(help="Its translations, line by line.")],
) -> None:
    """Learn how far a model's translations can be believed, and keep that with the model.

    The text is translated and held against its references. `transduce train` does this by itself,
    with the validation text.

    Example:

    \b
      transduce calibrate models/en-de --source val.en --target val.de
      transduce translate models/en-de --confidence < in.txt
    """
    sources, targets = all_lines(source), all_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines but {target} has {len(targets)}: line n must "
            f"translate line n"
        )

    from transduce.bundle.bundle import Bundle, find_bundle
    from transduce.data.corpus import Pair
    from transduce.evaluation.scoring import fit_confidence, translate_pairs
    from transduce.io.atomic_folder import CARD

    folder = find_bundle(model)
    bundle = Bundle.load(folder)
    pairs = [Pair(*sides) for sides in zip(sources, targets, strict=True)]
    found = translate_pairs(bundle.model, bundle.tokenizer, pairs=pairs, search=bundle.search)
    bundle.confidence = fit_confidence(found, pairs)
    learned = {"words": bundle.confidence.words, "sentences": bundle.confidence.sentences}
    missing = [name for name, one in learned.items() if one is None]
    if missing:
        raise ValueError(
            f"{len(pairs)} lines are too few to learn from, for {' and '.join(missing)}: give at "
            f"least 100"
        )
    card = (folder / CARD).read_text(encoding="utf-8") if (folder / CARD).is_file() else None
    bundle.save(folder)
    if card is not None:  # its people may have written into it
        (folder / CARD).write_text(card, encoding="utf-8")
    say(f"confidence of {folder}: from {len(pairs):,} lines")
