"""What all systems learn from, made once: batches of ids for loops, files of pieces for toolkits.

    PYTHON prepare.py CORPUS FOLDER UPDATES

train.npz, validation.npz      ready-made batches: `loop.read` reads them
train.source, train.target     the same corpus as pieces, blanks between them
vocabulary                     a piece a line
"""

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from shapes import TOKENS

sys.path.insert(0, str(Path(__file__).parents[1]))

from record import read_lines

from transduce.data.batch import Batch, collate
from transduce.data.config import BatchConfig, TokenizerConfig
from transduce.data.corpus import tidy
from transduce.data.sampler import Sampler, SamplerState
from transduce.data.tokenizer import Tokenizer

VOCABULARY = 10_000
LANGUAGES = ("en", "de")

Pairs = tuple[list[list[int]], list[list[int]]]


def main(corpus: Path, folder: Path, updates: int) -> None:
    """Make everything."""
    texts = [lines(corpus / "tok" / f"train.lc.norm.tok.{language}.gz") for language in LANGUAGES]
    both = [*texts[0], *texts[1]]
    tokenizer = Tokenizer.train(both, TokenizerConfig(kind="bpe", vocab_size=VOCABULARY))
    pairs = tuple(tokenizer.encode_all(side) for side in texts)
    held = tuple(
        tokenizer.encode_all(lines(corpus / "tok" / f"val.lc.norm.tok.{language}.gz"))
        for language in LANGUAGES
    )
    save(folder / "train.npz", islice(batches(pairs, tokenizer), updates), tokenizer)
    everything = sum(len(target) + 1 for target in held[1])
    all_of_it = islice(batches(held, tokenizer), max(1, round(everything / TOKENS)))
    save(folder / "validation.npz", all_of_it, tokenizer)
    for name, side in zip(("train.source", "train.target"), pairs, strict=True):
        text = "".join(f"{' '.join(tokenizer.pieces(ids))}\n" for ids in side)
        (folder / name).write_text(text)
    pieces = tokenizer.pieces(range(tokenizer.UNK + 1, tokenizer.pad))
    (folder / "vocabulary").write_text("\n".join(pieces) + "\n")
    print(json.dumps({"vocabulary": tokenizer.vocab_size}))


def lines(file: Path) -> list[str]:
    """The sentences of a file."""
    return [tidy(line) for line in read_lines(file)]


def batches(pairs: Sequence[Sequence[Sequence[int]]], tokenizer: Tokenizer) -> Iterable[Batch]:
    """An update each, of sentences of like length, without end."""
    lengths = np.array([[len(one) for one in pair] for pair in zip(*pairs, strict=True)])
    config = BatchConfig(tokens=TOKENS, micro_tokens=16 * TOKENS)  # each update in one piece
    for planned in Sampler(lengths, config=config, seed=1).updates(SamplerState()):
        (rows,) = planned.micro_batches
        source, target = ([side[row] for row in rows] for side in pairs)
        yield collate(source, target, pad=tokenizer.pad, eos=tokenizer.EOS)


def save(file: Path, made: Iterable[Batch], tokenizer: Tokenizer) -> None:
    """Write batches where torch is not needed to read them."""
    arrays: dict[str, np.ndarray] = {}
    count = 0
    for count, batch in enumerate(made, start=1):
        sides = {"source": batch.source, "before": batch.target_in, "after": batch.target_out}
        arrays |= {f"{side}{count - 1}": tensor.numpy() for side, tensor in sides.items()}
    np.savez(file, **arrays, batches=count, vocabulary=tokenizer.vocab_size)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
