"""From what was seen of single pairs to what is found in a corpus: counts, shares, examples."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from transduce.config import Recipe
from transduce.corpus_check.findings import Example, Finding, Kind, Part, Report
from transduce.corpus_check.fingerprint import Blocks, Look, Usual, get_to_know, look_at
from transduce.corpus_check.language import not_said
from transduce.data.corpus import NumberedPair, Pair

Pairs = Callable[[], Iterable[NumberedPair]]
"""Begins to read some pairs anew: they are looked at more than once, and never held."""

Picked = Callable[[Collection[int]], Iterable[NumberedPair]]
"""Reads the pairs of some lines."""

_EXAMPLES = 3
_MOST = 1_000_000  # training pairs that are looked at closely, about
_ODD = 6.0  # robust standard deviations from the median of the log ratio
_ODD_AT_LEAST = 0.9  # its distance from there, in nats: two and a half times as long
_BLOCK = 200  # pairs whose lengths are compared with their neighbours'
_FEW = 50  # pairs that tell nothing
_SHIFTED = 0.3  # by which a neighbour's length must correlate better

_Marks = dict[Kind, Bool[np.ndarray, " pairs"]]


class Inspection(NamedTuple):
    """A report, and which training pairs it is about."""

    report: Report
    look: Look
    """At the training pairs."""
    marks: Mapping[Kind, Bool[np.ndarray, " pairs"]]
    """For every kind that a single training pair can be of, which are."""


def inspect(
    recipe: Recipe,
    train: Pairs,
    *,
    validation: Sequence[Pair] = (),
    test: Sequence[Pair] = (),
    pairs: int = 0,
    usual: Usual | None = None,
    picked: Picked | None = None,
    progress: Callable[[int], None] = lambda line: None,
) -> Inspection:
    """Look a corpus over; a few readings of the training pairs, none of them kept.

    Args:
        recipe: says the languages and the most length ratio.
        train: begins to read the training pairs.
        validation: pairs that are validated on, if there are any.
        test: pairs that are tested on.
        pairs: how many training pairs there are. Of more than a million about as many are looked at
            closely, in blocks; whether they leak into validation or test, all. 0 looks at all.
        usual: what the bulk of them is like; None finds it out by one more reading.
        picked: reads training pairs by their lines, if that is quicker than by `train`.
        progress: called with the number of a training line, now and then.
    """
    usual = get_to_know(train()) if usual is None else usual
    held: dict[Part, Sequence[Pair]] = {"validation": validation, "test": test}
    looks: dict[Part, Look] = {
        part: look_at(_numbered(several), usual, progress=lambda line: None)
        for part, several in held.items()
    }
    sources = np.concatenate([look.folded_source for look in looks.values()])
    blocks = Blocks(every=max(1, -(-pairs // _MOST)), held=sources.tolist())
    training = look_at(blocks.among(train()), usual, progress=progress)
    marks = _marked(training, max_ratio=recipe.data.max_ratio) | _repeated(training)
    findings = list(_wrong_language(recipe, usual, pairs=len(training.line)))
    findings += _found("training", marks, look=training, picked=picked or _picking(train))
    for part, look in looks.items():
        theirs = _marked(look, max_ratio=recipe.data.max_ratio) | _leaked(look, training, blocks)
        reader = _picking(lambda several=held[part]: _numbered(several))
        findings += _found(part, theirs, look=look, picked=reader)
    leaked: _Marks = {"leaked source": np.isin(training.folded_source, sources)}
    report = Report(
        training_pairs=blocks.pairs,
        validation_pairs=len(validation),
        test_pairs=len(test),
        findings=tuple(findings),
    )
    return Inspection(report, training, {**marks, **leaked})


def _numbered(pairs: Sequence[Pair]) -> Iterator[NumberedPair]:
    return (NumberedPair(line, pair) for line, pair in enumerate(pairs, start=1))


def _wrong_language(recipe: Recipe, usual: Usual, *, pairs: int) -> Iterator[Finding]:
    """All pairs at once: a side that reads like another language than the recipe's."""
    languages, words = recipe.languages, usual.sides.words
    codes = {"source": languages.source, "target": languages.target}
    scripts = (usual.source_script, usual.target_script)
    others = (languages.target, languages.source)
    seen = {
        side: not_said(codes[side], other, words=counts, script=script)
        for side, other, counts, script in zip(codes, others, words, scripts, strict=True)
    }
    if pairs < _FEW or not any(seen.values()):
        return
    wrong = [
        f"the {side} reads like {seen[side]}, not {codes[side]}" for side in seen if seen[side]
    ]
    mend = "exchange the two files" if all(seen.values()) else "mend languages.* or the files"
    yield Finding(
        kind="language",
        part="training",
        count=pairs,
        of=pairs,
        advice=f"{' and '.join(wrong)}: {mend}",
    )


def _marked(look: Look, *, max_ratio: float) -> _Marks:
    """What a part of the corpus shows by itself."""
    return {
        "swapped": look.swapped,
        "shifted": _shifted(look),
        "copy": look.copy,
        "length ratio": _odd(look, max_ratio=max_ratio),
        "empty": look.empty,
        "not UTF-8": look.undecoded,
        "control character": look.control,
        "mojibake": look.mojibake,
        "script": look.foreign,
    }


def _repeated(look: Look) -> _Marks:
    """Pairs that stand there again, and the first pair of every source with several targets."""
    whole = np.flatnonzero(~look.empty)
    _, first = np.unique(look.pair[whole], return_index=True)
    once = np.sort(whole[first])
    duplicate = ~look.empty
    duplicate[once] = False
    _, first, targets = np.unique(look.source[once], return_index=True, return_counts=True)
    several = np.zeros_like(duplicate)
    several[once[first[targets > 1]]] = True
    return {"duplicate": duplicate, "several targets": several}


def _leaked(look: Look, training: Look, blocks: Blocks) -> _Marks:
    """Pairs that stand in training too, in what was looked at closely or in the rest."""
    pair, source = (
        (np.isin(ours, theirs) | np.isin(ours, np.array(rest, dtype=np.int64))) & ~look.empty
        for ours, theirs, rest in (
            (look.folded_pair, training.folded_pair, blocks.both),
            (look.folded_source, training.folded_source, blocks.sources),
        )
    )
    return {"leaked pair": pair, "leaked source": source & ~pair}


def _odd(look: Look, *, max_ratio: float) -> Bool[np.ndarray, " pairs"]:
    """Whole pairs above the recipe's most ratio, or far from the corpus's own."""
    whole = ~look.empty
    if not whole.any():
        return ~whole
    ratio = _ratios(look)
    usual = np.median(ratio[whole])
    spread = 1.4826 * np.median(np.abs(ratio[whole] - usual))
    far = np.abs(ratio - usual) > max(_ODD * spread, _ODD_AT_LEAST)
    return whole & (far | (np.abs(ratio) > np.log(max_ratio)))


def _ratios(look: Look) -> Float[np.ndarray, " pairs"]:
    """Logs of source length / target length, both with the 10 that forgives short sentences."""
    return np.log((look.source_length + 10.0) / (look.target_length + 10.0))


def _shifted(look: Look) -> Bool[np.ndarray, " pairs"]:
    """Pairs of blocks where the next or the last line's length fits much better than the own."""
    shifted = np.zeros_like(look.empty)
    source, target = np.log(look.source_length + 1.0), np.log(look.target_length + 1.0)
    for start in range(0, len(source), _BLOCK):
        block = slice(start, start + _BLOCK)
        s, t = source[block], target[block]
        if len(s) < _FEW:
            break
        neighbour = max(_correlation(s[1:], t[:-1]), _correlation(s[:-1], t[1:]))
        shifted[block] = neighbour > _correlation(s, t) + _SHIFTED + 2.0 / len(s) ** 0.5
    return shifted


def _correlation(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float:
    """Pearson's; 0 where a side does not vary."""
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / norm if norm > 1e-9 else 0.0


def _found(part: Part, marks: _Marks, *, look: Look, picked: Picked) -> Iterator[Finding]:
    """A finding for every kind that occurs, with the text of its first lines."""
    first: dict[Kind, Int64[np.ndarray, " examples"]] = {
        kind: look.line[np.flatnonzero(mark)[:_EXAMPLES]] for kind, mark in marks.items()
    }
    wanted = {int(line) for lines in first.values() for line in lines}
    text = dict(picked(wanted)) if wanted else {}
    for kind, mark in marks.items():
        count = int(mark.sum())
        if count:
            yield Finding(
                kind=kind,
                part=part,
                count=count,
                of=len(mark),
                examples=tuple(Example(line, *text[line]) for line in map(int, first[kind])),
                advice=_advice(kind, part=part, most=2 * count > len(mark)),
            )


def _advice(kind: Kind, *, part: Part, most: bool) -> str:
    if kind == "swapped" and most:
        return f"exchange the two files of data.{part}: they are the other way round than training"
    if kind == "shifted":
        return "look for a line that is missing or too many just before"
    if kind == "not UTF-8":
        return "convert the file, or drop such pairs by data.not_utf8 = 'drop'"
    return ""


def _picking(pairs: Pairs) -> Picked:
    """Picks by reading, to the last line that is wanted."""

    def picked(lines: Collection[int]) -> Iterator[NumberedPair]:
        wanted, last = frozenset(lines), max(lines)
        for one in pairs():
            if one.line in wanted:
                yield one
            if one.line >= last:
                break

    return picked
