"""How files are damaged, and what may come of it: one line that refuses them, or no difference."""

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from transduce.bundle.bundle import Bundle, Provenance
from transduce.bundle.calibration import Calibration, Confidence
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

SHAPE = {
    **{"encoder_layers": 1, "decoder_layers": 1, "d_model": 4, "d_ff": 5},
    **{"heads": 1, "d_k": 3, "d_v": 2},
}


def tiny_bundle() -> Bundle:
    """A bundle of a few thousand bytes, with every file that a bundle can have."""
    tokenizer = Tokenizer.train(["a dog runs", "ein Hund"], TokenizerConfig(vocab_size=19))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = Transformer(ModelConfig(vocab_size=tokenizer.vocab_size, **SHAPE)).eval()
    knots = Calibration(log_probs=(-2.0, -0.5), worth=(0.25, 0.75), observations=101)
    return Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(beam=2, extra=3),
        provenance=Provenance(created="2017-06-12", recipe='name = "tiny"\n'),
        confidence=Confidence(words=knots),
    )


def same_bundle(bundle: Bundle, other: Bundle) -> bool:
    """Whether two bundles translate alike."""
    return (
        bundle.tokenizer.to_bytes() == other.tokenizer.to_bytes()
        and (bundle.model.config, bundle.search) == (other.model.config, other.search)
        and (bundle.languages, bundle.confidence) == (other.languages, other.confidence)
        and same_tensors(bundle.model.state_dict(), other.model.state_dict())
    )


def same_tensors(tensors: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two states hold the same numbers under the same names."""
    return tensors.keys() == other.keys() and all(
        torch.equal(tensors[name], other[name]) for name in tensors
    )


def refused(read: Callable[[], bool], folder: Path) -> str:
    """The one line that refuses a folder and names a file of it; "" if `read` finds no damage."""
    try:
        unchanged = read()
    except ValueError as error:
        result = str(error)
        assert str(folder) in result, result
        assert result.isprintable(), repr(result)
        assert len(result) < 1000, result
        return result
    assert unchanged, "what was read is another model"
    return ""


def cut(file: Path, sizes: Iterator[int] | range) -> Iterator[int]:
    """Truncate a file to each of these sizes, which must fall; it is whole again at the end."""
    content = file.read_bytes()
    try:
        for size in sizes:
            os.truncate(file, size)
            yield size
    finally:
        file.write_bytes(content)


def flipped(folder: Path, count: int, *, seed: int) -> Iterator[Path]:
    """Flip one random bit of one random file below a folder, and then flip it back."""
    chance = random.Random(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(count):
        file = chance.choice(files)
        data = bytearray(content := file.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        try:
            yield file
        finally:
            file.write_bytes(content)


def vouch(folder: Path) -> None:
    """Make the manifest fit whatever the files have become."""
    facts = {
        path.name: {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in folder.iterdir()
        if path.name not in ("manifest.json", "README.md")
    }
    (folder / "manifest.json").write_text(json.dumps(facts))
