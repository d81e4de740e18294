"""The demo carried out: a corpus of our own making, and the same run as for anybody's two files."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transduce.config import load_recipe, to_toml
from transduce.demo.corpus import write_corpus
from transduce.results import Finished
from transduce.run import carry_out
from transduce.train.events import Note, Tell

_LOOKED_AT, _SHOWN = 40, 6  # of the first sentences of the test set the longest


class Example(NamedTuple):
    """A sentence that training never saw."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Journey:
    """What the demo has to show."""

    finished: Finished
    examples: tuple[Example, ...]


def journey(out: Path, *, tell: Tell) -> Journey:
    """Write the corpus, train on it, and pick some translations of its test set.

    Args:
        out: the run's folder; an earlier demo in it is replaced.
        tell: told what happens.

    Raises:
        ValueError: if `out` holds anything but a demo.
    """
    _clear(out)
    corpus = out / "corpus"
    recipe = load_recipe("demo", [f"data.folder={corpus}"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "recipe.toml").write_text(to_toml(recipe), encoding="utf-8")  # now it is known as ours
    tell(Note(text=f"writing English and German sentences to {corpus}"))
    write_corpus(corpus)
    finished = carry_out(recipe, out, tell=tell)
    files = (corpus / "test.en", out / "hypotheses.de", corpus / "test.de")
    sides = [file.read_text(encoding="utf-8").split("\n")[:_LOOKED_AT] for file in files]
    seen = [Example(*sentence) for sentence in zip(*sides, strict=True)]
    longest = sorted(seen, key=lambda example: -len(example.source))[:_SHOWN]
    return Journey(finished=finished, examples=tuple(longest))


def _clear(out: Path) -> None:
    """Delete an earlier demo, and nothing else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    file = out / "recipe.toml"
    if not file.is_file() or load_recipe(file).name != "demo":
        raise ValueError(f"{out} holds something else than a demo: name another folder by --out")
    ours = {"corpus", "recipe.toml", "prepared", "checkpoints", "best", "model"}
    ours |= {"metrics.jsonl", "results.json"}
    for path in out.iterdir():
        if path.name not in ours and not path.name.startswith(("hypotheses.", ".")):
            raise ValueError(f"{path} is not the demo's: move it away, or name another --out")
    shutil.rmtree(out)
