"""transduce export."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from typer import Exit, Option

from transduce.cli.app import (
    ModelFolder,
    SourceLanguage,
    TargetLanguage,
    app,
    edited_card,
    print_stderr,
    print_stdout,
)
from transduce.cli.relabel import correct_languages
from transduce.io.streams import read_lines

if TYPE_CHECKING:
    from transduce.bundle.bundle import Bundle
    from transduce.export.proof import Proof
    from transduce.inference.engines.ct2_model import Shortlist
    from transduce.web.page import History, Precision

_PROOF_SENTENCES = 50
_SHORTLIST_PAIRS = 1000  # validation pairs that a shortlist is fitted to
_MEAN_PIECES = 9  # mean length of random sentences


@app.command()
def export(
    model: ModelFolder,
    to: Annotated[
        Literal["ctranslate2", "huggingface", "marian-npz", "onnx", "argos", "web", "hub"],
        Option(
            help="Output format; huggingface is a MarianMTModel, or Pegasus for a pre-norm "
            "model; marian-npz is read by Marian's own programs; onnx by onnxruntime and "
            "transformers.js; web a page that translates in a browser; hub uploads a huggingface "
            "folder."
        ),
    ],
    out: Annotated[
        Path,
        Option(
            "--out",
            "-o",
            help="Folder to write, atomically; for argos an .argosmodel file, for web an .html "
            "file or a folder, for hub OWNER/NAME.",
        ),
    ],
    quantize: Annotated[
        str | None, Option(help="Quantize the weights: int8, int16, float16 or bfloat16.")
    ] = None,
    shortlist: Annotated[
        bool, Option("--shortlist", help="Learn a lexical shortlist (vmap.txt) for ctranslate2.")
    ] = False,
    history: Annotated[
        bool,
        Option(
            "--history",
            help="Show the training in the page: the run's checkpoints, to be gone through "
            "(train.keep_checkpoints).",
        ),
    ] = False,
    sample: Annotated[
        Path | None, Option(help="Sentences to verify with [default: the run's validation set].")
    ] = None,
    source_lang: SourceLanguage = None,
    target_lang: TargetLanguage = None,
) -> None:
    """Export a model to another program's format, and verify the result.

    A sample is decoded with that program and with transduce; stderr reports how many sentences are
    identical. Features that the format cannot express are refused by name. Exit code 1: exported,
    but the outputs differ.

    Examples:

    \b
      transduce export runs/mine --to ctranslate2 --out mine.ct2 --quantize int8
      transduce export runs/mine --to ctranslate2 --out mine.ct2 --shortlist
      transduce export runs/mine --to huggingface --out opus-mt-en-de
      transduce export runs/mine --to marian-npz --out mine.marian
      transduce export runs/mine --to onnx --out mine.onnx
      transduce export runs/mine --to argos --out en_de.argosmodel
      transduce export runs/mine --to hub --out me/opus-mt-en-de
      transduce export runs/mine --to web --out translator.html --quantize float16
      transduce export runs/mine --to web --out training.html --quantize int8 --history
    """
    if quantize is not None and to not in ("ctranslate2", "argos", "web"):
        raise ValueError(f"a {to} folder holds float32 weights: leave out --quantize")
    if to == "web" and quantize not in (None, "float16", "int8"):
        raise ValueError(f"a page can hold float16 or int8 weights, not {quantize}")
    if shortlist and to != "ctranslate2":
        raise ValueError(f"only ctranslate2 supports a shortlist, not {to}: leave out --shortlist")
    if shortlist and not (model / "prepared").is_dir():
        raise ValueError(
            f"a shortlist is learned from training pairs, and {model} has none: name a run's folder"
        )
    if history and to != "web":
        raise ValueError(f"only a page shows the training, not {to}: leave out --history")
    lines = read_lines(sample) if sample is not None else None
    if lines is not None and not any(line.strip() for line in lines):
        raise ValueError(f"{sample} has no sentence: name another file, or leave out --sample")

    from transduce.bundle.bundle import Bundle, find_bundle
    from transduce.inference.engines.ct2_model import FILES, check_expressible
    from transduce.io.atomic_folder import check_replaceable

    bundle = Bundle.load(model)
    card = edited_card(find_bundle(model), bundle) if to == "hub" else None
    correct_languages(bundle, source=source_lang, target=target_lang)
    if bundle.tokenizer.protection:
        print_stderr(
            "WARNING: the model protects text by placeholders (tokenizer.protect), which other "
            "programs do not use: there it translates such text as plain text"
        )
    sentences = lines if lines is not None else _proof_sentences(model, bundle)
    if to == "ctranslate2":
        check_replaceable(out, FILES)
        check_expressible(bundle, quantization=quantize, shortlist=shortlist)
    allowed = _learn_shortlist(model, bundle) if shortlist else None
    trained = None
    if history:
        from transduce.pipeline.history import training_history  # imports torch

        trained = training_history(model)
    if to == "hub":
        from transduce.bundle.card import model_card
        from transduce.export.hub import upload_model

        proof = upload_model(bundle, str(out), sentences, card=card or model_card(bundle))
    else:
        proof = _write_and_prove(
            to, bundle, out, sentences, quantize=quantize, shortlist=allowed, history=trained
        )
    print_stdout(f"{to}: {out}")
    print_stderr(str(proof))
    if quantize is None and not proof.not_made and not proof.holds:
        raise Exit(1)


def _write_and_prove(
    to: str,
    bundle: "Bundle",
    out: Path,
    sentences: Sequence[str],
    *,
    quantize: str | None,
    shortlist: "Shortlist | None",
    history: "History | None",
) -> "Proof":
    """Write the export, and decode the sentences with the other program and ours."""
    # Those that need torch are imported where it is needed.
    from transduce.export import argos, proof
    from transduce.inference.engines.ct2_model import write_ctranslate2
    from transduce.web.page import write_web

    match to:
        case "ctranslate2":
            write_ctranslate2(bundle, out, quantization=quantize, shortlist=shortlist)
            return proof.prove_ctranslate2(bundle, out, sentences)
        case "marian-npz":
            from transduce.export import marian_npz

            marian_npz.write_marian_npz(bundle, out)
            return marian_npz.prove_marian_npz(bundle, out, sentences)
        case "onnx":
            from transduce.export import onnx_folder

            onnx_folder.write_onnx(bundle, out)
            return onnx_folder.prove_onnx(bundle, out, sentences)
        case "argos":
            argos.write_argos(bundle, out, quantization=quantize)
            return proof.prove_argos(bundle, out, sentences)
        case "web":
            precision = cast("Precision", quantize or "float32")
            write_web(bundle, out, precision=precision, history=history)
            return proof.prove_web(bundle, out, sentences)
        case _:
            from transduce.export import marian

            marian.write_huggingface(bundle, out)
            return proof.prove_huggingface(bundle, out, sentences)


def _learn_shortlist(model: Path, bundle: "Bundle") -> "Shortlist":
    """Learn a shortlist from the run's training pairs, and report its coverage."""
    from transduce.cli.progress import line_counter
    from transduce.export.shortlist import learn_shortlist
    from transduce.inference.translator import Translator
    from transduce.pipeline.prepared import open_prepared

    print_stderr("learning a shortlist from the run's training pairs")
    prepared = open_prepared(model)
    pairs = prepared.validation[:_SHORTLIST_PAIRS]
    translations = Translator.load(model).translate(
        [pair.source for pair in pairs], retry_loops=False, token_scores=False
    )
    ids = [translation.ids for translation in translations]
    with line_counter() as count:
        learned = learn_shortlist(bundle, prepared.store, pairs, ids, on_progress=count)
    print_stderr(str(learned))
    return learned.shortlist


def _proof_sentences(model: Path, bundle: "Bundle") -> Sequence[str]:
    """Sentences to verify with: of the run's validation set, or of random pieces."""
    if (model / "prepared").is_dir():
        from transduce.pipeline.prepared import open_prepared

        return [pair.source for pair in open_prepared(model).validation[:_PROOF_SENTENCES]]
    rng = random.Random(1)
    pieces = range(2, bundle.tokenizer.pad)
    return [
        bundle.tokenizer.decode(rng.choices(pieces, k=rng.randint(1, 2 * _MEAN_PIECES)))
        for _ in range(_PROOF_SENTENCES)
    ]
