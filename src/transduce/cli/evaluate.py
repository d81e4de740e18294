"""transduce evaluate."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from transduce.cli.app import app, say, talk
from transduce.io.streams import all_lines, lines_of, whole_output


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
        say(_write_report(report, asked, scoring=(language, tokenize, metric), as_json=as_json))
        talk(f"report: {report}")
        return
    if model is None:
        assert hypotheses is not None
        lines, references = all_lines(hypotheses), all_lines(target)

        from transduce.evaluation.scoring import score_lines, select_metrics

        scores = score_lines(
            lines,
            references,
            language=language,
            tokenize=tokenize,
            metrics=select_metrics(metric or []),
        )
    else:
        assert source is not None
        sources, references = all_lines(source), all_lines(target)

        from transduce.bundle.bundle import Bundle
        from transduce.evaluation.scoring import score_model, select_metrics
        from transduce.inference.engines.worker_processes import as_program

        as_program()
        scores = score_model(
            Bundle.load(model),
            sources,
            references=references,
            language=language,
            tokenize=tokenize,
            metrics=select_metrics(metric or []),
        )
    if as_json:
        say(json.dumps([asdict(score) for score in scores], ensure_ascii=False))
    else:
        for score in scores:
            say(str(score))


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
        from transduce.data.words import count_words
        from transduce.evaluation.breakdown import check_line_counts
        from transduce.evaluation.report import (
            ScoringOptions,
            SystemOutput,
            TrainingText,
            build_report,
            translate_test_set,
        )
        from transduce.evaluation.report_html import to_html
        from transduce.evaluation.scoring import select_metrics
        from transduce.evaluation.significance import System, distinct_names

        language, tokenize, metric = scoring
        metrics = select_metrics(metric or [])
        ours = asked.model.resolve() if asked.model else asked.hypotheses
        names = distinct_names([one for one in (ours, asked.against) if one is not None])
        against = System(names[1], texts[asked.against]) if asked.against else None
        check_line_counts([against] if against else [], references, sources=sources)
        if asked.model:
            from transduce.inference.engines.worker_processes import as_program

            as_program()
            made = translate_test_set(
                asked.model,
                names[0],
                sources=sources or [],
                references=references,
                perplexity="perplexity" in metrics,
            )
        else:
            made = SystemOutput(System(names[0], texts[asked.hypotheses]))
        if asked.train:
            with lines_of(asked.train) as lines:
                made = made._replace(training=TrainingText(asked.train.name, count_words(lines)))
        found = build_report(
            made,
            references,
            sources=sources,
            against=against,
            scoring=ScoringOptions(language, tokenize, metrics),
        )
        page.write(to_html(found).encode())
    if as_json:
        return json.dumps(asdict(found), ensure_ascii=False)
    return "\n".join(map(str, found.systems[0].scores))
