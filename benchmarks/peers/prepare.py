"""Prepare the corpus of all systems: batches of ids for loops, tokenized files for toolkits.

    PYTHON prepare.py CORPUS FOLDER UPDATES

train.npz, validation.npz      batches of ids for `loop.read`
train.source, train.target     the same corpus as tokens separated by spaces
vocabulary                     a token per line
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
    """Train the tokenizer and write all files."""
    texts = [lines(corpus / "tok" / f"train.lc.norm.tok.{language}.gz") for language in LANGUAGES]
    training_texts = [*texts[0], *texts[1]]
    tokenizer = Tokenizer.train(training_texts, TokenizerConfig(kind="bpe", vocab_size=VOCABULARY))
    pairs = tuple(tokenizer.encode_all(side) for side in texts)
    validation_pairs = tuple(
        tokenizer.encode_all(lines(corpus / "tok" / f"val.lc.norm.tok.{language}.gz"))
        for language in LANGUAGES
    )
    save(folder / "train.npz", islice(batches(pairs, tokenizer), updates), tokenizer)
    validation_tokens = sum(len(target) + 1 for target in validation_pairs[1])
    validation_batches = islice(
        batches(validation_pairs, tokenizer), max(1, round(validation_tokens / TOKENS))
    )
    save(folder / "validation.npz", validation_batches, tokenizer)
    for name, side in zip(("train.source", "train.target"), pairs, strict=True):
        text = "".join(f"{' '.join(tokenizer.pieces(ids))}\n" for ids in side)
        (folder / name).write_text(text)
    pieces = tokenizer.pieces(range(tokenizer.UNK + 1, tokenizer.pad))
    (folder / "vocabulary").write_text("\n".join(pieces) + "\n")
    print(json.dumps({"vocabulary": tokenizer.vocab_size}))


def lines(file: Path) -> list[str]:
    """Read the sentences of a file."""
    return [tidy(line) for line in read_lines(file)]


def batches(pairs: Sequence[Sequence[Sequence[int]]], tokenizer: Tokenizer) -> Iterable[Batch]:
    """Yield updates of sentences of similar length endlessly, a batch each."""
    lengths = np.array([[len(side_ids) for side_ids in pair] for pair in zip(*pairs, strict=True)])
    config = BatchConfig(tokens=TOKENS, micro_tokens=16 * TOKENS)  # one micro-batch per update
    for update in Sampler(lengths, config=config, seed=1).updates(SamplerState()):
        (rows,) = update.micro_batches
        source, target = ([side[row] for row in rows] for side in pairs)
        yield collate(source, target, pad=tokenizer.pad, eos=tokenizer.EOS)


def save(file: Path, batches: Iterable[Batch], tokenizer: Tokenizer) -> None:
    """Write batches in a format that is readable without torch."""
    arrays: dict[str, np.ndarray] = {}
    count = 0
    for count, batch in enumerate(batches, start=1):
        sides = {"source": batch.source, "before": batch.target_in, "after": batch.target_out}
        arrays |= {f"{side}{count - 1}": tensor.numpy() for side, tensor in sides.items()}
    np.savez(file, **arrays, batches=count, vocabulary=tokenizer.vocab_size)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
