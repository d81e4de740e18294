"""transduce calibrate."""

from transduce.cli.app import ModelFolder, ReferenceText, SourceText, app, edited_card, print_stdout
from transduce.io.streams import read_lines


@app.command()
def calibrate(model: ModelFolder, source: SourceText, target: ReferenceText) -> None:
    """Calibrate a model's confidence on held-out text, and store it with the model.

    The text is translated and compared with its references; it must not be training text.
    `transduce train` calibrates on the validation set.

    Example:

    \b
      transduce calibrate models/en-de --source val.en --target val.de
      transduce translate models/en-de --confidence < in.txt
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines but {target} has {len(targets)}: line n must "
            f"translate line n"
        )

    from transduce.bundle.bundle import FILES, Bundle, find_bundle, is_unfinished
    from transduce.data.corpus import Pair
    from transduce.evaluation.scoring import fit_confidence, translate_with
    from transduce.io.atomic_folder import check_replaceable

    if is_unfinished(model):
        raise ValueError(f"the training of {model} is unfinished, and calibrates it at the end")
    folder = find_bundle(model)
    bundle = Bundle.load(folder)
    check_replaceable(folder, FILES)  # as `save` does, after the translation
    card = edited_card(folder, bundle)
    pairs = [Pair(*sides) for sides in zip(sources, targets, strict=True)]
    translations = translate_with(bundle, sources)
    bundle.confidence = fit_confidence(translations, pairs, tokenizer=bundle.tokenizer)
    curves = {"words": bundle.confidence.words, "sentences": bundle.confidence.sentences}
    missing = [name for name, curve in curves.items() if curve is None]
    if missing:
        raise ValueError(
            f"{len(pairs)} lines are too few to calibrate the confidence of "
            f"{' and '.join(missing)}: use at least 100"
        )
    bundle.save(folder, card=card)
    print_stdout(f"confidence of {folder}: calibrated on {len(pairs):,} lines")
