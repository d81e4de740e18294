"""transduce evaluate."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Argument, Option

from transduce.cli.app import BleuTokenizer, app, print_stderr, print_stdout
from transduce.data.languages import file_language
from transduce.io.streams import check_output, open_lines, open_output, read_lines

if TYPE_CHECKING:
    from transduce.evaluation.report import SystemOutput
    from transduce.evaluation.scoring import ScoringOptions


class _Inputs(NamedTuple):
    model: Path | None
    hypotheses: Path | None
    source: Path | None
    target: Path
    against: Path | None
    train: Path | None
    origins: Path | None
    as_is: bool
    """Whether the model translates without retries."""


@app.command()
def evaluate(
    model: Annotated[
        Path | None, Argument(help="Folder of a model or of a run; none with --hypotheses.")
    ] = None,
    source: Annotated[
        Path | None, Option("--source", "-i", help="Source text, one sentence per line.")
    ] = None,
    target: Annotated[Path | None, Option(help="Reference translations, line by line.")] = None,
    hypotheses: Annotated[
        Path | None, Option(help="Score these translations instead of a model's.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        Option(
            help="bleu, chrf, ter, exact, copies or perplexity; repeatable [default: all these]; "
            "chrf++; comet."
        ),
    ] = None,
    comet_model: Annotated[
        Path | None, Option(metavar="FOLDER", help="COMET's model: hparams.yaml and checkpoints/.")
    ] = None,
    language: Annotated[
        str, Option(help="Code of the target language [default: model's, or file name's].")
    ] = "",
    tokenize: BleuTokenizer = "",
    report: Annotated[
        Path | None,
        Option(metavar="FILE.html", help="Write an HTML report with a breakdown of errors."),
    ] = None,
    against: Annotated[
        Path | None, Option(help="Another system's translations, to compare in the report.")
    ] = None,
    train: Annotated[
        Path | None,
        Option(help="Target side of the training text, for word frequencies [the run's]."),
    ] = None,
    origins: Annotated[
        Path | None, Option(help="Document or domain of each line, to break the scores down by.")
    ] = None,
    as_is: Annotated[
        bool, Option("--as-is", help="Translate as `translate --as-is` does: no retries.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Score translations: BLEU, chrF, TER and exact match with signatures, and perplexity.

    Translations are made by a model from --source, as `transduce translate` makes them, or read
    from --hypotheses. "±" is the 95 % confidence interval, by bootstrap. With a source,
    "copies" is the share of its identifiers, addresses, numbers and capitals that are kept. A
    report breaks the scores down by sentence length, origin and word frequency, and lists copied
    and lost text, repetitions, and the worst, median and random sentences.

    Examples:

    \b
      transduce evaluate runs/mine --source test.en --target test.de
      transduce evaluate --hypotheses out.de --target test.de --language de --metric bleu
      transduce evaluate runs/mine --source test.en --target test.de --report report.html
    """
    if target is None:
        raise ValueError("evaluation needs references: name them with --target FILE")
    if report is None and (against or train or origins):
        raise ValueError(
            "--against, --train and --origins belong to a report: name its file with --report "
            "FILE.html"
        )
    if ("comet" in (metric or [])) != (comet_model is not None) or (comet_model and not source):
        raise ValueError("COMET needs --metric comet, --comet-model FOLDER and --source FILE")
    if hypotheses is not None:
        if model is not None or as_is:
            raise ValueError("--hypotheses replaces a model: leave one of the two out")
        if metric and "copies" in metric and source is None:
            raise ValueError("copy rates need the source: name it with --source FILE")
        if metric and "perplexity" in metric:
            raise ValueError("perplexity needs a model: name a model and --source FILE")
    elif model is None or source is None:
        raise ValueError("name a model and its input, MODEL --source FILE, or --hypotheses FILE")
    from transduce.evaluation.scoring import ScoringOptions, select_metrics

    inputs = _Inputs(model, hypotheses, source, target, against, train, origins, as_is)
    metrics = select_metrics(metric or [])
    scoring = ScoringOptions(language, tokenize, metrics, comet_model=comet_model)
    if report is not None:
        print_stdout(_write_report(report, inputs, scoring=scoring, as_json=as_json))
        print_stderr(f"report: {report}")
    else:
        print_stdout(_scores(inputs, scoring=scoring, as_json=as_json))


def _scores(inputs: _Inputs, *, scoring: "ScoringOptions", as_json: bool) -> str:
    """Score a model's or given translations and return what is printed."""
    # Read all files before torch is imported: a wrong name fails at once.
    texts = _read(inputs.source, inputs.hypotheses, inputs.target)

    from transduce.evaluation.scoring import score_lines

    output = _output(inputs, "", texts=texts, scoring=scoring, scores_only=True)
    options = scoring._replace(
        language=_target_language(scoring.language, inputs, model_language=output.language),
        lower_case=output.lower_case,
        intervals=True,
    )
    scores = output.perplexity
    if set(options.metrics) != {"perplexity"}:
        references, sources = texts[inputs.target], texts.get(inputs.source)
        scores = (
            *score_lines(output.system.lines, references, sources=sources, options=options),
            *scores,
        )
    if output.decoding:
        print_stderr(output.decoding)
    if as_json:
        return json.dumps([asdict(score) for score in scores], ensure_ascii=False)
    return "\n".join(map(str, scores))


def _target_language(given: str, inputs: _Inputs, *, model_language: str = "") -> str:
    """The language to score in; a model made without languages has the code "target"."""
    named = model_language if model_language != "target" else ""
    return given or named or file_language(inputs.target, inputs.hypotheses)


def _read(*files: Path | None) -> dict[Path | None, list[str]]:
    return {path: read_lines(path) for path in files if path is not None}


def _output(
    inputs: _Inputs,
    name: str,
    *,
    texts: Mapping[Path | None, list[str]],
    scoring: "ScoringOptions",
    scores_only: bool = False,
) -> "SystemOutput":
    """Translate with the model, or take the given translations; count the training text's words."""
    from transduce.data.segmentation import count_words
    from transduce.evaluation.report import SystemOutput, TrainingText, translate_test_set
    from transduce.evaluation.significance import System

    if inputs.model:
        from transduce.inference.engines.forking import enable_worker_processes

        enable_worker_processes()
        output = translate_test_set(
            inputs.model,
            name,
            sources=texts.get(inputs.source, []),
            references=texts[inputs.target],
            scoring=scoring,
            as_is=inputs.as_is,
            scores_only=scores_only,
            fallback_language=file_language(inputs.target),
        )
    else:
        output = SystemOutput(System(name, texts[inputs.hypotheses]))
    codes = [file_language(path) for path in (inputs.source, inputs.target)]
    if not output.direction and all(codes):
        output = output._replace(direction=" → ".join(codes))
    if inputs.train:
        with open_lines(inputs.train) as lines:
            training = TrainingText(inputs.train.name, count_words(lines))
        output = output._replace(training=training)
    return output


def _write_report(file: Path, inputs: _Inputs, *, scoring: "ScoringOptions", as_json: bool) -> str:
    """Write the HTML report atomically and return what is printed."""
    if file.is_dir():
        raise ValueError(f"{file} is a folder: name a file for the page, such as report.html")
    check_output(file, inputs=inputs, option="--report")
    texts = _read(inputs.target, inputs.source, inputs.hypotheses, inputs.against, inputs.origins)
    references, sources = texts[inputs.target], texts.get(inputs.source)
    with open_output(file) as page:
        from transduce.evaluation.breakdown import check_line_counts
        from transduce.evaluation.report import build_report, to_html
        from transduce.evaluation.significance import System, distinct_names

        system = inputs.model.resolve() if inputs.model else inputs.hypotheses
        names = distinct_names([path for path in (system, inputs.against) if path is not None])
        against = System(names[1], texts[inputs.against]) if inputs.against else None
        origins = texts.get(inputs.origins)
        check_line_counts(
            [against] if against else [], references, sources=sources, origins=origins
        )
        output = _output(inputs, names[0], texts=texts, scoring=scoring)
        report = build_report(
            output,
            references,
            sources=sources,
            against=against,
            scoring=scoring._replace(
                language=_target_language(scoring.language, inputs, model_language=output.language)
            ),
            origins=origins,
            files={
                "Source": inputs.source,
                "References": inputs.target,
                "Translations": inputs.hypotheses,
                "Compared with": inputs.against,
                "Origins": inputs.origins,
            },
        )
        page.write(to_html(report).encode(errors="backslashreplace"))  # paths may hold other bytes
    if output.decoding:
        print_stderr(output.decoding)
    if as_json:
        return json.dumps(asdict(report), ensure_ascii=False)
    return "\n".join(map(str, report.systems[0].scores))
