"""Verify an export: decode a sample with the other program and with ours, and compare.

Both sides tokenize by themselves and search greedily, one sentence at a time, with our length
limit. Argos has fixed search settings of its own, so it is compared with CTranslate2 under those
settings and our tokenizer. Without the other program installed, no proof is made.
"""

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.tokenizer import EOS, UNK, Tokenizer, marian_tag
from transduce.inference.engines.base import reference_engine
from transduce.inference.engines.ct2_model import load_ctranslate2, vocabulary
from transduce.search.config import Request
from transduce.web.page import INDEX, run_in_node

ARGOS_BEAM, ARGOS_PENALTY = 4, 0.2
"""Argos's beam size and length penalty, which it does not let users change."""

_LOGIT_SENTENCES = 5  # whose logits are compared with those of a page

ExportFormat = Literal["huggingface", "marian-npz", "onnx", "ctranslate2", "argos", "web"]


class Difference(NamedTuple):
    """The first position at which the two outputs differ."""

    sentence: int
    """Counted from 1 in the sample."""
    position: int
    """Counted from 1 in the sentence: source pieces and EOS first, then the translation's."""
    piece: str
    other_piece: str
    """Our piece and the other program's (for Argos, words); empty where a side has ended."""


class PiecePair(NamedTuple):
    """The pieces of one sentence, source and translation, from both programs."""

    pieces: tuple[str, ...]
    other_pieces: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The result of decoding a sample with both programs."""

    format: ExportFormat
    sentences: int = 0
    equal: int = 0
    """Sentences with identical source pieces and translations."""
    first_difference: Difference | None = None
    gap: float | None = None
    """Largest difference of two logits, if the other program exposes its logits."""
    not_made: str = ""
    """Why there is no proof, and the remedy; empty if there is one."""

    @property
    def holds(self) -> bool:
        """Whether a proof was made and all sentences are identical."""
        return 0 < self.equal == self.sentences

    def __str__(self) -> str:
        """Format as one line."""
        if self.not_made:
            return f"{self.format}: not verified: {self.not_made}"
        text = f"{self.format}: {self.equal} of {self.sentences} sentences identical"
        if self.gap is not None:
            text += f"; largest logit difference {self.gap:.1e}"
        if (first := self.first_difference) is not None:
            text += (
                f"; first difference in sentence {first.sentence}, position {first.position}: "
                f"{first.piece!r}, not {first.other_piece!r}"
            )
        return text


def missing_packages(format: ExportFormat, *modules: str) -> Proof | None:
    """Return a `Proof` that names the packages to install, or None if all are available."""
    missing = " ".join(module for module in modules if find_spec(module) is None)
    if not missing:
        return None
    return Proof(format=format, not_made=f"{missing} is not installed: pip install {missing}")


def compare_pieces(
    format: ExportFormat, pairs: Iterable[PiecePair], *, gap: float | None = None
) -> Proof:
    """Count identical sentences and find the first difference.

    Args:
        format: the format of the export.
        pairs: pieces of each sentence, ours and the other program's.
        gap: largest difference of two logits, if known.
    """
    count, equal = 0, 0
    first: Difference | None = None
    for count, pair in enumerate(pairs, 1):
        difference = next(_differences(pair), None)
        equal += difference is None
        if difference is not None and first is None:
            first = Difference(count, *difference)
    if not count:
        reason = "all sentences of the sample are blank or too long for the model"
        return Proof(format=format, not_made=f"{reason}: name another by --sample")
    return Proof(format=format, sentences=count, equal=equal, first_difference=first, gap=gap)


def _differences(pair: PiecePair) -> Iterator[tuple[int, str, str]]:
    for position, (piece, other) in enumerate(zip_longest(*pair, fillvalue=""), 1):
        if piece != other:
            yield position, piece, other


class Sample(NamedTuple):
    """A sentence of the sample and our greedy translation of it."""

    bundle: Bundle
    """The exported model."""
    text: str
    source: tuple[int, ...]
    """Ids with EOS."""
    target: tuple[int, ...]
    """Ids, with EOS unless the length limit was reached."""
    limit: int

    @property
    def target_in(self) -> tuple[int, ...]:
        """The decoder's input: the target shifted right."""
        return (self.bundle.tokenizer.pad, *self.target[:-1])

    def pair(self, source: Sequence[int], target: Sequence[int]) -> PiecePair:
        """Join source and translation, ours and those that another program has in ids."""
        names, target_names = self.bundle.tokenizer.pieces, self.bundle.tokenizer.target.pieces
        return PiecePair(
            (*names(self.source), *target_names(self.target)),
            (*names(source), *target_names(target)),
        )

    def logits(self) -> Float[np.ndarray, "target vocab"]:
        """Our logits over our translation, by the model in NumPy."""
        model = self.bundle.weights.to_numpy()
        return model(np.array([self.source]), None, np.array([self.target_in]))[0]

    def gap(self, logits: Float[np.ndarray, "target vocab"]) -> float:
        """Largest difference of another program's logits from ours; PAD is never output."""
        return float(np.abs(self.logits() - logits)[:, :-1].max())


def prove_huggingface(bundle: Bundle, folder: Path, sentences: Sequence[str]) -> Proof:
    """Compare the model and tokenizer that Transformers loads with our torch engine.

    Args:
        bundle: the exported model.
        folder: the output of `write_huggingface`.
        sentences: the sample; blank and overlong ones are skipped.
    """
    if proof := missing_packages("huggingface", "transformers"):
        return proof
    import torch

    with _quiet_transformers() as transformers:
        models, tokenizers = transformers.AutoModelForSeq2SeqLM, transformers.AutoTokenizer
        model = models.from_pretrained(folder, local_files_only=True).eval()
        tokenize = tokenizers.from_pretrained(folder, local_files_only=True)
        gap = 0.0
        pairs: list[PiecePair] = []
        for sample in samples(bundle, sentences):
            text = _marian_text(sample.text, bundle.tokenizer)
            source = torch.tensor([tokenize(text)["input_ids"]])
            output = model.generate(
                input_ids=source,
                attention_mask=torch.ones_like(source),
                num_beams=1,
                do_sample=False,
                length_penalty=1.0,
                max_length=sample.limit + 1,  # + the start token
            )
            pairs.append(sample.pair(source[0].tolist(), output[0, 1:].tolist()))
            source, target_in = torch.tensor([sample.source]), torch.tensor([sample.target_in])
            with torch.inference_mode():
                logits = model(input_ids=source, decoder_input_ids=target_in).logits[0]
            gap = max(gap, sample.gap(logits.numpy()))
    return compare_pieces("huggingface", pairs, gap=gap)


def _marian_text(text: str, tokenizer: Tokenizer) -> str:
    """Spell the tag before a text as MarianTokenizer expects it, which keeps a space after it."""
    tags, rest = tokenizer.split_tag(text)
    if not isinstance(tokenizer, PairTokenizer):  # ours takes the space for a part of the tag
        rest = rest.removeprefix(" ")
    return "".join([*map(marian_tag, tokenizer.pieces(tags)), rest])


def prove_ctranslate2(bundle: Bundle, folder: Path, sentences: Sequence[str]) -> Proof:
    """Compare CTranslate2 with our engine; with quantized weights some pieces may differ.

    Args: those of `prove_huggingface`, of `write_ctranslate2`.
    """
    if proof := missing_packages("ctranslate2", "ctranslate2"):
        return proof
    translator = load_ctranslate2().Translator(str(folder), inter_threads=1, intra_threads=1)
    pieces = vocabulary(bundle.tokenizer)
    ids = {piece: number for number, piece in enumerate(vocabulary(bundle.tokenizer.target))}
    pairs: list[PiecePair] = []
    for sample in samples(bundle, sentences):
        (result,) = translator.translate_batch(
            [[pieces[number] for number in sample.source[:-1]]],  # CTranslate2 adds EOS itself
            beam_size=1,
            max_input_length=0,
            max_decoding_length=sample.limit,
            return_end_token=True,
        )
        target = [ids[piece] for piece in result.hypotheses[0]]
        pairs.append(sample.pair(sample.source, target))
    return compare_pieces("ctranslate2", pairs)


def prove_argos(bundle: Bundle, file: Path, sentences: Sequence[str]) -> Proof:
    """Compare Argos Translate with CTranslate2 under Argos's settings, word by word.

    Args: those of `prove_huggingface`, of `write_argos`.

    Raises:
        ValueError: if Argos fails; the message has its error.
    """
    if proof := missing_packages("argos", "argostranslate", "ctranslate2"):
        return proof
    texts = [text for text, _ in _encoded(bundle, sentences)]
    job = {
        "package": str(file.resolve()),
        "source": bundle.languages.source,
        "target": bundle.languages.target,
        "sentences": texts,
    }
    runner = ("-m", "transduce.export.argos_runner")
    by_argos = run_program(runner, job, name="Argos", out=file)
    by_ctranslate2 = _translate_like_argos(bundle, file, texts)
    pairs = (
        PiecePair(tuple(text.split(" ")), tuple(other.split(" ")))
        for text, other in zip(by_ctranslate2, by_argos, strict=True)
    )
    return compare_pieces("argos", pairs)


def prove_web(bundle: Bundle, out: Path, sentences: Sequence[str]) -> Proof:
    """Compare an exported page, run by Node, with our model, logit by logit and token by token.

    Args: those of `prove_huggingface`, of `write_web`: a page, or a folder with one.

    Raises:
        ValueError: if the page fails; the message has Node's last line.
    """
    node = shutil.which("node")
    if node is None:
        return Proof(format="web", not_made="Node.js is not installed: install node")
    sample = list(samples(bundle, sentences))
    compared = sample[:_LOGIT_SENTENCES]
    page = out / INDEX if out.is_dir() else out
    with tempfile.TemporaryDirectory() as scratch:
        logits = Path(scratch) / "logits"
        with logits.open("wb") as stream:
            stream.writelines(s.logits().tobytes() for s in compared)
        job = {
            "sentences": [s.text for s in sample],
            "beam": 1,
            "samples": [(s.source, s.target_in) for s in compared],
            "logits": str(logits),
        }
        result = run_in_node(node, page, job)
    pairs = [
        s.pair((*other["source"], EOS), other["ids"])
        for s, other in zip(sample, result["translations"], strict=True)
    ]
    return compare_pieces("web", pairs, gap=result["gap"])


def samples(bundle: Bundle, sentences: Sequence[str]) -> Iterator[Sample]:
    """Translate the sentences greedily with our engine; blank and overlong ones are skipped."""
    greedy = replace(bundle.search, beam=1)
    engine = reference_engine(bundle)
    for text, ids in _encoded(bundle, sentences):
        ((best, *_),) = engine.search([Request(ids)], greedy)
        limit = min(greedy.limit(len(ids)), engine.longest)
        yield Sample(bundle, text, (*ids, EOS), best.ids, limit)


def _encoded(bundle: Bundle, sentences: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the tidied sentences and their ids; blank and overlong ones are skipped."""
    longest = min(bundle.search.max_source, bundle.weights.config.longest - 1)  # EOS
    for text in map(tidy, sentences):
        ids = tuple(bundle.tokenizer.encode(text))
        if 0 < len(ids) <= longest:
            yield text, ids


@contextmanager
def _quiet_transformers() -> Generator[ModuleType]:
    """Import transformers, offline and with errors only on stderr."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends packages that are not needed here
        transformers = import_module("transformers")
        logging = transformers.utils.logging
        verbosity = logging.get_verbosity()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield transformers
        finally:
            logging.set_verbosity(verbosity)
            logging.enable_progress_bar()


def run_program(
    program: Sequence[str], job: Mapping[str, object], *, name: str, out: Path
) -> list[str]:
    """Translate with a Python program in a process of its own, whose home is temporary.

    Args:
        program: arguments of Python; the last one that it gets is a JSON file with the job.
        job: what to do; "output" is added, the file for a JSON list of translations.
        name: of the other translation program, for errors.
        out: the export, for errors.

    Raises:
        ValueError: if it fails; the message has its error.
    """
    folders = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARGOS_")}
    with tempfile.TemporaryDirectory() as home:
        file, output = Path(home) / "job.json", Path(home) / "output.json"
        file.write_text(json.dumps({**job, "output": str(output)}), encoding="utf-8")
        completed = subprocess.run(
            [sys.executable, "-W", "ignore", *program, str(file)],
            env={**inherited, **dict.fromkeys(folders, home), "PYTHONUSERBASE": site.getuserbase()},
            capture_output=True,
            text=True,
            check=False,
        )
        if completed.returncode or not output.exists():
            lines = completed.stderr.strip().splitlines() or ["no message"]
            # A traceback indents the lines of the source code.
            errors = [line for line in lines if "rror" in line and not line.startswith(" ")]
            reason = errors[0] if errors else lines[-1]
            raise ValueError(f"{name} failed to translate with {out}: {reason}")
        return json.loads(output.read_text(encoding="utf-8"))


def _translate_like_argos(bundle: Bundle, file: Path, texts: Sequence[str]) -> list[str]:
    """Translate with CTranslate2 and our tokenizer under Argos's settings."""
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(file) as archive:
        archive.extractall(scratch)
        (folder,) = Path(scratch).iterdir()
        translator = load_ctranslate2().Translator(str(folder / "model"), compute_type="auto")
    pieces = vocabulary(bundle.tokenizer)
    ids = {piece: number for number, piece in enumerate(pieces)}
    translations: list[str] = []
    for source in map(bundle.tokenizer.encode, texts):
        (result,) = translator.translate_batch(
            [[pieces[number] for number in source]],
            beam_size=ARGOS_BEAM,
            length_penalty=ARGOS_PENALTY,
            replace_unknowns=True,
        )
        text = bundle.tokenizer.decode(ids.get(piece, UNK) for piece in result.hypotheses[0])
        translations.append(text.replace("▁", " ").replace("_", " "))  # as Argos does
    return translations
