"""BLEU in two ways: sacreBLEU's, with its signature, and the paper's, which is another scale.

The paper's English-German figures are of text cut by the tokeniser of Moses, in which compounds
are split at their hyphens as well (get_ende_bleu.sh of tensor2tensor), scored by multi-bleu.perl:
more and shorter words, some of them easy, so the same translations score higher.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from sacrebleu.metrics.bleu import BLEU

from transduce.evaluation.metrics import Score
from transduce.paper.report import json_text, markdown_table, provenance, write_files
from transduce.paper.table2.run import P100, Account, Table2, TrainingCost

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


def paper_bleu(
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
    tokenizer = tokenise or moses(language)
    split = split_compounds if language == "de" else str
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    tokens, expected = (
        [split(tokenizer(line)) for line in lines] for lines in (hypotheses, references)
    )
    score = metric.corpus_score(tokens, [expected])
    method = "Moses tokens, compounds split" if language == "de" else "Moses tokens"
    return Score(
        name="tokenised BLEU", value=score.score, signature=f"{method}; {metric.get_signature()}"
    )


class PublishedScore(NamedTuple):
    """A line of the paper's Table 2."""

    model: str
    bleu_de: float | None
    bleu_fr: float | None
    cost_de: float | None
    cost_fr: float | None
    """Floating-point operations of training."""


PUBLISHED: Final = (
    PublishedScore("ByteNet", 23.75, None, None, None),
    PublishedScore("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    PublishedScore("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    PublishedScore("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    PublishedScore("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    PublishedScore("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    PublishedScore("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    PublishedScore("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    PublishedScore("**Transformer (base)**", 27.3, 38.1, 3.3e18, 3.3e18),
    PublishedScore("**Transformer (big)**", 28.4, 41.8, 2.3e19, 2.3e19),
)
"""Source: Vaswani et al. 2017, Table 2 (third version and later)."""


def write(result: Table2, out: Path) -> None:
    """Write table2.json and table2.md into a folder."""
    facts = {
        **provenance(),
        "assumed": asdict(result.assumed),
        "costs": [_facts(cost) for cost in result.costs],
        "scores": [asdict(score) for score in result.scores],
    }
    write_files(out, {"table2.json": json_text(facts), "table2.md": markdown(result)})


def markdown(result: Table2) -> str:
    """Write the whole account as Markdown."""
    assumed = result.assumed
    lines = [
        "# Table 2, and what it costs",
        "",
        "## As published (newstest2014)",
        "",
        "BLEU of tokenised text, German compounds split at their hyphens. The FLOPs are wall time "
        "x GPUs x an assumed rate.",
        "",
        _published(),
        "",
        "## Counted",
        "",
        f"Matrix products of training, for pairs of {assumed.mean_length} source and as many "
        f"target pieces, {result.costs[0].account.tokens:,} target pieces an update and as many "
        "source pieces.",
        "",
        _counted(result.costs),
        "",
        *(_arithmetic(cost.account) for cost in result.costs),
        "",
        "## Projected: the paper's updates elsewhere",
        "",
        f"Prices are assumptions: {assumed.hour_price:g} an hour for this machine, "
        f"{assumed.gpu_hour_price:g} for the GPU, which is taken to sustain "
        f"{assumed.gpu_tflops:g} TFLOPS.",
        "",
        _projected(result.costs),
        "",
    ]
    if result.scores:
        lines += ["## Scored both ways", "", _scores(result.scores), ""]
    return "\n".join(lines)


def _published() -> str:
    rows: list[Sequence[str]] = []
    for row in PUBLISHED:
        bleus = ("" if score is None else f"{score:g}" for score in (row.bleu_de, row.bleu_fr))
        costs = ("" if cost is None else f"{cost:.1e}" for cost in (row.cost_de, row.cost_fr))
        rows.append((row.model, *bleus, *costs))
    head = ("model", "EN-DE BLEU", "EN-FR BLEU", "EN-DE FLOPs", "EN-FR FLOPs")
    return markdown_table(head, rows, numbers=range(1, 5))


def _counted(costs: Sequence[TrainingCost]) -> str:
    rows = [
        (
            account.run.name,
            f"{account.parameters:,}",
            *(f"{part / sum(account.a_pair):.0%}" for part in account.a_pair),
            f"{account.a_token / 1e6:,.0f}",
            f"{account.run.updates:,}",
            f"{account.total:.2e}",
            f"{account.run.published:.1e}",
        )
        for account, *_ in costs
    ]
    head = (
        *("model", "parameters", "projections", "attention n²", "feed-forward", "output"),
        *("MFLOPs per target piece", "updates", "FLOPs counted", "FLOPs published"),
    )
    return markdown_table(head, rows, numbers=range(1, 10))


def _arithmetic(counted: Account) -> str:
    """The paper's estimate, step by step, and what it says of its GPUs."""
    run = counted.run
    by_step = run.updates * run.seconds_an_update / 3600
    return (
        f"- {run.name}: {run.hours:g} h x 3600 x {run.gpus} GPUs x {P100 / 1e12:g}e12 = "
        f"{run.estimated:.2e}, published as {run.published:.1e}. The products counted here are "
        f"{counted.utilisation:.0%} of that, {counted.utilisation * P100 / 1e12:.1f} TFLOPS a GPU. "
        f"({run.updates:,} updates of {run.seconds_an_update:g} s are {by_step:.1f} h.)"
    )


def _projected(costs: Sequence[TrainingCost]) -> str:
    rows: list[Sequence[str]] = []
    for cost in costs:
        for where, rate, hours, price in cost.projected:
            time = (f"{hours:,.1f}", f"{hours / 24:,.1f}")
            rows.append((cost.account.run.name, where, rate, *time, f"{price:,.2f}"))
    head = ("model", "where", "rate", "hours", "days", "price")
    return markdown_table(head, rows, numbers=(3, 4, 5))


def _scores(scores: Sequence[Score]) -> str:
    rows = [(score.name, f"{score.value:.2f}", f"`{score.signature}`") for score in scores]
    return markdown_table(("score", "value", "signature"), rows, numbers=(1,))


def _facts(cost: TrainingCost) -> dict[str, object]:
    counted = cost.account
    return {
        **counted._asdict(),
        "run": counted.run._asdict(),
        "lengths": counted.lengths._asdict(),
        "a_pair": counted.a_pair._asdict(),
        "a_token": counted.a_token,
        "estimated": counted.run.estimated,
        "speed": cost.speed._asdict(),
        "projected": [place._asdict() for place in cost.projected],
    }
