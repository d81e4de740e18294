"""What a model says of given text: how likely it is, how it could go on, how far to believe it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say
from transduce.cli.translate import load_translator
from transduce.io.streams import all_lines


@app.command()
def score(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    source: Annotated[Path, typer.Option(help="Text, a sentence a line.")],
    target: Annotated[Path, typer.Option(help="Its translations, line by line.")],
    also: Annotated[
        list[Path] | None,
        typer.Option("--with", help="A further model of the same vocabulary: an ensemble."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with each piece's ln p.")
    ] = False,
    device: Annotated[str, typer.Option(help='Where to compute: "cpu", "cuda" or "auto".')] = "cpu",
) -> None:
    """Say how likely given translations are: ln p of each line, and its mean over the pieces.

    Examples:

    \b
      transduce score runs/mine --source test.en --target test.de
      transduce score runs/mine --source test.en --target test.de --json
    """
    sources, targets = all_lines(source), all_lines(target)
    translator = load_translator(model, also or (), device=device, engine="torch")
    for number, one in enumerate(translator.score(sources, targets), start=1):
        if as_json:
            whole = {"log_prob": one.log_prob, "mean": one.mean}
            say(json.dumps({"line": number, **asdict(one), **whole}, ensure_ascii=False))
        else:
            say(f"{one.log_prob:.4f}\t{one.mean:.4f}")


@app.command()
def alternatives(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    sentence: Annotated[str, typer.Argument(help="A sentence to translate.")],
    after: Annotated[str, typer.Option(help="How the translation begins.")] = "",
    count: Annotated[int, typer.Option(help="So many ways to go on.")] = 5,
) -> None:
    """Say how a translation could go on at one place: the likeliest next pieces, each carried on.

    A line is: probability of the piece, the piece, the whole translation.

    Example:

    \b
      transduce alternatives runs/mine "A dog runs." --after "Ein"
    """
    translator = load_translator(model, (), device="cpu", engine="torch")
    for one in translator.alternatives(sentence, after, count=count):
        say(f"{one.probability:.4f}\t{one.piece}\t{one.text}")


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
    from transduce.evaluation.scoring import learn_confidence, translate_pairs
    from transduce.io.atomic_folder import CARD

    folder = find_bundle(model)
    bundle = Bundle.load(folder)
    pairs = [Pair(*sides) for sides in zip(sources, targets, strict=True)]
    found = translate_pairs(bundle.model, bundle.tokenizer, pairs=pairs, search=bundle.search)
    bundle.confidence = learn_confidence(found, pairs)
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
