"""transduce translate: text in, translations out, with all that can be asked of a decoder."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from transduce.cli.app import app, talk
from transduce.cli.translate_documents import Format, read_whole, translate_whole
from transduce.io.streams import lines_of, whole_output

if TYPE_CHECKING:
    from transduce.inference.engines.ct2_calls import Plan
    from transduce.inference.translation import Translation
    from transduce.inference.translator import Translator

_CHUNK = 4096  # lines translated together, so that a long input comes out as it goes in

EngineName = Literal["auto", "torch", "ctranslate2"]


@app.command()
def translate(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    input: Annotated[
        Path | None, typer.Option("--input", "-i", help="Text, a sentence a line [default: stdin].")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Written whole or not at all [stdout].")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="A sentence a line, or what the input is as a whole.")
    ] = "lines",
    also: Annotated[
        list[Path] | None,
        typer.Option("--with", help="A further model of the same vocabulary: an ensemble."),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(help="Hypotheses followed, or drawn, a sentence [the model's].")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Length penalty: 0 favours short ones [the model's].")
    ] = None,
    no_repeat: Annotated[
        int, typer.Option(help="Say no run of so many pieces twice; 0 forbids nothing.")
    ] = 0,
    min_length: Annotated[int, typer.Option(help="Say at least so many pieces.")] = 0,
    max_length: Annotated[
        int | None, typer.Option(help="Say at most so many pieces, the end among them.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="What every translation begins with.")] = "",
    glossary: Annotated[
        Path | None,
        typer.Option(help="Terms, source TAB target, said where they apply; stderr has a count."),
    ] = None,
    mbr: Annotated[
        bool,
        typer.Option(
            "--mbr", help="Give that of the beam, or the draws, with which the rest agrees."
        ),
    ] = False,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Leave loops as they are, and unreported.")
    ] = False,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample", help="Draw pieces at random; of as many draws as the beam the likeliest."
        ),
    ] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 draws likelier pieces.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Draw of so many likeliest pieces; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw of the fewest that have this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Decides what is drawn.")] = 1,
    nbest: Annotated[
        int | None,
        typer.Option(help="So many translations a line, each as: line, rank, score, text."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object a line: text, score, pieces, ln p, flags."),
    ] = False,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence", help="Before each line, how good it may be, 0 to 1, and a tab."
        ),
    ] = False,
    align: Annotated[
        Path | None, typer.Option(help="Write word alignments here, as 0-0 1-2, a line each.")
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="Who computes; auto takes the fastest that can.")
    ] = "auto",
    compute_type: Annotated[
        str,
        typer.Option(
            help="CTranslate2's: float32, int8, bfloat16, float16 or auto; torch's: float32 or "
            "bfloat16."
        ),
    ] = "float32",
    workers: Annotated[int | None, typer.Option(help="Batches side by side [measured].")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of each worker [measured].")] = None,
    shortlist: Annotated[
        Path | None, typer.Option(help="Say only what this vmap.txt allows: quicker, not the same.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Most pieces in one batch, beam and padding counted [8192].")
    ] = None,
    device: Annotated[str, typer.Option(help='Where to compute: "cpu", "cuda" or "auto".')] = "cpu",
) -> None:
    """Translate text, a sentence a line, or a whole text, page or file.

    As many lines come out as go in; an empty line stays empty, and a line too long for the model is
    translated in parts, which stderr says. With --format the sentences are found, and all but them
    comes out as it was: white space, tags, {name}, addresses, times.

    Examples:

    \b
      transduce translate runs/mine < in.txt > out.txt
      transduce translate runs/mine -i in.txt -o out.txt --beam 1 --compute-type int8
      transduce translate runs/mine --format html < page.html > seite.html
      transduce translate runs/mine --glossary terms.tsv < in.txt
      transduce translate runs/mine --sample --top-k 10 --beam 8 --nbest 8 < in.txt
      transduce translate runs/a --with runs/b --with runs/c < in.txt
    """
    _check_together(
        mbr=mbr, nbest=nbest, as_json=as_json, confidence=confidence, ensemble=bool(also)
    )
    drawn = (temperature, top_k, top_p, seed) != (1.0, 0, 1.0, 1)
    if drawn and not sample:
        raise ValueError("--temperature, --top-k, --top-p and --seed are for drawing: add --sample")
    if form != "lines":
        given = {"nbest": nbest, "json": as_json, "confidence": confidence, "align": align}
        _check_whole({**given, "prefix": prefix}, form=form)
    document = None if form == "lines" else read_whole(input, form)
    # A wrong name should not have to wait for torch.
    with lines_of(input) if document is None else nullcontext(iter(())) as lines:
        from transduce.cli.progress import counting
        from transduce.inference.engines.worker_processes import as_program
        from transduce.inference.glossary import read_glossary
        from transduce.inference.glossary_report import Honoured, honoured
        from transduce.inference.translator import BATCH_TOKENS, Extras
        from transduce.search.config import DecodingConstraints, SamplingConfig

        as_program()
        draw = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        constraints = DecodingConstraints(
            no_repeat=no_repeat,
            min_length=min_length,
            max_length=max_length,
            sampling=draw if sample else None,
        )
        terms = read_glossary(glossary) if glossary else ()
        translator = load_translator(
            model,
            also or (),
            device=device,
            engine=engine,
            compute_type=compute_type,
            plan=(workers, threads),
            shortlist=shortlist,
        )
        if confidence:
            _check_calibrated(translator, model)
        if beam is None and nbest is not None:
            beam = max(nbest, translator.search.beam)
        extras = Extras(glossary=terms, agree=mbr, mend=not as_is, detail=as_json or confidence)
        batch_tokens = BATCH_TOKENS if batch_tokens is None else batch_tokens
        work = partial(
            translator.translate,
            beam=beam,
            alpha=alpha,
            nbest=1 if nbest is None else nbest,
            constraints=constraints,
            extras=extras,
            prefix=prefix,
            batch_tokens=batch_tokens,
        )
        work([])  # a wrong setting is wrong even where there is nothing to translate
        if document is not None:
            translate_whole(
                translator,
                document,
                output,
                beam=beam,
                alpha=alpha,
                constraints=constraints,
                extras=extras,
                batch_tokens=batch_tokens,
            )
            return
        kept = Honoured()
        together = 1 if input is None and sys.stdin.isatty() else _CHUNK
        links = whole_output(align) if align else nullcontext()
        with whole_output(output) as out, links as aligned, counting(sys.stderr) as count:
            talk(translator.why)
            done = 0
            while chunk := list(islice(lines, together)):
                found = work(
                    chunk,
                    first_line=done + 1,
                    progress=lambda now, before=done: count(before + now),
                )
                for number, one in enumerate(found, done + 1):
                    _remark(number, one)
                    shown = _shown(number, one, nbest=nbest, as_json=as_json, sure=confidence)
                    out.write(shown.encode())
                    if aligned is not None:
                        aligned.write(f"{translator.alignment(one)}\n".encode())
                out.flush()
                kept += honoured(
                    ((one.source, one.text) for one in found), terms, first_line=done + 1
                )
                done += len(chunk)
        if terms:
            talk(kept.summary())


def load_translator(
    model: Path,
    also: Sequence[Path],
    *,
    device: str,
    engine: EngineName,
    compute_type: str = "float32",
    plan: tuple[int | None, int | None] = (None, None),
    shortlist: Path | None = None,
) -> "Translator":
    """Load a model to translate with, as the options say."""
    from transduce.inference.translator import Translator
    from transduce.train.distributed import find_device

    by_hand = plan_of(*plan, compute_type)
    return Translator.load(
        model,
        also=also,
        device=find_device(device),
        engine=engine,
        compute_type=compute_type,
        plan=by_hand,
        shortlist=shortlist,
    )


def plan_of(workers: int | None, threads: int | None, compute_type: str) -> "Plan | None":
    """How CTranslate2 shall compute, where the options say; what is left unsaid is 1."""
    from transduce.inference.engines.ct2_calls import Plan

    for name, count in (("workers", workers), ("threads", threads)):
        if count is not None and count < 1:
            raise ValueError(f"--{name} must be at least 1, not {count}")
    if workers is None and threads is None:
        return None
    return Plan(compute_type, workers or 1, threads or 1)


def _check_together(
    *, mbr: bool, nbest: int | None, as_json: bool, confidence: bool, ensemble: bool
) -> None:
    """Refuse options of which one would be ignored."""
    if nbest is not None and nbest < 1:
        raise ValueError(f"--nbest must be at least 1, not {nbest}")
    if nbest is not None and mbr:
        raise ValueError("--mbr gives one translation a line: leave out --nbest")
    if nbest is not None and confidence and not as_json:
        raise ValueError("--nbest shows scores, not --confidence: leave one out, or add --json")
    if confidence and ensemble:
        raise ValueError(
            "--confidence is learned of one model, not of several together: leave out --with"
        )


def _check_whole(options: Mapping[str, object], *, form: Format) -> None:
    """Refuse what is for lines."""
    for name, value in options.items():
        if value:
            raise ValueError(f"--{name} is for single lines: leave it out, or --format {form}")


def _check_calibrated(translator: "Translator", model: Path) -> None:
    if translator.confidence is None or translator.confidence.sentences is None:
        raise ValueError(
            f"nobody has learned how far {model} can be believed: run transduce calibrate {model} "
            f"--source FILE --target FILE with text that it was not trained on"
        )


def _remark(number: int, one: "Translation") -> None:
    """Say on stderr what is odd about a line."""
    if one.parts > 1:
        talk(f"line {number} is too long: translated in {one.parts} parts")
    if one.flag:
        again = " and was translated again" if one.mended else ""
        talk(f"line {number} came out as a loop{again}: it {one.flag}")


def _shown(number: int, one: "Translation", *, nbest: int | None, as_json: bool, sure: bool) -> str:
    """One translation as its lines of the output."""
    if as_json:
        return json.dumps({"line": number, **asdict(one)}, ensure_ascii=False) + "\n"
    if nbest is not None:
        others = [(other.score, other.text) for other in one.others]
        return _ranked(number, [(one.score, one.text), *others])
    if sure:
        said = "" if one.confidence is None else f"{one.confidence:.2f}"
        return f"{said}\t{one.text}\n"
    return f"{one.text}\n"


def _ranked(number: int, found: Sequence[tuple[float, str]]) -> str:
    """The translations of one line, best first: line number, rank, score, text."""
    return "".join(
        f"{number}\t{rank}\t{score:.4f}\t{text}\n"
        for rank, (score, text) in enumerate(found, start=1)
    )
