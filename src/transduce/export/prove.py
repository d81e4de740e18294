"""Proofs made: one function a format, which loads what was written as its own program does.

A program that is not installed leaves no proof, and says what to install.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.data.tokenizer import EOS, UNK
from transduce.export.proof import Both, Proof, compared, missing
from transduce.inference.engines.ct2_model import load_ctranslate2, vocabulary
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.search.config import Request

ARGOS_BEAM, ARGOS_PENALTY = 4, 0.2
"""How Argos searches; nobody can say otherwise."""


class _Sentence(NamedTuple):
    """A sentence of the sample, and what our side makes of it."""

    text: str
    source: tuple[int, ...]
    """With EOS."""
    said: tuple[int, ...]
    """Greedily; EOS at the end unless the limit cut it."""
    limit: int


def prove_marian(bundle: Bundle, folder: Path, sentences: Sequence[str]) -> Proof:
    """Decode sentences with MarianMTModel and MarianTokenizer, and with our torch engine.

    Args:
        bundle: what `folder` was written from.
        folder: as `write_marian` left it.
        sentences: the sample; blank ones and those too long for one go are left out.
    """
    if proof := missing("marian", "transformers"):
        return proof
    with _quiet_transformers() as transformers:
        model = transformers.MarianMTModel.from_pretrained(folder, local_files_only=True).eval()
        cut = transformers.MarianTokenizer.from_pretrained(folder, local_files_only=True)
        gap = 0.0
        pairs: list[Both] = []
        for one in _sample(bundle, sentences):
            source = torch.tensor([cut(one.text)["input_ids"]])
            said = model.generate(
                input_ids=source,
                attention_mask=torch.ones_like(source),
                num_beams=1,
                do_sample=False,
                length_penalty=1.0,
                max_length=one.limit + 1,  # the start
            )
            pairs.append(_both(bundle, one, source[0].tolist(), said[0, 1:].tolist()))
            gap = max(gap, _gap(bundle, model, one))
    return compared("marian", pairs, gap=gap)


def prove_ctranslate2(bundle: Bundle, folder: Path, sentences: Sequence[str]) -> Proof:
    """Decode sentences with CTranslate2 alone, and with our torch engine.

    Args:
        bundle: what `folder` was written from.
        folder: as `write_ctranslate2` left it; quantized weights say other pieces now and then.
        sentences: the sample; blank ones and those too long for one go are left out.
    """
    if proof := missing("ctranslate2", "ctranslate2"):
        return proof
    translator = load_ctranslate2().Translator(str(folder), inter_threads=1, intra_threads=1)
    pieces = vocabulary(bundle.tokenizer)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    pairs: list[Both] = []
    for one in _sample(bundle, sentences):
        (found,) = translator.translate_batch(
            [[pieces[number] for number in one.source[:-1]]],  # it adds EOS itself
            beam_size=1,
            max_input_length=0,
            max_decoding_length=one.limit,
            return_end_token=True,
        )
        said = [numbers[piece] for piece in found.hypotheses[0]]
        pairs.append(_both(bundle, one, one.source, said))
    return compared("ctranslate2", pairs)


def prove_argos(bundle: Bundle, file: Path, sentences: Sequence[str]) -> Proof:
    """Translate sentences with Argos, installed for this alone, and with CTranslate2 as Argos does.

    Argos runs as a process of its own, with a home that is thrown away. What is compared are words:
    Argos shows no pieces.

    Args:
        bundle: what `file` was written from.
        file: as `write_argos` left it.
        sentences: the sample; blank ones and those too long for one go are left out.

    Raises:
        ValueError: if Argos fails; one line with what it said last.
    """
    if proof := missing("argos", "argostranslate", "ctranslate2"):
        return proof
    texts = [tidy(text) for text in sentences if _fits(bundle, tidy(text))]
    with tempfile.TemporaryDirectory() as scratch:
        theirs = _of_argos(bundle, file, texts, home=Path(scratch))
        ours = _as_argos(bundle, file, texts, scratch=Path(scratch))
    pairs = (
        Both(tuple(a.split(" ")), tuple(b.split(" "))) for a, b in zip(ours, theirs, strict=True)
    )
    return compared("argos", pairs)


def _fits(bundle: Bundle, text: str) -> bool:
    return 0 < len(bundle.tokenizer.encode(text)) <= bundle.search.max_source


def _sample(bundle: Bundle, sentences: Sequence[str]) -> Iterator[_Sentence]:
    greedy = replace(bundle.search, beam=1)
    engine = TorchEngine(
        bundle.model,
        pad=bundle.tokenizer.pad,
        eos=EOS,
        device=bundle.model.embedding.weight.device,
    )
    for sentence in sentences:
        text = tidy(sentence)
        if not _fits(bundle, text):
            continue
        ids = tuple(bundle.tokenizer.encode(text))
        ((best, *_),) = engine.search([Request(ids)], greedy)
        yield _Sentence(text, (*ids, EOS), best.ids, greedy.limit(len(ids)))


def _both(bundle: Bundle, one: _Sentence, source: Sequence[int], said: Sequence[int]) -> Both:
    show = bundle.tokenizer.pieces
    ours, theirs = (*one.source, *one.said), (*source, *said)
    return Both(tuple(show(ours)), tuple(show(theirs)))


@torch.inference_mode()
def _gap(bundle: Bundle, model: torch.nn.Module, one: _Sentence) -> float:
    """The largest difference of the logits of what we said; PAD is never said."""
    source = torch.tensor([one.source])
    target = torch.tensor([[bundle.tokenizer.pad, *one.said[:-1]]])
    device = bundle.model.embedding.weight.device
    ours: Float[Tensor, "1 target vocab"] = bundle.model(
        source.to(device), None, target.to(device)
    ).cpu()
    theirs = model(input_ids=source, decoder_input_ids=target).logits
    return (ours - theirs)[..., :-1].abs().max().item()


@contextmanager
def _quiet_transformers() -> Generator[ModuleType]:
    """That program, while it tells of errors alone and asks nobody on the network."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it recommends to install is not needed here
        transformers = import_module("transformers")
        logging = transformers.utils.logging
        before = logging.get_verbosity()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield transformers
        finally:
            logging.set_verbosity(before)
            logging.enable_progress_bar()


def _of_argos(bundle: Bundle, file: Path, texts: Sequence[str], *, home: Path) -> list[str]:
    job, said = home / "job.json", home / "said.json"
    asked = {
        "package": str(file.resolve()),
        "source": bundle.languages.source,
        "target": bundle.languages.target,
        "sentences": texts,
        "said": str(said),
    }
    job.write_text(json.dumps(asked), encoding="utf-8")
    places = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("ARGOS_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "transduce.export.argos_runner", str(job)],
        env=theirs | dict.fromkeys(places, str(home)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip() or "nothing").splitlines()[-1]
        raise ValueError(f"Argos could not translate with {file}: it said {reason}")
    return json.loads(said.read_text(encoding="utf-8"))


def _as_argos(bundle: Bundle, file: Path, texts: Sequence[str], *, scratch: Path) -> list[str]:
    """The same by CTranslate2 and our tokenizer, at Argos's settings."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(scratch / "package")
    (folder,) = (scratch / "package").iterdir()
    translator = load_ctranslate2().Translator(str(folder / "model"), compute_type="auto")
    pieces = vocabulary(bundle.tokenizer)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    said: list[str] = []
    for ids in map(bundle.tokenizer.encode, texts):
        (found,) = translator.translate_batch(
            [[pieces[number] for number in ids]],
            beam_size=ARGOS_BEAM,
            length_penalty=ARGOS_PENALTY,
            replace_unknowns=True,
        )
        text = bundle.tokenizer.decode(numbers.get(one, UNK) for one in found.hypotheses[0])
        said.append(text.replace("▁", " ").replace("_", " "))
    return said
