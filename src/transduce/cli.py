"""The command line: one call per command. Only this file exits, and only it writes to stdout.

stdout is data and stderr is talk. A person's mistake is one line on stderr and exit code 2, a run
that fails is one line and 1, Ctrl-C is 130 and SIGTERM 143; a traceback is a bug of ours. Rooms are
imported inside the commands, so that `--help` answers before torch would have been read.
"""

import errno
import json
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from shutil import which
from typing import Annotated, Literal, NamedTuple

import typer

from transduce.streams import all_lines, lines_of, whole_output

app = typer.Typer(
    name="transduce",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_CHUNK = 1024  # lines translated together, so that a long input comes out as it goes in
_FAILURES = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.ENOMEM,
)  # of the machine, not of the input

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="a.b=c", help="Change one setting of the recipe; repeatable."),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` asks for and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    for name in ("stdout", "stderr"):  # closed by the caller, as a daemon's are
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  open to the end
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(args=words, prog_name="transduce", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        return _fail(_usage(error), code=2)
    except ValueError as error:
        return _fail(str(error), code=2)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}", code=1 if error.errno in _FAILURES else 2)
    except (FloatingPointError, MemoryError) as error:
        return _fail(str(error) or "out of memory: lower batch.micro_tokens", code=1)
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which may not be imported
            raise
        return _fail("the device is out of memory: lower batch.micro_tokens", code=1)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    finally:
        signal.signal(signal.SIGTERM, before)
        _flush()


def _version(wanted: bool) -> bool:
    if wanted:
        from transduce import __version__

        typer.echo(f"transduce {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which it is.")
    ] = False,
) -> None:
    """Train, look into, evaluate and ship your own encoder-decoder Transformer.

    From two text files to a translator:

    \b
      transduce train --source corpus.en --target corpus.de --out runs/mine
      transduce translate runs/mine < in.txt > out.txt
    """


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="The run's folder; an earlier demo in it is replaced.")
    ] = Path("runs/demo"),
) -> None:
    """Take the whole journey, on a small corpus that it writes itself.

    Example:

    \b
      transduce demo
    """
    from transduce.demo.journey import journey
    from transduce.watch import watching

    with watching(sys.stderr) as tell, _hint_to_resume(out):
        told = journey(out, tell=tell)
    _say(f"{told.finished}\n{told}")
    _say("\nSentences it has never seen:\n")
    for shown in told.shown:
        _say(f"  {shown.source}\n    → {shown.translation}")
        if shown.translation != shown.reference:
            _say(f"    expected: {shown.reference}")
    _say(f"\nthe report: {out / 'report.html'} (open it in a browser)")
    command = _command()
    _say("\nTry your own sentence, made of words like these, then train on your own two files:\n")
    _say(f'  echo "{told.shown[0].source}" | {command} translate {out}')
    _say(f"  {command} train --source FILE --target FILE --out runs/mine")


@app.command()
def check(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe that names the corpus, as for train.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source side of your corpus.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.")] = None,
    settings: Set = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the training pairs without their faults there."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look a corpus over before training: what is swapped, copied, twice there, odd, leaked.

    Every finding has a count and examples; train says them too. Nothing is changed: --write writes
    a clean copy, with the swapped sides exchanged, and without copies, duplicates, odd lengths,
    empty sides and pairs whose source validation or test holds. Exit code 1 means that training or
    the scores would surely suffer.

    Examples:

    \b
      transduce check --source corpus.en --target corpus.de
      transduce check multi30k --set data.folder=corpora/multi30k --json
      transduce check --source corpus.en --target corpus.de --write clean
    """
    from transduce.defaults import take
    from transduce.preflight.check import check as look
    from transduce.watch import counting

    chosen, _ = take(recipe, [*_corpus(source, target), *(settings or [])])
    with counting(sys.stderr) as count:
        found = look(chosen, write=write, progress=count)
    shown = json.dumps(asdict(found), ensure_ascii=False) if as_json else str(found)
    _say(shown.encode(errors="replace").decode())  # a line that is not UTF-8 holds surrogates
    if found.cleaned is None:
        raise typer.Exit(1 if found.report.loud else 0)


@app.command()
def prepare(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A shipped recipe's name, or a TOML file [default: by corpus size]."),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source side of your corpus.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.")] = None,
    settings: Set = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/NAME].")] = None,
) -> None:
    """Clean a corpus, train its tokenizer and encode it, for `train`.

    Example:

    \b
      transduce prepare multi30k --set data.folder=corpora/multi30k
    """
    from transduce.defaults import opening, take

    chosen, why = take(recipe, [*_corpus(source, target), *(settings or [])])
    folder = out or Path("runs") / chosen.name

    from transduce.run import check_out, prepare_run
    from transduce.watch import watching

    check_out(chosen, folder, resume=False)
    with watching(sys.stderr) as tell:
        prepare_run(chosen, folder, tell=opening(why, tell))


@app.command()
def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A shipped recipe's name, or a TOML file [default: by corpus size]."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Source side of your corpus; short for --set data.train=…")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.")] = None,
    settings: Set = None,
    origin: Annotated[
        Path | None,
        typer.Option("--from", help="Start from this model's weights, or a run's: fine-tuning."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/NAME].")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that the folder holds.")
    ] = False,
) -> None:
    """Train a translator: prepare, train, average, evaluate, bundle.

    Examples:

    \b
      transduce train --source corpus.en --target corpus.de --out runs/mine
      transduce train multi30k --set train.updates=500 --set model.dropout=0.3
      transduce train --resume --out runs/mine
      transduce train --from runs/mine --source more.en --target more.de --out runs/more

    With --from the shape and the vocabulary are the model's, and RECIPE is finetune by default;
    tokenizer.extend=500 adds up to 500 pieces for what the new corpus has and the old had not.

    Without RECIPE layers, pieces, dropout and updates follow from the number of pairs, which stderr
    says; the recipe that a setting is then laid over is tiny, or base for a large corpus.

    Shipped recipes: tiny, base and big for your own two files; multi30k and multi30k-tok for that
    corpus; demo. All settings of a run are in OUT/recipe.toml; the model is OUT/model.
    """
    from transduce.config import said
    from transduce.defaults import opening, take

    if recipe is None and resume and out is not None and (out / "recipe.toml").is_file():
        recipe = str(out / "recipe.toml")
    if recipe is None and origin is not None:
        recipe = "finetune"
    settings = [*_corpus(source, target), *(settings or [])]
    chosen, why = take(recipe, settings)
    folder = out or Path("runs") / chosen.name

    from transduce.finetune import Start, follow
    from transduce.run import carry_out
    from transduce.watch import watching

    start = Start.load(origin) if origin else None
    if start:
        chosen = follow(chosen, start, said=said(recipe, settings), named=said(None, settings))
    with watching(sys.stderr) as tell, _hint_to_resume(folder):
        finished = carry_out(chosen, folder, resume=resume, start=start, tell=opening(why, tell))
    _say(str(finished))
    _say(f"model: {folder / 'model'}")


@app.command()
def translate(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    input: Annotated[
        Path | None, typer.Option("--input", "-i", help="Text, a sentence a line [default: stdin].")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Written whole or not at all [stdout].")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses a sentence [the model's].")] = None,
    alpha: Annotated[float | None, typer.Option(help="Length penalty [the model's].")] = None,
    nbest: Annotated[
        int | None, typer.Option(help="So many translations a line: number, rank, score, text.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with scores and pieces.")
    ] = False,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Most pieces in one batch; memory grows with it.")
    ] = None,
    device: Annotated[str, typer.Option(help='Where to compute: "cpu", "cuda" or "auto".')] = "cpu",
) -> None:
    """Translate text, a sentence a line.

    As many lines come out as go in; an empty line stays empty, and a line too long for the model is
    translated in parts, which stderr says.

    Examples:

    \b
      transduce translate runs/mine < in.txt > out.txt
      transduce translate runs/mine -i in.txt -o out.txt --beam 1
      echo 'A dog runs.' | transduce translate runs/mine --nbest 3
    """
    with lines_of(input) as lines:  # a wrong name should not have to wait for torch
        from transduce.train.process import find_device
        from transduce.translate import BATCH_TOKENS, Translator
        from transduce.watch import counting

        translator = Translator.load(model, device=find_device(device))
        if beam is None and nbest is not None:
            beam = max(nbest, translator.search.beam)
        work = partial(
            translator.translate,
            beam=beam,
            alpha=alpha,
            nbest=1 if nbest is None else nbest,
            batch_tokens=BATCH_TOKENS if batch_tokens is None else batch_tokens,
        )
        work([])  # a wrong setting is wrong even where there is nothing to translate
        together = 1 if input is None and sys.stdin.isatty() else _CHUNK
        with whole_output(output) as out, counting(sys.stderr) as count:
            done = 0
            while chunk := list(islice(lines, together)):
                found = work(
                    chunk,
                    first_line=done + 1,
                    progress=lambda now, before=done: count(before + now),
                )
                for number, one in enumerate(found, done + 1):
                    if one.parts > 1:
                        _talk(f"line {number} is too long: translated in {one.parts} parts")
                    if as_json:
                        shown = (
                            json.dumps({"line": number, **asdict(one)}, ensure_ascii=False) + "\n"
                        )
                    elif nbest is not None:
                        others = [(other.score, other.text) for other in one.others]
                        shown = _ranked(number, [(one.score, one.text), *others])
                    else:
                        shown = f"{one.text}\n"
                    out.write(shown.encode())
                out.flush()
                done += len(chunk)


@app.command()
def evaluate(
    model: Annotated[
        Path | None, typer.Argument(help="A model's folder, or a run's; none with --hypotheses.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="What it should become, line by line.")
    ] = None,
    hypotheses: Annotated[
        Path | None, typer.Option(help="Score these translations in place of a model's.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Only this: bleu, chrf, ter or perplexity; repeatable [default: all]."),
    ] = None,
    language: Annotated[
        str, typer.Option(help="Code of the target language [default: the model's].")
    ] = "",
    tokenize: Annotated[
        str, typer.Option(help="BLEU's tokeniser over the language's; \"none\" for tokenised text.")
    ] = "",
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page: lengths, rare words, worst lines …"),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another system's translations, beside these in the report.")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(help="Training text, target side; says which words are rare [the run's]."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Score translations: BLEU, chrF, TER, with signatures; perplexity.

    They are made by a model from --source, or read from --hypotheses. A report breaks them down by
    length and by how rare words are, and lists copies, repetitions and the worst sentences.

    Examples:

    \b
      transduce evaluate runs/mine --source test.en --target test.de
      transduce evaluate --hypotheses out.de --target test.de --language de --metric bleu
      transduce evaluate runs/mine --source test.en --target test.de --report report.html
    """
    if target is None:
        raise ValueError("there is nothing to compare with: name the references with --target FILE")
    if report is None and (against is not None or train is not None):
        raise ValueError(
            "--against and --train belong to a report: name its file with --report FILE.html"
        )
    if hypotheses is not None:
        if model is not None or (source is not None and report is None):
            raise ValueError(
                "--hypotheses takes the place of a model and --source: leave those out"
            )
        if metric and "perplexity" in metric:
            raise ValueError("perplexity is a model's: name a model and --source FILE for it")
    elif model is None or source is None:
        raise ValueError("name a model and its input, MODEL --source FILE, or --hypotheses FILE")
    if report is not None:
        asked = _Asked(model, hypotheses, source, target, against, train)
        _say(_write_report(report, asked, scoring=(language, tokenize, metric), as_json=as_json))
        _talk(f"report: {report}")
        return
    if model is None:
        assert hypotheses is not None
        lines, references = all_lines(hypotheses), all_lines(target)

        from transduce.results import metrics_of, score_lines

        scores = score_lines(
            lines,
            references,
            language=language,
            tokenize=tokenize,
            metrics=metrics_of(metric or []),
        )
    else:
        assert source is not None
        sources, references = all_lines(source), all_lines(target)

        from transduce.bundle import Bundle
        from transduce.results import metrics_of, score_model

        scores = score_model(
            Bundle.load(model),
            sources,
            references=references,
            language=language,
            tokenize=tokenize,
            metrics=metrics_of(metric or []),
        )
    if as_json:
        _say(json.dumps([asdict(score) for score in scores], ensure_ascii=False))
    else:
        for score in scores:
            _say(str(score))


@app.command()
def compare(
    systems: Annotated[
        list[Path], typer.Argument(help="Translations of each system; the first is the baseline.")
    ],
    target: Annotated[Path, typer.Option(help="What they should be, line by line.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="bleu, chrf or ter; repeatable [default: all].")
    ] = None,
    language: Annotated[str, typer.Option(help="Code of the target language.")] = "",
    tokenize: Annotated[
        str, typer.Option(help="BLEU's tokeniser over the language's; \"none\" for tokenised text.")
    ] = "",
    test: Annotated[
        Literal["bootstrap", "randomization"], typer.Option(help="The paired test.")
    ] = "bootstrap",
    samples: Annotated[
        int | None, typer.Option(help="Resamples [1000], or trials of randomization [10000].")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same p.")] = 12345,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Tell whether a system is better than the first one, or whether it is chance.

    Example:

    \b
      transduce compare --target test.de --language de baseline.de new.de
    """
    references, lines = all_lines(target), [all_lines(file) for file in systems]

    from transduce.compare import System, compare_systems, names_of

    found = compare_systems(
        [*map(System, names_of(systems), lines)],
        references,
        metrics=metric or [],
        language=language,
        tokenize=tokenize,
        test=test,
        samples=samples,
        seed=seed,
    )
    _say(json.dumps(asdict(found), ensure_ascii=False) if as_json else str(found))


@app.command()
def average(
    checkpoints: Annotated[list[Path], typer.Argument(help="Checkpoints of a run, or bundles.")],
    out: Annotated[Path, typer.Option(help="The bundle to write.")],
) -> None:
    """Average the weights of some checkpoints into one model.

    Example:

    \b
      transduce average runs/mine/checkpoints/update-* --out averaged
    """
    from transduce.run import average_checkpoints

    average_checkpoints(checkpoints, out)


@app.command()
def view(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    sentence: Annotated[str, typer.Argument(help="A sentence to translate.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write, whole or not at all.")],
    target: Annotated[
        str | None, typer.Option(help="Its translation [default: the model's own].")
    ] = None,
) -> None:
    """Show what a model looks at as it translates a sentence: a page for any browser.

    Every attention of every layer and head, in one file that needs no network.

    Examples:

    \b
      transduce view runs/mine "A dog runs." --out map.html
      transduce view runs/mine "A dog runs." --target "Ein Hund rennt." --out map.html
    """
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a file for the page, as {out / 'map.html'}")
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} does not exist: make that folder, or name another file")

    from transduce.bundle import Bundle
    from transduce.view.traced import sentence_page

    shown = sentence_page(Bundle.load(model), sentence, target)
    with whole_output(out) as file:
        file.write(shown.encode())
    _say(f"page: {out}")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what is here, what is missing, and what to do about it.

    A tiny model learns and translates as a test. Exit code 1 means that something is at fault.

    Example:

    \b
      transduce doctor
    """
    from transduce.doctor import examine

    report = examine()
    whole = {"faults": report.faults, **asdict(report)}
    _say(json.dumps(whole, ensure_ascii=False) if as_json else str(report))
    raise typer.Exit(1 if report.faults else 0)


class _Asked(NamedTuple):
    """The files that `evaluate` makes a report of."""

    model: Path | None
    hypotheses: Path | None
    source: Path | None
    target: Path
    against: Path | None
    train: Path | None


def _write_report(
    file: Path, asked: _Asked, *, scoring: tuple[str, str, list[str] | None], as_json: bool
) -> str:
    """Write the page of a report, whole or not at all, and return what stdout gets of it."""
    if file.is_dir():
        raise ValueError(f"{file} is a folder: name a file for the page, such as report.html")
    if any(given is not None and given.resolve() == file.resolve() for given in asked):
        raise ValueError(f"--report {file} would replace what it reports on: name another file")
    texts: dict[Path | None, list[str]] = {}
    for given in (asked.target, asked.source, asked.hypotheses, asked.against):
        if given is not None:
            texts[given] = all_lines(given)
    references, sources = texts[asked.target], texts.get(asked.source)
    with whole_output(file) as page:
        from transduce.breakdown import check_lines
        from transduce.compare import System, names_of
        from transduce.report import Made, Scoring, Training, report_on, translate_with
        from transduce.report_page import to_html
        from transduce.results import metrics_of
        from transduce.text.words import count_words

        language, tokenize, metric = scoring
        metrics = metrics_of(metric or [])
        ours = asked.model.resolve() if asked.model else asked.hypotheses
        names = names_of([one for one in (ours, asked.against) if one is not None])
        against = System(names[1], texts[asked.against]) if asked.against else None
        check_lines([against] if against else [], references, sources=sources)
        if asked.model:
            made = translate_with(
                asked.model,
                names[0],
                sources=sources or [],
                references=references,
                perplexity="perplexity" in metrics,
            )
        else:
            made = Made(System(names[0], texts[asked.hypotheses]))
        if asked.train:
            with lines_of(asked.train) as lines:
                made = made._replace(training=Training(asked.train.name, count_words(lines)))
        found = report_on(
            made,
            references,
            sources=sources,
            against=against,
            scoring=Scoring(language, tokenize, metrics),
        )
        page.write(to_html(found).encode())
    if as_json:
        return json.dumps(asdict(found), ensure_ascii=False)
    return "\n".join(map(str, found.systems[0].scores))


def _corpus(source: Path | None, target: Path | None) -> list[str]:
    """The settings that --source and --target stand for; two-letter endings name the languages."""
    if (source is None) != (target is None):
        raise ValueError("--source and --target belong together: name both files")
    if source is None or target is None:
        return []
    settings = [f"data.train={json.dumps([str(source), str(target)], ensure_ascii=False)}"]
    for side, file in (("source", source), ("target", target)):
        ending = Path(file.name.removesuffix(".gz")).suffix[1:]
        if len(ending) == 2 and ending.isalpha():
            settings.append(f"languages.{side}={json.dumps(ending.lower())}")
    return settings


@contextmanager
def _hint_to_resume(out: Path) -> Generator[None]:
    """Say how to go on where a run was stopped."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if (out / "checkpoints").is_dir():
            _talk(f"stopped; go on with: {_command()} train --resume --out {out}")
        raise


def _ranked(number: int, found: Sequence[tuple[float, str]]) -> str:
    """The translations of one line, best first: line number, rank, score, text."""
    return "".join(
        f"{number}\t{rank}\t{score:.4f}\t{text}\n"
        for rank, (score, text) in enumerate(found, start=1)
    )


def _command() -> str:
    """What to type for this command: its path where the shell would not find it by name."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "transduce" and not which("transduce") else "transduce"


def _say(text: str) -> None:
    sys.stdout.buffer.write(f"{text}\n".encode())


def _talk(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _fail(message: str, *, code: int) -> int:
    _talk(f"transduce: {' '.join(message.split())}")
    return code


def _usage(error: typer.TyperException) -> str:
    """A usage error, and where to read on."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "transduce")
    return f"{error.format_message().rstrip('.')} (try `{command} --help`)"


def _terminate(number: int, frame: object) -> None:
    """Leave as if by an exception, so that files are left whole or not at all."""
    raise SystemExit(128 + number)


def _flush() -> None:
    """Write out what is left; whoever stopped listening is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
