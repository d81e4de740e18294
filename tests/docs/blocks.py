"""The code blocks of the README and of the site's pages; how their lines are run in a test."""

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import CommandResult, Transduce

ROOT = Path(__file__).parents[2]
_WRITTEN = [path for path in (ROOT / "docs").glob("**/*.md") if "_build" not in path.parts]
PAGES = (ROOT / "README.md", *sorted(_WRITTEN))
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- not run: (.+?) -->\n$")

QUICK = (
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.d_ff=48"),
    *("model.heads=2", "model.d_k=16", "model.d_v=16", "tokenizer.vocab_size=300"),
    *("train.updates=4", "train.warmup=2", "train.validate_every=4", "train.average_checkpoints=1"),
    *(
        "train.intra_op_threads=1",
        "search.extra=2",
        "search.beam=1",
        "batch.tokens=500",
        "data.held_out=120",
    ),
)
"""What a training command is given in addition, so that it takes a moment."""
_OF_TRAINING = tuple(setting for setting in QUICK if setting.startswith(("train.", "search.")))
_MAY_FIND_FAULTS = ("check", "doctor")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    not_run: str
    """Why it cannot be run; empty where it can."""

    @property
    def slow(self) -> bool:
        """Whether it holds a command that trains, or reads all training pairs."""
        return bool(re.search(r"^transduce (train|distill|.*--shortlist)", self.text, re.MULTILINE))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Every block of a page that says its language and is none of Sphinx's directives."""
    text = page.read_text(encoding="utf-8")
    for result in _FENCE.finditer(text):
        mark = _MARK.search(text[: result.start()])
        yield Block(
            page=str(page.relative_to(ROOT)),
            line=text.count("\n", 0, result.start()) + 1,
            language=result[1],
            text=result[2],
            not_run=mark[1] if mark else "",
        )


ALL = [block for page in PAGES for block in blocks(page) if block.language in ("sh", "python")]


def run_shell(text: str, transduce: Transduce) -> None:
    """Run the lines of a block in the present folder, one after the other."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[:2] != [".", ".venv/bin/activate"]:
            _run_line(words, transduce)


def _run_line(words: list[str], transduce: Transduce) -> None:
    if words[0] == "cp":
        shutil.copy(words[1], words[2])
        return
    result = b""
    if words[0] == "echo":
        assert words[2] == "|", words
        result, words = f"{words[1]}\n".encode(), words[3:]
    assert words[0] == "transduce", f"{words[0]} is not run here: mark its block"
    words, place = words[1:], {}
    while len(words) > 2 and words[-2] in ("<", ">"):
        place[words[-2]], words = words[-1], words[:-2]
    if "<" in place:
        result = Path(place["<"]).read_bytes()
    answer = transduce(*_quickly(words), stdin=result)
    _check(words, answer)
    if ">" in place:
        Path(place[">"]).write_text(answer.out)


def _quickly(words: list[str]) -> list[str]:
    """The command as a test can wait for it; what an earlier one left in its place goes."""
    if words[0] not in ("train", "distill", "export"):
        return words
    out = Path(words[words.index("--out") + 1] if "--out" in words else "runs/student")
    if out.is_dir():
        shutil.rmtree(out)
    if words[0] == "export":
        return words
    given = [words[n + 1].split("=")[0] for n, word in enumerate(words) if word == "--set"]
    settings = _OF_TRAINING if words[0] == "distill" or "--from" in words else QUICK
    more = [
        setting
        for setting in settings
        if setting.split("=")[0] not in given or setting.startswith("train.up")
    ]
    if words[0] == "distill":
        words = [*words, "--encoder-layers", "1"]
    return [*words, *(word for item in more for word in ("--set", item))]


def _check(words: list[str], answer: CommandResult) -> None:
    allowed = (0, 1) if words[0] in _MAY_FIND_FAULTS else (0,)
    assert answer.code in allowed, f"transduce {shlex.join(words)}\n{answer.err}"
