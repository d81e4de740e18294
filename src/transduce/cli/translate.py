"""transduce translate."""

import json
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import count as count_from
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from typer import Argument, Option

from transduce.cli.app import (
    Device,
    Ensemble,
    ModelFolder,
    Threads,
    Workers,
    app,
    inference_device,
    print_stderr,
)
from transduce.cli.cluster import SHARD_LINES, ShardLines, translate_on_cluster
from transduce.cli.translate_documents import (
    LINES,
    WarningLog,
    chosen_format,
    read_input_document,
    translate_document,
)
from transduce.data.languages import normalized_code
from transduce.documents.registry import FORMAT_NAMES, format_named
from transduce.io.atomic_folder import sha256
from transduce.io.resumable import LineOutput, resumable_output
from transduce.io.streams import open_lines, open_output, split_compression
from transduce.train.events import describe_duration

if TYPE_CHECKING:
    from transduce.bundle.bundle import Bundle
    from transduce.inference.engines.ct2_runtime import Plan
    from transduce.inference.glossary import Term
    from transduce.inference.translation import Translation
    from transduce.inference.translator import Translator
    from transduce.memory.store import Match

# Options without effect on the output.
_PLACES = ("text", "input", "output", "workers", "threads", "also")
_LONG = 24 * 3600.0  # seconds of a translation that is worth several machines
_CHUNK = 4096  # lines per call, so that output streams while a long input is read

EngineName = Literal["auto", "native", "ctranslate2", "torch"]


class _OutputOptions(NamedTuple):
    output: Path | None
    align: Path | None
    nbest: int | None
    as_json: bool
    confidence: bool
    interactive: bool
    """Whether to translate line by line, for a person who types."""
    settings: Mapping[str, str]
    """What determines the translations, besides the input."""
    memory: "Callable[[str, str], Match | None] | None" = None
    """Looks up a line and the one before it."""
    input_bytes: int = 0
    """Size of the input; 0 if it is unknown."""


@app.command()
def translate(
    model: ModelFolder,
    text: Annotated[str | None, Argument(help="Text, instead of a file.")] = None,
    input: Annotated[
        Path | None, Option("--input", "-i", help="Text, one sentence per line [default: stdin].")
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Output file, written atomically [default: stdout]."),
    ] = None,
    form: Annotated[
        str | None,
        Option(
            "--format",
            metavar="NAME",
            help=f"lines (one sentence per line) or a document: {', '.join(FORMAT_NAMES)} "
            "[default: by the file's ending, else lines].",
        ),
    ] = None,
    to: Annotated[
        str | None,
        Option(metavar="CODE", help="Target language, for a model of several directions."),
    ] = None,
    source_lang: Annotated[
        str | None,
        Option(
            "--from",
            metavar="CODE",
            help="Source language, with --to; also of --memory and --glossary.",
        ),
    ] = None,
    also: Ensemble = None,
    beam: Annotated[
        int | None, Option(help="Beam size, or number of samples [default: the model's].")
    ] = None,
    alpha: Annotated[
        float | None, Option(help="Length penalty; 0 favours short output [default: the model's].")
    ] = None,
    no_repeat: Annotated[int, Option(help="Block repeated n-grams of this size (0 = off).")] = 0,
    min_length: Annotated[int, Option(help="Minimum length of a translation in pieces.")] = 0,
    max_length: Annotated[
        int | None, Option(help="Maximum length of a translation in pieces, EOS included.")
    ] = None,
    prefix: Annotated[str, Option(help="Start every translation with this text.")] = "",
    glossary: Annotated[
        Path | None,
        Option(
            help="Enforce terms: source TAB target, TBX, TMX, XLIFF, PO, CSV or JSON lines; stderr "
            "reports the count."
        ),
    ] = None,
    memory: Annotated[
        Path | None,
        Option(
            metavar="STORE|TMX",
            help="Take lines that a translation memory has from it, texts and sentences of a "
            'document; stderr reports the count, --json marks them ("memory").',
        ),
    ] = None,
    protect: Annotated[
        list[str] | None,
        Option(
            metavar="NAME|REGEX",
            help="Repeat such text unchanged: code, url, number, capitals or a regular expression; "
            "repeatable. For models trained with tokenizer.protect.",
        ),
    ] = None,
    mbr: Annotated[
        bool, Option("--mbr", help="Minimum Bayes risk decoding over the beam or the samples.")
    ] = False,
    as_is: Annotated[
        bool,
        Option("--as-is", help="Do not retranslate repetitive output; leave capitals as they are."),
    ] = False,
    sample: Annotated[
        bool,
        Option("--sample", help="Sample instead of beam search; print the most probable of BEAM."),
    ] = False,
    temperature: Annotated[
        float, Option(help="Sampling temperature; below 1 favours probable pieces.")
    ] = 1.0,
    top_k: Annotated[int, Option(help="Sample from the K most probable pieces (0 = all).")] = 0,
    top_p: Annotated[
        float,
        Option(
            help="Nucleus sampling: keep the smallest set of tokens with this total probability."
        ),
    ] = 1.0,
    seed: Annotated[int, Option(help="Random seed for sampling.")] = 1,
    nbest: Annotated[
        int | None, Option(help="Print the N best translations, as: line, rank, score, text.")
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="One JSON object per line: text, scores, pieces, flags.")
    ] = False,
    confidence: Annotated[
        bool, Option("--confidence", help="Prefix each line with a confidence, 0 to 1, and a tab.")
    ] = False,
    align: Annotated[
        Path | None, Option(help="Write word alignments (Pharaoh format, 0-0 1-2) here.")
    ] = None,
    engine: Annotated[
        EngineName, Option(help="Inference engine; auto: the fastest one available.")
    ] = "auto",
    compute_type: Annotated[
        str,
        Option(
            help="Precision: float32, int8 or auto; bfloat16 and float16 with CTranslate2, "
            "bfloat16 with torch."
        ),
    ] = "float32",
    workers: Workers = None,
    threads: Threads = None,
    shortlist: Annotated[
        Path | None,
        Option(help="Lexical shortlist (vmap.txt): faster, with slightly different output."),
    ] = None,
    batch_tokens: Annotated[
        int | None, Option(help="Batch size in pieces, beam and padding included [default: 8192].")
    ] = None,
    device: Device = "cpu",
    cluster: Annotated[
        str | None,
        Option(
            metavar="local|ray[:ADDRESS]|slurm",
            help="Translate a folder or glob pattern of files into the folder OUTPUT, in shards, "
            "by workers of Ray or Slurm; repeat the command to resume.",
        ),
    ] = None,
    field: Annotated[
        str, Option(help="Field of JSONL, or column of Parquet, with the text (--cluster).")
    ] = "text",
    shard_lines: ShardLines = SHARD_LINES,
) -> None:
    """Translate text line by line, or a document.

    Every input line gives one output line; empty lines stay empty, and a line too long for the
    model is translated in parts, which stderr reports. A document (--format, or a file's ending
    other than .txt) is segmented into sentences, and everything else is kept: white space, tags,
    {name}, addresses, times.

    Examples:

    \b
      transduce translate runs/mine "A dog runs."
      transduce translate runs/mine < in.txt > out.txt
      transduce translate runs/both --to en "Ein Hund rennt."
      transduce translate runs/mine -i in.txt -o out.txt --beam 1 --compute-type int8
      transduce translate runs/mine --format html < page.html > seite.html
      transduce translate runs/mine --glossary terms.tsv < in.txt
      transduce translate runs/mine --sample --top-k 10 --beam 8 --nbest 8 < in.txt
      transduce translate runs/a --with runs/b --with runs/c < in.txt
      transduce translate runs/mine -i 'corpus/*.txt.gz' -o translated --cluster local
    """
    arguments = dict(locals())
    text = _checked_text(text, input)
    input = None if input == Path("-") else input  # stdin, whatever the format
    output = None if output == Path("-") else output
    _check_options(
        mbr=mbr, nbest=nbest, as_json=as_json, confidence=confidence, ensemble=bool(also)
    )
    if (temperature, top_k, top_p, seed) != (1.0, 0, 1.0, 1) and not sample:
        raise ValueError(
            "--temperature, --top-k, --top-p and --seed are for sampling: add --sample"
        )
    if cluster is None and (field, shard_lines) != ("text", SHARD_LINES):
        raise ValueError("--field and --shard-lines are for --cluster: add it, or leave them out")
    if source_lang is not None and to is None:
        raise ValueError("--from is for a model of several directions: name --to too")
    if cluster is not None:
        terms = _read_terms(glossary, model, to=to, source=source_lang)
        translate_on_cluster(arguments, terms=terms)
        return
    form = chosen_format(form, input, output)
    if form != LINES:
        per_line = {"nbest": nbest, "json": as_json, "confidence": confidence, "align": align}
        _check_document_options({**per_line, "prefix": prefix}, form=form)
    if memory and (align or prefix or nbest is not None or (confidence and not as_json)):
        raise ValueError(
            "--memory replaces translations: leave out --align, --prefix, --nbest and --confidence"
        )
    document = None
    if form != LINES:
        target = to or _target_in_file(form, model)
        if target[2:3].isalpha():  # of three letters, where files have two
            target = normalized_code(target) or target
        document = read_input_document(input, form, target=target, text=text)
    # Open the input before torch is imported: a wrong name fails at once.
    opened = open_lines(input) if document is None and text is None else None
    with opened or nullcontext(iter((text or "").split("\n"))) as lines:
        from transduce.inference.engines.forking import enable_worker_processes
        from transduce.inference.texts import translate_texts
        from transduce.inference.translator import BATCH_TOKENS, Extras, Translator
        from transduce.search.config import DecodingConstraints, SamplingConfig

        enable_worker_processes()
        sampling = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        constraints = DecodingConstraints(
            no_repeat=no_repeat,
            min_length=min_length,
            max_length=max_length,
            sampling=sampling if sample else None,
        )
        terms = _read_terms(glossary, model, to=to, source=source_lang)
        translator = Translator.load(
            model,
            ensemble=also or (),
            plan=make_plan(workers, threads, compute_type),
            device=inference_device(device),
            engine=engine,
            compute_type=compute_type,
            shortlist=shortlist,
        )
        terms = translator.spell_targets(terms)
        if to is not None:
            translator = translator.to(to, source=source_lang or "")
            _warn_of_zero_shot(translator, source_lang, to)
        look_up, memory_state = None, ""
        if memory:
            languages = _languages_of(model, "--memory", to=to, source=source_lang)
            look_up, memory_state = _open_memory(memory, languages)
        if confidence:
            _check_calibrated(translator, model)
        if beam is None and nbest is not None:
            beam = max(nbest, translator.search.beam)
        extras = Extras(
            glossary=terms,
            mbr=mbr,
            retry_loops=not as_is,
            recase=not as_is,
            protect=tuple(protect or ()),
            token_scores=as_json or confidence or nbest is not None,
        )
        batch_tokens = BATCH_TOKENS if batch_tokens is None else batch_tokens
        run = partial(
            translator.decode,
            beam=beam,
            alpha=alpha,
            nbest=1 if nbest is None else nbest,
            constraints=constraints,
            extras=extras,
            prefix=prefix,
            batch_tokens=batch_tokens,
        )
        run([])  # checks the settings even if the input is empty
        if document is not None:
            translate_document(
                partial(translate_texts, translator, decode=run),
                document,
                output,
                terms=terms,
                engine=translator.engine_description,
                memory=look_up,
            )
            return
        interactive = input is None and text is None and sys.stdin.isatty()
        settings = _output_settings(arguments, [model, *(also or ())], terms=terms)
        settings = {**settings, "memory": memory_state}
        is_plain = input is not None and input.is_file() and not split_compression(input.name)[1]
        options = _OutputOptions(
            *(output, align, nbest, as_json, confidence, interactive, settings),
            memory=look_up,
            input_bytes=input.stat().st_size if input is not None and is_plain else 0,
        )
        _translate_lines(translator, run, lines, terms=terms, options=options)


def _warn_of_zero_shot(translator: "Translator", source: str | None, target: str) -> None:
    """Say that a direction was never trained."""
    from transduce.data.languages import same_language

    trained = translator.directions
    known = [
        same_language(source or "", pair.source) and same_language(target, pair.target)
        for pair in trained
    ]
    if source and trained and not any(known):
        print_stderr(f"{source}-{target} is zero-shot: the model was not trained on it")


def _translate_lines(
    translator: "Translator",
    run: "Callable[..., Sequence[Translation]]",
    lines: Iterator[str],
    *,
    terms: "tuple[Term, ...]",
    options: _OutputOptions,
) -> None:
    """Translate lines in chunks and write each chunk as soon as it is done."""
    from transduce.cli.progress import line_counter
    from transduce.inference.glossary import GlossaryReport

    applied, log, taken = GlossaryReport(terms), WarningLog(), 0
    chunk_size = 1 if options.interactive else _CHUNK
    # The counter's line and a typed one would overwrite each other.
    counter = nullcontext(lambda lines: None) if options.interactive else line_counter()
    started = time.monotonic()
    with _open_outputs(options, lines) as out, counter as count:
        print_stderr(translator.engine_description)
        if options.interactive:
            print_stderr("type a sentence and Enter; Ctrl-D ends")
            lines = _prompted(lines)
        done = out.done
        if done:
            print_stderr(f"continuing {options.output} at line {done + 1:,}")
        while chunk := list(islice(lines, chunk_size)):
            matches = _matches(options, [out.last_line, *chunk])
            taken += sum(match is not None for match in matches)
            translations = run(  # the model skips blank lines
                ["" if match else line for line, match in zip(chunk, matches, strict=True)],
                first_line=done + 1,
                progress=lambda lines_done, before=done: count(before + lines_done),
            )
            for number, line, translation, match in zip(
                count_from(done + 1), chunk, translations, matches, strict=False
            ):
                if match:
                    text = " ".join(map(str.strip, match.entry.target.splitlines()))
                    translation = replace(translation, source=line, text=text)
                log.report(translation, name=f"line {number}")
                applied.add(translation.source, translation.text, line=number)
                out.write(_format(number, translation, options=options, match=match))
                if options.align is not None:
                    out.write(f"{translator.alignment(translation)}\n", stream=1)
            out.commit(chunk)
            if not done and options.input_bytes:
                _report_long(chunk, options.input_bytes, seconds=time.monotonic() - started)
            done += len(chunk)
    log.report_total()
    if options.memory:
        print_stderr(f"translation memory: {taken:,} lines")
    if terms:
        print_stderr(applied.summary())


def _report_long(chunk: Sequence[str], input_bytes: int, *, seconds: float) -> None:
    """Name the way to several machines if an input takes very long at the rate of its beginning."""
    left = seconds * input_bytes / max(1, sum(len(line.encode()) + 1 for line in chunk))
    if left > _LONG:
        print_stderr(f"about {describe_duration(left)} at this rate: --cluster uses more machines")


def _prompted(lines: Iterator[str]) -> Iterator[str]:
    while True:
        sys.stderr.write("> ")
        sys.stderr.flush()
        line = next(lines, None)
        if line is None:
            print_stderr("")
            return
        yield line


@contextmanager
def _open_outputs(options: _OutputOptions, lines: Iterator[str]) -> Generator[LineOutput]:
    """Open the output, and the alignments'; resumable if both are files."""
    files = [file for file in (options.output, options.align) if file is not None]
    regular = all(file.is_file() or not file.exists() for file in files)
    if options.output is not None and regular and not options.interactive:
        with resumable_output(files, lines, settings=options.settings) as output:
            yield output
        return
    with ExitStack() as stack:
        paths = (options.output, *files[-1:]) if options.align else (options.output,)
        yield LineOutput([stack.enter_context(open_output(path)) for path in paths])


def _output_settings(
    options: Mapping[str, object], models: Sequence[Path], *, terms: "tuple[Term, ...]"
) -> Mapping[str, str]:
    """Return all that determines the output besides the input, for `resumable_output`."""
    from transduce.cluster.translate import model_settings

    shortlist = options["shortlist"]
    kept = {name: value for name, value in options.items() if name not in _PLACES}
    return model_settings(kept, *models) | {
        "glossary": " ".join(map(str, terms)),
        "shortlist": sha256(shortlist) if isinstance(shortlist, Path) else "",
    }


def make_plan(workers: int | None, threads: int | None, compute_type: str) -> "Plan | None":
    """Return CTranslate2's execution plan, or None to measure the best one.

    Args:
        workers: parallel batches; 1 if only `threads` is given.
        threads: threads per worker; 1 if only `workers` is given.
        compute_type: precision, such as "float32" or "int8".

    Raises:
        ValueError: for a number below 1.
    """
    from transduce.inference.engines.ct2_runtime import Plan

    for name, count in (("workers", workers), ("threads", threads)):
        if count is not None and count < 1:
            raise ValueError(f"--{name} must be at least 1, not {count}")
    if workers is None and threads is None:
        return None
    return Plan(compute_type, workers or 1, threads or 1)


def _checked_text(text: str | None, input: Path | None) -> str | None:
    """Refuse a file given as text, and text beside a file; "-" is stdin."""
    if text is None or text == "-":
        return None
    if input is not None:
        raise ValueError(f"there is text to translate, and a file, {input}: leave one of them out")
    try:
        is_file = Path(text).is_file()
    except (OSError, ValueError):  # too long for a name
        is_file = False
    if is_file:
        raise ValueError(f"{text} is a file: translate it by -i {text}")
    if text.encode(errors="replace").decode() != text:  # what the shell passed were other bytes
        raise ValueError("the text is not UTF-8: set the terminal to UTF-8, or name a file by -i")
    return text


def _check_options(
    *, mbr: bool, nbest: int | None, as_json: bool, confidence: bool, ensemble: bool
) -> None:
    """Refuse combinations in which one option would be ignored."""
    if nbest is not None and nbest < 1:
        raise ValueError(f"--nbest must be at least 1, not {nbest}")
    if nbest is not None and mbr:
        raise ValueError("--mbr gives one translation per line: leave out --nbest")
    if nbest is not None and confidence and not as_json:
        raise ValueError("--nbest prints scores, not confidences: leave one out, or add --json")
    if confidence and ensemble:
        raise ValueError(
            "--confidence is calibrated for a single model, not an ensemble: leave out --with"
        )


def _check_document_options(options: Mapping[str, object], *, form: str) -> None:
    for name, value in options.items():
        if value:
            raise ValueError(
                f"--{name} works on single lines, not with --format {form}: leave it out, or add "
                f"--format {LINES}"
            )


def _check_calibrated(translator: "Translator", model: Path) -> None:
    from transduce.bundle.bundle import is_unfinished

    if translator.confidence is None or translator.confidence.sentences is None:
        remedy = (
            "its training, which is unfinished, calibrates it at the end"
            if is_unfinished(model)
            else f"run `transduce calibrate {model} --source FILE --target FILE` on held-out text"
        )
        raise ValueError(f"{model} has no confidence calibration: {remedy}")


def _load_named(model: Path, option: str) -> "Bundle":
    """Load the model, which must have languages unless the option is empty."""
    from transduce.bundle.bundle import Bundle, find_bundle

    bundle = Bundle.load(find_bundle(model))
    if option and bundle.languages.missing:
        raise ValueError(f"{model} has no languages for {option}: run `transduce relabel` once")
    return bundle


def _languages_of(
    model: Path, option: str, *, to: str | None, source: str | None
) -> tuple[str, str]:
    """Return the codes of the direction to translate.

    Without an option that needs them: the first of several; empty if unknown.
    """
    from transduce.data.languages import same_language, zero_shot_pairs

    bundle = _load_named(model, option)
    trained = bundle.directions
    if not trained:
        return bundle.languages.codes
    pairs = [
        pair
        for pair in (*trained, *(zero_shot_pairs(trained) if source else ()))
        if same_language(pair.target, to or pair.target)
        and same_language(pair.source, source or pair.source)
    ]
    if option and len(pairs) != 1:
        raise ValueError(
            f"{model} has the directions {', '.join(map(str, pairs or trained))}: choose one for "
            f"{option} by --to and --from"
        )
    return pairs[0] if pairs else ("", "")


def _target_in_file(form: str, model: Path) -> str:
    """The code of the target language, if a document of this format has it."""
    row = format_named(form)
    if row is not None and row.multilingual:
        return _load_named(model, f"--format {form}").languages.target
    if form != "xliff":
        return ""
    languages = _load_named(model, "").languages
    return "" if "target" in languages.missing else languages.target


def _read_terms(
    path: Path | None, model: Path, *, to: str | None, source: str | None
) -> "tuple[Term, ...]":
    if path is None:
        return ()
    from transduce.data.pair_files import names_languages
    from transduce.inference.glossary import read_glossary

    # CSV and JSON lines may name their columns by languages, but need not.
    option = "--glossary" if names_languages(path) else ""
    return read_glossary(path, languages=_languages_of(model, option, to=to, source=source))


def _open_memory(
    path: Path, languages: tuple[str, str]
) -> "tuple[Callable[[str, str], Match | None], str]":
    """Return what looks up a line and the one before it, and what changes with the memory."""
    from transduce.memory.tmx import open_memory

    memory = open_memory(path, languages=languages)

    def look_up(line: str, before: str) -> "Match | None":
        return memory.exact(line, languages=languages, context=before)

    return look_up, sha256(path) if memory.in_memory else memory.state


def _matches(options: _OutputOptions, lines: Sequence[str]) -> "list[Match | None]":
    """Look up all lines but the first, each with the one before it."""
    look_up = options.memory
    pairs = pairwise(lines)
    return [look_up(line, before) if look_up else None for before, line in pairs]


def _format(
    number: int, translation: "Translation", *, options: _OutputOptions, match: "Match | None"
) -> str:
    if options.as_json:
        fields: dict[str, object] = {"line": number, **asdict(translation)}
        if options.memory:
            fields["memory"] = match and {
                "score": match.score,
                "in_context": match.in_context,
                "origin": match.entry.origin,
            }
        return json.dumps(fields, ensure_ascii=False) + "\n"
    if options.nbest is not None:
        return "".join(
            f"{number}\t{rank}\t{candidate.score:.4f}\t{candidate.text}\n"
            for rank, candidate in enumerate([translation, *translation.others], start=1)
        )
    if options.confidence:
        confidence = translation.confidence
        return f"{'' if confidence is None else f'{confidence:.2f}'}\t{translation.text}\n"
    return f"{translation.text}\n"
