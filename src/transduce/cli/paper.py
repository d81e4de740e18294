"""transduce paper: the paper's tables, figures and claims, measured on this machine."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import Set, say, talk

paper = typer.Typer(
    name="paper",
    help="Measure the paper again: its tables, its figures, its model.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@paper.command()
def table4(
    treebank: Annotated[
        Path | None,
        typer.Option(
            help="The Penn Treebank's WSJ: a folder that holds the folders 02 to 23. "
            "Without it a grammar writes a treebank."
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="<path>",
            help="More trees to train on: a file, or a folder of .mrg files; repeatable.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="table4-small, table4-wsj or table4-semi, or a file; else what fits."),
    ] = None,
    settings: Set = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only try it: seconds, and hardly a right tree.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where all of it goes.")] = Path("runs/paper/table4"),
) -> None:
    """Parse sentences by translating them into trees, and score the brackets (Table 4).

    Given again, the command goes on with what it had begun.

    Example:

    \b
      transduce paper table4
      transduce paper table4 --treebank wsj --out runs/wsj
    """
    from transduce.cli.progress import watching
    from transduce.paper.table4.run import Trees
    from transduce.paper.table4.run import table4 as parse

    trees = Trees(treebank=treebank, also=tuple(also or ()), quick=quick)
    with watching(sys.stderr) as on_event:
        found = parse(out, trees, recipe=recipe, overrides=settings or (), on_event=on_event)
    say(str(found))
    talk(f"\nthe trees drawn: {out / 'table4.md'}")


@paper.command()
def table2(
    hypotheses: Annotated[
        Path | None, typer.Option(help="Translations to score both ways, not tokenised.")
    ] = None,
    references: Annotated[Path | None, typer.Option(help="What they should be.")] = None,
    language: Annotated[str, typer.Option(help="Code of their language.")] = "de",
    mean_length: Annotated[
        int, typer.Option(help="Pieces of an average sentence, EOS counted.")
    ] = 28,
    gpu_tflops: Annotated[float, typer.Option(help="Sustained by one modern GPU.")] = 400.0,
    gpu_hour_price: Annotated[float, typer.Option(help="Of that GPU.")] = 3.0,
    hour_price: Annotated[float, typer.Option(help="Of this machine.")] = 0.1,
    threads: Annotated[int, typer.Option(help="Of a matrix product; 0: all cores.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Time one small update of each.")] = False,
    out: Annotated[Path, typer.Option(help="Where all of it goes.")] = Path("runs/paper/table2"),
) -> None:
    """Account for the cost of Table 2's models, and score translations as it did.

    Operations are counted from the shapes, a few updates are timed, and hours and prices follow
    for this machine and for one GPU. Nothing is trained; that is transduce train wmt14-base-de.

    Examples:

    \b
      transduce paper table2 --quick
      transduce paper table2 --hypotheses out.de --references newstest2014.de
    """
    if (hypotheses is None) != (references is None):
        raise ValueError("--hypotheses and --references belong together: name both files")

    from transduce.cli.progress import watching
    from transduce.io.streams import all_lines
    from transduce.paper.table2.page import markdown, write
    from transduce.paper.table2.run import Assumed
    from transduce.paper.table2.run import table2 as measure
    from transduce.paper.table2.scoring import both_ways

    scores = ()
    if hypotheses is not None and references is not None:
        scores = both_ways(all_lines(hypotheses), all_lines(references), language=language)
    assumed = Assumed(
        source_length=mean_length,
        target_length=mean_length,
        gpu_tflops=gpu_tflops,
        gpu_hour_price=gpu_hour_price,
        hour_price=hour_price,
    )
    with watching(sys.stderr) as on_event:
        found = measure(assumed, quick=quick, threads=threads, scores=scores, on_event=on_event)
    write(found, out)
    say(markdown(found))


@paper.command()
def table3(
    corpus: Annotated[
        Path, typer.Option(help="The folder of Multi30k, as the recipe multi30k has it.")
    ] = Path("data/multi30k"),
    rows: Annotated[
        str, typer.Option(help="Rows, such as base,A1,C5, or all [default: all but big].")
    ] = "",
    seeds: Annotated[str, typer.Option(help="Every row with each of them: 1,2,3.")] = "1",
    updates: Annotated[int, typer.Option(help="Of each row; the big one makes more.")] = 3600,
    warmup: Annotated[int, typer.Option(help="Of equation (3).")] = 1000,
    tokens: Annotated[int, typer.Option(help="Target tokens of an update.")] = 512,
    vocab_size: Annotated[int, typer.Option(help="Pieces.")] = 2000,
    width_divisor: Annotated[int, typer.Option(help="Of d_model, d_ff, d_k and d_v.")] = 8,
    depth_divisor: Annotated[int, typer.Option(help="Of N.")] = 2,
    big_times: Annotated[int, typer.Option(help="Updates of the row big over the others'.")] = 3,
    threads: Annotated[int, typer.Option(help="Of a matrix product; 0: all cores.")] = 0,
    out: Annotated[Path, typer.Option(help="Where all of it goes.")] = Path("runs/paper/table3"),
) -> None:
    """Train the rows of Table 3 in small, and rank them beside the paper's.

    Stopped anywhere, the same command goes on; rows, seeds and updates may be added later. Each
    row is a recipe of its own in the paper's size too: transduce train table3-c5.

    Examples:

    \b
      transduce paper table3 --corpus corpora/multi30k
      transduce paper table3 --corpus corpora/multi30k --rows base,A1,A4 --seeds 1,2,3
    """
    from transduce.cli.progress import watching
    from transduce.paper.table3.page import markdown, write
    from transduce.paper.table3.report import report
    from transduce.paper.table3.run import Settings, measure, named_rows, named_seeds, references

    shared = Settings(
        vocab_size=vocab_size,
        tokens=tokens,
        updates=updates,
        warmup=warmup,
        big_times=big_times,
        width_divisor=width_divisor,
        depth_divisor=depth_divisor,
    )
    chosen, drawn = named_rows(rows), named_seeds(seeds)
    with watching(sys.stderr) as on_event:
        try:
            outcomes = measure(
                corpus,
                out,
                rows=chosen,
                seeds=drawn,
                settings=shared,
                threads=threads,
                on_event=on_event,
            )
        except (KeyboardInterrupt, SystemExit):
            talk("stopped; the same command goes on")
            raise
    found = report(outcomes, references=references(out), settings=shared)
    write(found, out)
    say(markdown(found))
    talk(f"the plot: {out / 'table3.svg'}")


@paper.command()
def figures(
    only: Annotated[
        list[str] | None, typer.Option(help="Only this figure; repeatable [default: all].")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help='A model of the demo, for the figure "it".')
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only try it: seconds, and nothing learned.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where all of it goes.")] = Path("runs/paper/figures"),
) -> None:
    """Measure what the paper says of scaling, heads, masks and positions, and draw it.

    The figures are scaling, compatibility, heads, masks, order, lengths, waves, rate, and it: which
    head of the demo's model knows what "it" stands for. All of them take six minutes of one core.

    Examples:

    \b
      transduce paper figures
      transduce paper figures --only heads --only scaling
      transduce paper figures --only it --model runs/demo
    """
    from transduce.bundle.bundle import Bundle
    from transduce.paper.figures.run import chosen, make_figures

    names = chosen(only or [], model=model is not None)
    bundle = Bundle.load(model) if model is not None else None
    if bundle is None and not only:
        talk('the figure "it" is left out: it needs a model of the demo, --model runs/demo')
    say(make_figures(names, out, bundle=bundle, quick=quick, tell=talk))
    talk(f"\nthe figures: {out / 'figures.md'}")


@paper.command()
def table1(
    learning: Annotated[
        bool,
        typer.Option(help="Train the layer types on what stood far back, the longer half of it."),
    ] = True,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only try it: seconds, and sizes that show nothing.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where all of it goes.")] = Path("runs/paper/table1"),
) -> None:
    """Measure self-attention, recurrence and convolution against length and width (Table 1).

    Times, operations, the crossing where self-attention stops being the cheaper one, sequential
    operations, path lengths, and what is learned over a distance, with one thread. Nothing else
    should run meanwhile.

    Example:

    \b
      transduce paper table1
      transduce paper table1 --no-learning --out runs/costs
    """
    from transduce.paper.table1.measure import QUICK, QUICK_RECALL, Sizes
    from transduce.paper.table1.recall import Recall
    from transduce.paper.table1.run import table1 as measured

    recall = QUICK_RECALL if quick else Recall()
    sizes = QUICK if quick else Sizes()
    say(measured(out, sizes, recall if learning else None, tell=talk))
    talk(f"\nthe table and its plots: {out / 'table1.md'}")


@paper.command()
def model(
    name: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="A model's folder, or a run's; or a recipe.")
    ] = "base",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it too: .svg or .html; or .md.")
    ] = None,
) -> None:
    """Take a model apart, and draw it as the paper's Figure 1 shows its own.

    Shapes and parameters of every part are read off the live model. An SVG is written for light
    pages and, as FILE-dark.svg, for dark ones; a page follows its reader's scheme.

    Examples:

    \b
      transduce paper model
      transduce paper model big --out big.svg
      transduce paper model runs/mine --out mine.html
    """
    from transduce.paper.architecture.parts import parts_table
    from transduce.paper.architecture.run import named_model, write_model

    found = named_model(name)
    written = write_model(out, found) if out else []
    say(parts_table(found.anatomy))
    for file in written:
        talk(f"written: {file}")
