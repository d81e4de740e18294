"""transduce paper: reproduce the paper's tables and figures."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import Overrides, command_group, hint_to_resume, print_stderr, print_stdout

paper = command_group("paper", "Reproduce the paper: its tables, figures and architecture.")


OutputFolder = Annotated[Path, Option("--out", "-o", help="Output folder.")]
Threads = Annotated[int, Option(min=0, help="Intra-op threads (0 = all cores).")]


@paper.command()
def table4(
    treebank: Annotated[
        Path | None,
        Option(
            help="WSJ part of the Penn Treebank, a folder with the sections 02 to 23 "
            "[default: a generated treebank]."
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        Option(
            metavar="<path>",
            help="Additional training trees: a file, or a folder of .mrg files; repeatable.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        Option(help="table4-small, -wsj or -semi, or a TOML file [default: by treebank]."),
    ] = None,
    settings: Overrides = None,
    quick: Annotated[
        bool, Option("--quick", help="Smoke test in seconds; the parses are poor.")
    ] = False,
    out: OutputFolder = Path("runs/paper/table4"),
) -> None:
    """Train a constituency parser and score its brackets with F1 (Table 4).

    To resume an interrupted run, repeat the command.

    Example:

    \b
      transduce paper table4
      transduce paper table4 --treebank wsj --out runs/wsj
    """
    from transduce.cli.progress import event_printer
    from transduce.paper.table4.run import page
    from transduce.paper.table4.run import table4 as run_table4

    with event_printer(sys.stderr) as on_event:
        record = run_table4(
            out,
            treebank=treebank,
            also=also or (),
            quick=quick,
            recipe=recipe,
            overrides=settings or (),
            on_event=on_event,
        )
    print_stdout(page(record, trees=False))
    print_stderr(f"\nparse trees: {out / 'table4.md'}")


@paper.command()
def table2(
    hypotheses: Annotated[Path | None, Option(help="Detokenised translations to score.")] = None,
    references: Annotated[Path | None, Option(help="Reference translations.")] = None,
    language: Annotated[str, Option(help="Code of the target language.")] = "de",
    mean_length: Annotated[int, Option(help="Mean sentence length in pieces, EOS included.")] = 28,
    gpu_tflops: Annotated[float, Option(help="Assumed sustained TFLOPS of a GPU.")] = 100.0,
    gpu_hour_price: Annotated[float, Option(help="Price of a GPU hour.")] = 3.0,
    hour_price: Annotated[float, Option(help="Price of an hour of this machine.")] = 0.1,
    threads: Threads = 0,
    quick: Annotated[bool, Option("--quick", help="Time one small update per model.")] = False,
    out: OutputFolder = Path("runs/paper/table2"),
) -> None:
    """Estimate the training cost of Table 2's models, and score translations with its BLEU.

    FLOPs are computed from the shapes and a few updates are timed, which gives hours and prices for
    this machine and for a GPU. To train a model: transduce train wmt14-base-de.

    Examples:

    \b
      transduce paper table2 --quick
      transduce paper table2 --hypotheses out.de --references newstest2014.de
    """
    if (hypotheses is None) != (references is None):
        raise ValueError("--hypotheses and --references belong together: name both files")

    from transduce.cli.progress import event_printer
    from transduce.evaluation.metrics import bleu
    from transduce.io.streams import read_lines
    from transduce.paper.table2.report import paper_bleu, write
    from transduce.paper.table2.run import Assumed
    from transduce.paper.table2.run import table2 as run_table2

    scores = ()
    if hypotheses is not None and references is not None:
        texts = read_lines(hypotheses), read_lines(references)
        scores = tuple(score(*texts, language=language) for score in (bleu, paper_bleu))
    assumed = Assumed(
        mean_length=mean_length,
        gpu_tflops=gpu_tflops,
        gpu_hour_price=gpu_hour_price,
        hour_price=hour_price,
    )
    with event_printer(sys.stderr) as on_event:
        record = run_table2(assumed, quick=quick, threads=threads, scores=scores, on_event=on_event)
    print_stdout(write(record, out))


@paper.command()
def table3(
    corpus: Annotated[
        Path, Option(help="Multi30k folder, laid out as for the recipe multi30k.")
    ] = Path("data/multi30k"),
    rows: Annotated[
        str,
        Option(
            help="Rows, such as base,A1,C5, or all [default: all but big whose d_k stays at 16 "
            "or above]."
        ),
    ] = "",
    seeds: Annotated[
        str, Option(help="Random seeds; fewer than three mark no row as better or worse.")
    ] = "1,2,3",
    pairs: Annotated[int, Option(help="Training pairs, the first of the corpus.")] = 5000,
    updates: Annotated[int, Option(help="Limit of updates per row.")] = 20_000,
    patience: Annotated[
        int, Option(help="Validations without a smaller loss after which a row ends.")
    ] = 5,
    warmup: Annotated[int, Option(help="Warmup updates of equation (3).")] = 2000,
    tokens: Annotated[int, Option(help="Batch size in target tokens.")] = 512,
    vocab_size: Annotated[int, Option(help="Vocabulary size in pieces.")] = 2000,
    width_divisor: Annotated[int, Option(help="Divisor of d_model, d_ff, d_k and d_v.")] = 4,
    depth_divisor: Annotated[int, Option(help="Divisor of the number of layers N.")] = 2,
    threads: Threads = 0,
    quick: Annotated[
        bool, Option("--quick", help="Smoke test: base and D1 for 4 updates; scores are poor.")
    ] = False,
    finished: Annotated[
        bool, Option("--finished", help="Report rows finished with every seed, without training.")
    ] = False,
    out: OutputFolder = Path("runs/paper/table3"),
) -> None:
    """Train scaled-down variants of Table 3's models, and compare their ranking with the paper's.

    A row is trained until its loss on the validation set stops falling, and its best weights are
    scored. To resume an interrupted run, repeat the command; rows and seeds can be added later.
    Each row in its original size is a recipe: transduce train table3-c5.

    Examples:

    \b
      transduce paper table3 --corpus corpora/multi30k
      transduce paper table3 --corpus corpora/multi30k --rows base,A1,A4 --seeds 1,2,3
    """
    from transduce.cli.progress import event_printer
    from transduce.paper.plot import require_matplotlib
    from transduce.paper.table3.report import report, write
    from transduce.paper.table3.run import (
        Settings,
        measure,
        named_rows,
        named_seeds,
        quick_settings,
    )

    require_matplotlib()  # before hours of training
    shared = Settings(
        pairs=pairs,
        vocab_size=vocab_size,
        tokens=tokens,
        updates=updates,
        patience=patience,
        warmup=warmup,
        width_divisor=width_divisor,
        depth_divisor=depth_divisor,
    )
    shared = quick_settings(shared) if quick else shared
    chosen = named_rows(rows or ("base,D1" if quick else ""), width_divisor=width_divisor)
    selected_seeds = named_seeds(seeds)
    with event_printer(sys.stderr) as on_event, hint_to_resume():
        outcomes = measure(
            corpus,
            out,
            rows=chosen,
            seeds=selected_seeds,
            settings=shared,
            threads=threads,
            train_rows=not finished,
            on_event=on_event,
        )
    print_stdout(write(report(outcomes, settings=shared), out))
    print_stderr(f"plot: {out / 'table3.svg'}")


@paper.command()
def figures(
    only: Annotated[
        list[str] | None, Option(help="Make only this figure; repeatable [default: all].")
    ] = None,
    model: Annotated[
        Path | None,
        Option(help="Model or run folder: the demo's for it and ablation, a run for importance."),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Smoke test in seconds; the results mean little.")
    ] = False,
    out: OutputFolder = Path("runs/paper/figures"),
) -> None:
    """Test the paper's claims on scaling, heads, masks and positions, and plot the results.

    The figures are scaling, compatibility, heads, masks, order, lengths, waves, rate, it (which
    head of the demo's model resolves "it") and ablation (what is lost without each head). All of
    them take six minutes on one core. By name only, of any model of English: making, its and tasks,
    the paper's Figures 3 to 5; of any run with test text: importance, what each head looks at and
    what is lost without it.

    Examples:

    \b
      transduce paper figures
      transduce paper figures --only heads --only scaling
      transduce paper figures --only it --model runs/demo
      transduce paper figures --only making --only its --only tasks --model runs/mine
    """
    from transduce.bundle.bundle import WEIGHTS, Bundle, find_bundle
    from transduce.io.atomic_folder import sha256
    from transduce.paper.figures.run import FIGURES, make_figures, select_figures
    from transduce.pipeline.prepared import open_prepared

    names = select_figures(only or [], model=model is not None)
    bundle = Bundle.load(model) if model is not None else None
    if bundle is None and not only:
        print_stderr(
            "skipping the figures it and ablation, which need the demo's model: --model runs/demo"
        )
    weights = sha256(find_bundle(model) / WEIGHTS) if model is not None else ""
    of_text = any(FIGURES[name].needs == "run" for name in names)
    print_stdout(
        make_figures(
            names,
            out,
            bundle=bundle,
            weights=weights,
            pairs=open_prepared(model).test if model is not None and of_text else (),
            quick=quick,
            on_progress=print_stderr,
        )
    )
    print_stderr(f"\nfigures: {out / 'figures.md'}")


@paper.command()
def table1(
    learning: Annotated[
        bool, Option(help="Also train each layer type on long-range recall (half of the time).")
    ] = True,
    quick: Annotated[
        bool, Option("--quick", help="Smoke test in seconds, with tiny sizes.")
    ] = False,
    out: OutputFolder = Path("runs/paper/table1"),
) -> None:
    """Benchmark self-attention, recurrent and convolutional layers by length and width (Table 1).

    Measures time, FLOPs, the length at which self-attention stops being cheaper, sequential
    operations, path length and long-range recall with one thread, and what a second thread gains.
    Keep the machine otherwise idle.

    Example:

    \b
      transduce paper table1
      transduce paper table1 --no-learning --out runs/costs
    """
    from transduce.paper.table1.complexity import QUICK, QUICK_RECALL, Sizes
    from transduce.paper.table1.layers import Recall
    from transduce.paper.table1.report import table1 as run_table1

    recall = QUICK_RECALL if quick else Recall()
    sizes = QUICK if quick else Sizes()
    print_stdout(run_table1(out, sizes, recall if learning else None, tell=print_stderr))
    print_stderr(f"\ntable and plots: {out / 'table1.md'}")


@paper.command()
def model(
    name: Annotated[
        str, Argument(metavar="[MODEL]", help="Folder of a model or of a run, or a recipe.")
    ] = "base",
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FILE", help="Write a diagram (.svg, .html), or .md."),
    ] = None,
) -> None:
    """List a model's layers with shapes and parameters, and draw it like the paper's Figure 1.

    Shapes and parameters come from the instantiated model. An SVG is written in light and, as
    FILE-dark.svg, in dark colours; an HTML page follows the reader's colour scheme.

    Examples:

    \b
      transduce paper model
      transduce paper model big --out big.svg
      transduce paper model runs/mine --out mine.html
    """
    from transduce.paper.architecture import named_model, parts_table, write_model

    title, anatomy = named_model(name)
    files = write_model(out, title, anatomy) if out else []
    print_stdout(parts_table(anatomy))
    for file in files:
        print_stderr(f"written: {file}")
