"""BLEU in two ways: sacreBLEU's, with its signature, and the paper's, which is another scale.

The paper's English-German figures are of text cut by the tokeniser of Moses, in which compounds
are split at their hyphens as well (get_ende_bleu.sh of tensor2tensor), scored by multi-bleu.perl:
more and shorter words, some of them easy, so the same translations score higher.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from sacrebleu.metrics.bleu import BLEU

from transduce.evaluation.metrics import Score, bleu
from transduce.io.atomic_folder import atomic_file
from transduce.io.version import VERSION, commit
from transduce.paper.table2.run import P100, Cost, Table2

_COMPOUND: Final = re.compile(r"(\S)-(\S)")

Tokenise = Callable[[str], str]


def split_compounds(text: str) -> str:
    """Split words at their hyphens, as the scripts of the time did.

    >>> split_compounds("rich-text format")
    'rich ##AT##-##AT## text format'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", text)


def moses(language: str) -> Tokenise:
    """The tokeniser of Moses for a language.

    Raises:
        ValueError: if sacremoses is not installed.
    """
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise ValueError(
            "the paper's scoring needs the tokeniser of Moses: pip install 'transduce[moses]'"
        ) from None
    tokenizer = MosesTokenizer(lang=language)
    return lambda text: str(tokenizer.tokenize(text, return_str=True))


def as_the_paper(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "de",
    tokenise: Tokenise | None = None,
) -> Score:
    """Tokenised BLEU as the paper measured it, German with its compounds split.

    Args:
        hypotheses: translations, a line each, not tokenised.
        references: what they should be, line by line.
        language: code of the target language.
        tokenise: in place of the tokeniser of Moses.

    Raises:
        ValueError: for unequal numbers of lines or none, or without sacremoses.
    """
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"there are {len(hypotheses)} translations but {len(references)} references: line n "
            f"must translate line n"
        )
    cut = tokenise or moses(language)
    split = split_compounds if language == "de" else str
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    found = metric.corpus_score(
        [split(cut(line)) for line in hypotheses], [[split(cut(line)) for line in references]]
    )
    how = "Moses tokens, compounds split" if language == "de" else "Moses tokens"
    return Score(
        name="tokenised BLEU", value=found.score, signature=f"{how}; {metric.get_signature()}"
    )


def both_ways(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str = "de"
) -> tuple[Score, Score]:
    """Score translations by sacreBLEU, then as the paper did.

    Raises:
        ValueError: as `as_the_paper`.
    """
    return (
        bleu(hypotheses, references, language=language),
        as_the_paper(hypotheses, references, language=language),
    )


class Published(NamedTuple):
    """A line of the paper's Table 2."""

    model: str
    bleu_de: float | None
    bleu_fr: float | None
    cost_de: float | None
    cost_fr: float | None
    """Floating-point operations of training."""


PUBLISHED: Final = (
    Published("ByteNet", 23.75, None, None, None),
    Published("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    Published("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    Published("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    Published("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    Published("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    Published("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    Published("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    Published("**Transformer (base)**", 27.3, 38.1, 3.3e18, 3.3e18),
    Published("**Transformer (big)**", 28.4, 41.8, 2.3e19, 2.3e19),
)
"""Source: Vaswani et al. 2017, Table 2 (third version and later)."""


def write(found: Table2, out: Path) -> None:
    """Write table2.json and table2.md into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    facts = {
        "versions": {"transduce": VERSION, "torch": version("torch")},
        "commit": commit(),
        "assumed": asdict(found.assumed),
        "costs": [_facts(cost) for cost in found.costs],
        "scores": [asdict(score) for score in found.scores],
    }
    for name, text in (
        ("table2.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n"),
        ("table2.md", markdown(found)),
    ):
        with atomic_file(out / name) as stream:
            stream.write(text.encode())


def markdown(found: Table2) -> str:
    """Write the whole account as Markdown."""
    assumed = found.assumed
    lines = [
        "# Table 2, and what it costs",
        "",
        "## As published (newstest2014)",
        "",
        "BLEU of tokenised text, German compounds split at their hyphens. The FLOPs are wall time "
        "x GPUs x an assumed rate.",
        "",
        *_published(),
        "",
        "## Counted",
        "",
        f"Matrix products of training, for pairs of {assumed.source_length} source and "
        f"{assumed.target_length} target pieces, {found.costs[0].account.tokens:,} target pieces "
        "an update and as many source pieces.",
        "",
        *_counted(found.costs),
        "",
        *(line for cost in found.costs for line in _arithmetic(cost)),
        "",
        "## Projected: the paper's updates elsewhere",
        "",
        f"Prices are assumptions: {assumed.hour_price:g} an hour for this machine, "
        f"{assumed.gpu_hour_price:g} for the GPU, which is taken to sustain "
        f"{assumed.gpu_tflops:g} TFLOPS.",
        "",
        *_projected(found.costs),
        "",
    ]
    if found.scores:
        lines += ["## Scored both ways", "", *_scores(found.scores), ""]
    return "\n".join(lines)


def _published() -> list[str]:
    lines = [
        "| model | EN-DE BLEU | EN-FR BLEU | EN-DE FLOPs | EN-FR FLOPs |",
        "|---|--:|--:|--:|--:|",
    ]
    for one in PUBLISHED:
        bleus = ("" if score is None else f"{score:g}" for score in (one.bleu_de, one.bleu_fr))
        costs = ("" if cost is None else f"{cost:.1e}" for cost in (one.cost_de, one.cost_fr))
        lines.append(f"| {' | '.join((one.model, *bleus, *costs))} |")
    return lines


def _counted(costs: Sequence[Cost]) -> list[str]:
    lines = [
        "| model | parameters | projections | attention n² | feed-forward | output "
        "| MFLOP a target piece | updates | FLOPs counted | FLOPs published |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for counted, *_ in costs:
        shares = (f"{part / sum(counted.a_pair):.0%}" for part in counted.a_pair)
        cells = (
            counted.run.name,
            f"{counted.parameters:,}",
            *shares,
            f"{counted.a_token / 1e6:,.0f}",
            f"{counted.run.updates:,}",
            f"{counted.total:.2e}",
            f"{counted.run.published:.1e}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _arithmetic(cost: Cost) -> list[str]:
    """The paper's estimate, step by step, and what it says of its GPUs."""
    counted, run = cost.account, cost.account.run
    by_step = run.updates * run.seconds_an_update / 3600
    return [
        f"- {run.name}: {run.hours:g} h x 3600 x {run.gpus} GPUs x {P100 / 1e12:g}e12 = "
        f"{run.estimated:.2e}, published as {run.published:.1e}. The products counted here are "
        f"{counted.utilisation:.0%} of that, {counted.utilisation * P100 / 1e12:.1f} TFLOPS a GPU. "
        f"({run.updates:,} updates of {run.seconds_an_update:g} s are {by_step:.1f} h.)"
    ]


def _projected(costs: Sequence[Cost]) -> list[str]:
    lines = [
        "| model | where | rate | hours | days | price |",
        "|---|---|---|--:|--:|--:|",
    ]
    for counted, _, projected in costs:
        for one in projected:
            lines.append(
                f"| {counted.run.name} | {one.where} | {one.rate} | {one.hours:,.1f} | "
                f"{one.hours / 24:,.1f} | {one.price:,.2f} |"
            )
    return lines


def _scores(scores: Sequence[Score]) -> list[str]:
    return [
        "| score | value | measured how |",
        "|---|--:|---|",
        *(f"| {one.name} | {one.value:.2f} | `{one.signature}` |" for one in scores),
    ]


def _facts(cost: Cost) -> dict[str, object]:
    counted = cost.account
    return {
        **counted._asdict(),
        "run": counted.run._asdict(),
        "lengths": counted.lengths._asdict(),
        "a_pair": counted.a_pair._asdict(),
        "a_token": counted.a_token,
        "estimated": counted.run.estimated,
        "speed": cost.speed._asdict(),
        "projected": [one._asdict() for one in cost.projected],
    }
