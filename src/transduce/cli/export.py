"""transduce export."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from transduce.cli.app import app, say, talk
from transduce.io.streams import all_lines

if TYPE_CHECKING:
    from transduce.bundle.bundle import Bundle
    from transduce.inference.engines.shortlist import Shortlist

_SAMPLE = 50  # sentences of a proof where none are given
_HELD = 1000  # validation pairs that a shortlist is fitted to
_WORDS = 9  # pieces of a made-up one


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    to: Annotated[
        Literal["ctranslate2", "marian", "argos"],
        typer.Option(help="For which program: marian is Hugging Face's MarianMTModel."),
    ],
    out: Annotated[
        Path, typer.Option(help="The folder to write, whole or not at all; argos: a .argosmodel.")
    ],
    quantize: Annotated[
        str | None,
        typer.Option(help="Smaller weights: int8, int16, float16 or bfloat16."),
    ] = None,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist",
            help="Learn for ctranslate2 which pieces each piece may become: vmap.txt.",
        ),
    ] = False,
    sample: Annotated[
        Path | None,
        typer.Option(help="Sentences for the proof [a run's validation text, or made-up ones]."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Code of the source language [the model's].")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Code of the target language [the model's].")
    ] = None,
) -> None:
    """Write a model in another program's format, and prove that it is the same model.

    A sample is decoded by that program and by us; stderr says how many sentences agree. What the
    format cannot express is refused by name. Exit code 1: written, but the two do not agree.

    Examples:

    \b
      transduce export runs/mine --to ctranslate2 --out mine.ct2 --quantize int8
      transduce export runs/mine --to ctranslate2 --out mine.ct2 --shortlist
      transduce export runs/mine --to marian --out opus-mt-en-de
      transduce export runs/mine --to argos --out en_de.argosmodel
    """
    if quantize is not None and to == "marian":
        raise ValueError("a Marian folder holds single precision: leave out --quantize")
    if shortlist and to != "ctranslate2":
        raise ValueError(f"only ctranslate2 has a shortlist, not {to}: leave out --shortlist")
    if shortlist and not (model / "prepared").is_dir():
        raise ValueError(
            f"a shortlist is learned from training pairs, and {model} has none: name a run's folder"
        )
    lines = all_lines(sample) if sample is not None else None
    if lines is not None and not any(line.strip() for line in lines):
        raise ValueError(f"{sample} holds no sentence for a proof: name another, or leave it out")

    from transduce.bundle.bundle import Bundle
    from transduce.export.argos import write_argos
    from transduce.export.destination import check_replaceable
    from transduce.export.marian import write_marian
    from transduce.export.prove import prove_argos, prove_ctranslate2, prove_marian
    from transduce.inference.engines.ct2_model import FILES, write_ctranslate2

    bundle = Bundle.load(model)
    codes = {"source": source, "target": target}
    said = {side: code for side, code in codes.items() if code is not None}
    bundle.languages = replace(bundle.languages, **said)
    sentences = lines if lines is not None else _sentences(model, bundle)
    if to == "marian":
        write_marian(bundle, out)
        proof = prove_marian(bundle, out, sentences)
    elif to == "ctranslate2":
        check_replaceable(out, FILES)
        allowed = _learned(model, bundle) if shortlist else None
        write_ctranslate2(bundle, out, quantization=quantize, shortlist=allowed)
        proof = prove_ctranslate2(bundle, out, sentences)
    else:
        write_argos(bundle, out, quantization=quantize)
        proof = prove_argos(bundle, out, sentences)
    say(f"{to}: {out}")
    talk(str(proof))
    if quantize is None and not proof.not_made and not proof.holds:
        raise typer.Exit(1)


def _learned(model: Path, bundle: "Bundle") -> "Shortlist":
    """Learn a shortlist from the pairs of the model's run, and say what it is worth."""
    from transduce.export.shortlist import learn_shortlist
    from transduce.inference.translator import Extras, Translator
    from transduce.pipeline.prepare import open_prepared

    prepared = open_prepared(model)
    held = prepared.validation[:_HELD]
    said = Translator.load(model).translate(
        [pair.source for pair in held], extras=Extras(mend=False, detail=False)
    )
    learned = learn_shortlist(bundle, prepared.store, held, [one.ids for one in said])
    talk(str(learned))
    return learned.shortlist


def _sentences(model: Path, bundle: "Bundle") -> Sequence[str]:
    """Text for a proof: what the run was validated on, or pieces thrown together."""
    if (model / "prepared").is_dir():
        from transduce.pipeline.prepare import open_prepared

        return [pair.source for pair in open_prepared(model).validation[:_SAMPLE]]
    draw = random.Random(1)
    pieces = range(2, bundle.tokenizer.pad)
    return [
        bundle.tokenizer.decode(draw.choices(pieces, k=draw.randint(1, 2 * _WORDS)))
        for _ in range(_SAMPLE)
    ]
