"""transduce train, transduce tune."""

import shlex
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from transduce.cli.app import RunFolder, TrainingRecipe, app, hint_to_resume, print_stdout
from transduce.cli.corpus_options import PAIR_OPTIONS, complete_languages, with_corpus_options


@app.command()
@with_corpus_options(*PAIR_OPTIONS, "directions", "validation", "test", "also")
def train(
    recipe: TrainingRecipe = None,
    *,
    settings: list[str],
    origin: Annotated[
        Path | None,
        Option("--from", help="Fine-tune: start from the weights of this model or run."),
    ] = None,
    out: RunFolder = None,
    resume: Annotated[
        bool,
        Option(
            "--resume", help="Resume from the latest checkpoint in the run folder; if none, begin."
        ),
    ] = False,
    budget: Annotated[
        str | None,
        Option(
            "--time",
            help="Duration of the whole run, such as 40m or 1h30m; the updates are planned to fit.",
        ),
    ] = None,
    until: Annotated[
        float | None,
        Option("--until", help="BLEU on validation at which training ends, with a last cooldown."),
    ] = None,
    watch: Annotated[
        bool,
        Option(
            "--watch", help="Open OUT/report.html in a browser; it reloads itself while training."
        ),
    ] = False,
    dry: Annotated[
        bool, Option("--dry-run", help="Say what training would take, and write nothing.")
    ] = False,
) -> None:
    """Train a model: preprocess, train, average checkpoints, evaluate, bundle.

    Examples:

    \b
      transduce train --source corpus.en --target corpus.de --out runs/mine
      transduce train multi30k --set train.updates=500 --set model.dropout=0.3
      transduce train --source corpus.en --target corpus.de --dry-run
      transduce train --source corpus.en --target corpus.de --time 40m --out runs/mine
      transduce train --direction en-de=a.en,a.de --direction de-en=a.de,a.en --out runs/both
      transduce train --source corpus.en --target corpus.de --also synthetic.tsv:0.5 --out runs/more
      transduce train --resume --out runs/mine
      transduce train --from runs/mine --source more.en --target more.de --out runs/more

    With --from, architecture and vocabulary are those of the model, and RECIPE defaults to
    finetune; tokenizer.extend=500 adds up to 500 pieces that only the new corpus needs.

    Without RECIPE, the number of layers, vocabulary size, dropout and updates follow from the
    corpus size and are printed to stderr; with settings but no RECIPE the base is tiny, or base for
    a large corpus.

    Shipped recipes: tiny, base and big for your own corpus; multi30k, multi30k-{tok,fast,rdrop},
    tatoeba-en-de and wmt14-{base,big}-{de,fr} for those corpora; finetune; demo. OUT/recipe.toml
    holds all hyperparameters of a run, OUT/model the model.
    """
    started = time.monotonic()
    from transduce.config import explicit_settings
    from transduce.pipeline.defaults import choose_recipe, with_first_message

    if recipe is None and resume and out is not None and (out / "recipe.toml").is_file():
        recipe = str(out / "recipe.toml")
    if recipe is None and origin is not None:
        recipe = "finetune"
    if budget is not None:
        settings.append(f"train.time={budget}")
    if until is not None:
        if not 0 < until <= 100:
            raise ValueError(f"--until must be a BLEU score above 0 and at most 100, not {until:g}")
        settings.append(f"train.until={until}")
    selected, reason, plan = choose_recipe(recipe, settings)
    folder = out or Path("runs") / selected.name

    from transduce.cli.progress import event_printer, open_page
    from transduce.pipeline.finetune import StartModel, adopt_model
    from transduce.pipeline.run import dry_run, run_recipe
    from transduce.pipeline.run_page import REPORT
    from transduce.train.distributed import is_rank_zero

    start = StartModel.load(origin) if origin else None
    if start:
        selected = adopt_model(
            selected,
            start,
            explicit=explicit_settings(recipe, settings),
            by_hand=explicit_settings(None, settings),
        )
    selected, guess = complete_languages(selected, run=folder if resume else None)
    if dry:
        if resume:
            raise ValueError("--dry-run is for a run that has not begun: leave --resume out")
        with event_printer(sys.stderr) as on_event:
            on_event = with_first_message(reason, with_first_message(guess, on_event))
            text = dry_run(selected, start=start, plan=plan, on_event=on_event)
        print_stdout(text)
        return
    run = partial(
        run_recipe, selected, folder, resume=resume, start=start, plan=plan, started=started
    )
    if not is_rank_zero():  # under torchrun only rank 0 prints
        run(on_event=lambda event: None)
        return
    with event_printer(sys.stderr) as on_event, hint_to_resume(folder):
        if watch:
            on_event = open_page(folder / REPORT, on_event)
        result = run(on_event=with_first_message(reason, with_first_message(guess, on_event)))
    print_stdout(f"{result}\nmodel: {folder / 'model'}")


@app.command()
@with_corpus_options(*PAIR_OPTIONS, "validation")
def tune(
    recipe: TrainingRecipe = None,
    *,
    settings: list[str],
    range_: Annotated[
        list[str] | None,
        Option(
            "--range", metavar="a.b=low:high[:log]", help="Numbers, whole if both are; repeatable."
        ),
    ] = None,
    choice: Annotated[
        list[str] | None, Option(metavar="a.b=c,d", help="Values; repeatable.")
    ] = None,
    trials: Annotated[int, Option(help="Number of runs.", min=1)] = 20,
    metric: Annotated[Literal["bleu", "loss"], Option(help="Score, on validation.")] = "bleu",
    seed: Annotated[int, Option(help="Seed of the search, not of the runs.", min=0)] = 1,
    out: Annotated[Path, Option("--out", "-o", help="Folder of the trials.")] = Path("runs/tune"),
) -> None:
    """Search for good settings with Optuna: each trial is a run, pruned if it falls behind.

    From the fifth trial on, one whose validation is worse than the median of the earlier ones ends
    there. OUT/trial-0003 is the run folder of a trial, OUT/tune.html a plot and a table of all. To
    resume an interrupted search, repeat the command; with more --trials it goes on.

    Examples:

    \b
      transduce tune --source corpus.en --target corpus.de --choice model.dropout=0.1,0.2,0.3
      transduce tune multi30k --range train.learning_rate=5e-4:5e-3:log --metric loss
    """
    if not range_ and not choice:
        raise ValueError("nothing to search: name a setting with --range or --choice")
    if find_spec("optuna") is None:
        raise ValueError("transduce tune needs Optuna: pip install 'transduce[tune]'")
    from transduce.cli.progress import event_printer
    from transduce.pipeline.defaults import RecipeChoice, choose_recipe
    from transduce.pipeline.tune import HEADERS, PAGE, parse_space, search, trial_rows

    def choose(drawn: Sequence[str]) -> RecipeChoice:
        chosen = choose_recipe(recipe, [*settings, *drawn])
        return chosen._replace(recipe=complete_languages(chosen.recipe)[0])

    space = parse_space(range_ or (), choice or ())
    with event_printer(sys.stderr) as on_event, hint_to_resume():
        study = search(
            choose, out, space=space, trials=trials, metric=metric, seed=seed, on_event=on_event
        )
    rows = [HEADERS, *trial_rows(study)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print_stdout("\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows))
    values = [*settings, *(f"{key}={value}" for key, value in study.best_params.items())]
    words = [
        *([recipe] if recipe else []),
        *(word for value in values for word in ("--set", value)),
    ]
    best = out / f"trial-{study.best_trial.number:04}"
    command = shlex.join(["transduce", "train", *words])
    print_stdout(f"plot: {out / PAGE}\nbest: {best / 'model'}, as trained by\n{command}")
