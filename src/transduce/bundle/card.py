"""The model card: the README.md of a bundle."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transduce.data.pair_tokenizer import PairTokenizer

if TYPE_CHECKING:
    from transduce.bundle.bundle import Bundle


def model_card(bundle: "Bundle") -> str:
    """Return the card as Markdown: shape, usage, scores, provenance and recipe."""
    languages, made, shape = bundle.languages, bundle.provenance, bundle.weights.config
    source = languages.source_name or languages.source
    target = languages.target_name or languages.target
    scores = [f"| {_cell(name)} | {value:.2f} |" for name, value in made.scores.items()]
    files = [f"- `{name}` {checksum}" for name, checksum in made.data_sha256.items()]
    versions = [f"- {name} {version}" for name, version in made.versions.items()]
    start = [f"\n- the weights of `{name}`, {sha256}" for name, sha256 in made.started_from.items()]
    by = "imported by" if made.started_from and not made.recipe else "trained with"
    tokenizer = bundle.tokenizer
    table = ", cut by a model a side" if isinstance(tokenizer, PairTokenizer) else ""
    case = "; lower-cased" if tokenizer.lower_case else ""
    sides = "for both sides" if tokenizer.shared else "a side"
    size = bundle.weights.size
    return f"""# {source} → {target}

A Transformer (Vaswani et al. 2017) that turns {source} (`{languages.source}`) into {target}
(`{languages.target}`), {by} transduce. It reads one sentence a line.

- {size:,} parameters: {shape.encoder_layers} encoder layers, {shape.decoder_layers} decoder
  layers, d_model {shape.d_model}, d_ff {shape.d_ff}, {shape.heads} heads, {shape.norm}-norm
- one vocabulary of {shape.vocab_size:,} pieces {sides} (SentencePiece{table}){case}
- searched with a beam of {bundle.search.beam} and a length penalty α of {bundle.search.alpha}

## How to use it

    transduce translate path/to/this/folder < source.txt > target.txt

or from Python:

    from transduce import Translator

    print(Translator.load("path/to/this/folder").translate(["..."])[0].text)

Text is put into Unicode NFC and its control characters become spaces, here as in training.

## Scores

{_table(scores)}

## How it was made

{made.created or "At an unknown time"}, by

{_lines(versions)}
- source commit {made.commit or "unknown"}{"".join(start)}

from text with these SHA-256 checksums:

{_lines(files)}

by this recipe:

```toml
{made.recipe.strip() or "# not recorded"}
```
"""


def _cell(text: str) -> str:
    return re.sub(r"([|\\])", r"\\\1", text)


def _table(rows: Sequence[str]) -> str:
    return "\n".join(["| score | value |", "|---|---|", *rows]) if rows else "None were measured."


def _lines(items: Sequence[str]) -> str:
    return "\n".join(items) or "- not recorded"
