"""transduce augment."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from transduce.cli.app import (
    Device,
    ModelFolder,
    app,
    hint_to_resume,
    inference_device,
    print_stderr,
)
from transduce.cli.cluster import (
    SHARD_LINES,
    ClusterEngine,
    ClusterWorkers,
    ShardLines,
    address,
    cluster_config,
)


@app.command()
def augment(
    model: ModelFolder,
    text: Annotated[Path, Option("--input", "-i", help="Monolingual text, one sentence per line.")],
    out: Annotated[Path, Option("--output", "-o", help="TSV file of pairs to write.")],
    forward: Annotated[
        bool, Option("--forward", help="Self-training: the translations are targets, not sources.")
    ] = False,
    beam: Annotated[int, Option(help="Beam size.")] = 4,
    sample: Annotated[
        bool, Option("--sample", help="Sample translations instead of beam search.")
    ] = False,
    top_k: Annotated[int, Option(help="Sample from this many pieces (0 = all).")] = 0,
    min_score: Annotated[
        float, Option(help="Least mean log-probability per piece, such as -1.5.")
    ] = -99.0,
    max_ratio: Annotated[float, Option(help="Maximum length ratio of the sides.")] = 4.0,
    to: Annotated[str, Option(help="Language to translate into, for a model of several.")] = "",
    device: Device = "cpu",
    cluster: ClusterEngine = None,
    workers: ClusterWorkers = None,
    shard_lines: ShardLines = SHARD_LINES,
) -> None:
    """Make training pairs of monolingual text: back-translation or self-training.

    The text is of the target language, and MODEL translates it back into the source language. With
    --forward the text is of the source language, and MODEL is of the same direction as the one to
    train. Sources begin with a tag, <bt> or <ft>. Pairs in the wrong language, copies and loops are
    left out. To resume an interrupted run, repeat the command. With --cluster the input may be a
    folder or glob pattern, and the output is a folder of TSV files.

    Examples:

    \b
      transduce augment runs/de-en --input more.de --output synthetic.tsv --min-score -1.5
      transduce augment runs/en-de --input more.en --output synthetic.tsv --forward
      transduce augment runs/de-en --input 'more/*.gz' --output synthetic --cluster local
    """
    shared = cluster_config(cluster, workers, shard_lines, device=device)

    from transduce.bundle.bundle import WEIGHTS, Bundle, find_bundle
    from transduce.cli.progress import event_printer
    from transduce.inference.translator import Translator, find_target_tag, known_directions
    from transduce.io.atomic_folder import sha256
    from transduce.io.streams import check_output
    from transduce.pipeline.synthetic_pairs import SyntheticConfig, augment_on_cluster
    from transduce.pipeline.synthetic_pairs import augment as make_pairs

    config = SyntheticConfig(
        forward=forward,
        beam=beam,
        sample=sample,
        top_k=top_k,
        min_score=min_score,
        max_ratio=max_ratio,
    )
    check_output(out, inputs=[text], option="--output")
    bundle = Bundle.load(model)
    known = bundle.languages
    source, target = (code * (code not in known.missing) for code in (known.source, known.target))
    if to:
        find_target_tag(bundle.tokenizer, known_directions(bundle), to)  # before workers start
    if to or bundle.directions[1:]:  # the text may be of any source language
        source, target = "", to or bundle.directions[0].target
    if shared:
        run = partial(augment_on_cluster, model, address(text), address(out), to=to, cluster=shared)
    else:
        translator = Translator.load(model, device=inference_device(device))
        translator = translator.to(to) if to else translator
        weights = f"{sha256(find_bundle(model) / WEIGHTS)} {to}".strip()
        run = partial(make_pairs, translator, text, out, model=weights)
    with event_printer() as on_event, hint_to_resume():
        result = run(config=config, languages=(source, target), on_event=on_event)
    print_stderr(f"{out}: {result}")
