"""The model card: the README.md of a bundle, from the template card.md."""

import re
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from transduce.data.languages import LanguagePair
from transduce.data.pair_tokenizer import PairTokenizer

if TYPE_CHECKING:
    from transduce.bundle.bundle import Bundle

_NO_LINES = "- not recorded"


def model_card(bundle: "Bundle") -> str:
    """Return the card as Markdown: shape, usage, scores, provenance and recipe."""
    languages, provenance, tokenizer = bundle.languages, bundle.provenance, bundle.tokenizer
    scores = [f"| {_cell(name)} | {value:.2f} |" for name, value in provenance.scores.items()]
    files = [f"- `{name}` {checksum}" for name, checksum in provenance.data_sha256.items()]
    versions = [f"- {name} {version}" for name, version in provenance.versions.items()]
    start = [
        f"\n- the weights of `{name}`, {sha256}" for name, sha256 in provenance.started_from.items()
    ]
    imported = provenance.started_from and not provenance.recipe
    shape = bundle.weights.config
    names = {languages.source: languages.source_name, languages.target: languages.target_name}
    pairs = bundle.directions or (LanguagePair(languages.source, languages.target),)
    named = [(names.get(source) or source, names.get(target) or target) for source, target in pairs]
    title = " → ".join(named[0]) if len(pairs) == 1 else f"Translation in {len(pairs)} directions"
    example = pairs[0].target if len({pair.target for pair in pairs}) > 1 else ""
    return Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8")).substitute(
        asdict(shape),
        title=title,
        directions=", ".join(
            f"{source} (`{pair.source}`) into {target}\n(`{pair.target}`)"
            for pair, (source, target) in zip(pairs, named, strict=True)
        ),
        option=example and f" --to {example}",
        keyword=example and f', target="{example}"',
        origin="imported by" if imported else "trained with",
        parameters=f"{bundle.weights.size:,}",
        pieces=f"{shape.vocab_size:,}",
        sides="for both sides" if tokenizer.shared else "a side",
        models=", cut by a model a side" if isinstance(tokenizer, PairTokenizer) else "",
        case="; lower-cased" if tokenizer.lower_case else "",
        beam=bundle.search.beam,
        alpha=bundle.search.alpha,
        scores="\n".join(["| score | value |", "|---|---|", *scores])
        if scores
        else "None were measured.",
        created=provenance.created or "At an unknown time",
        versions="\n".join(versions) or _NO_LINES,
        commit=provenance.commit or "unknown",
        started_from="".join(start),
        files="\n".join(files) or _NO_LINES,
        recipe=provenance.recipe.strip() or "# not recorded",
    )


def _cell(text: str) -> str:
    return re.sub(r"([|\\])", r"\\\1", text)
