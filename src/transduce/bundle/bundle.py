"""A bundle: a trained model as a folder that people can read and programs can trust.

    config.json         shape, languages, search settings, cleaning, and where it all came from
    model.safetensors   the weights, in single precision
    confidence.json     what its probabilities are worth, where that was learned
    tokenizer.model     the SentencePiece model; of an imported one a zip archive of two and a table
    README.md           the same for people, who may edit it
    manifest.json       size and SHA-256 of all but README.md

Nothing in it can run code. It is written whole or not at all, and every byte is checked before it
is believed.
"""

import json
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pydantic
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from transduce.bundle.calibration import Confidence
from transduce.bundle.tensors import check_size, check_weights, read_weights, write_tensors
from transduce.data.config import Languages
from transduce.data.pair_tokenizer import PairTokenizer, read_tokenizer
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import (
    CARD,
    MANIFEST,
    atomic_folder,
    check_folder,
    recover_interrupted,
    sanitise,
)
from transduce.io.version import VERSION as SOURCE_VERSION
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

FORMAT = "transduce bundle"
VERSION = 2
"""Incremented when older programs can no longer read a bundle. 2 renamed the layers' parts."""

_READABLE = (1, VERSION)

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.model"
CONFIDENCE = "confidence.json"
_FILES = (CONFIG, WEIGHTS, TOKENIZER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Where a model came from."""

    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Programs that made it, by name."""

    commit: str = ""
    """The commit of the program's source, where known."""

    created: str = ""
    """When, in UTC (ISO 8601)."""

    data_sha256: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of the corpus files, by name."""

    recipe: str = ""
    """The recipe with every setting said, as TOML."""

    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Measured values, each under its name and signature."""

    started_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """The model whose weights training started from: SHA-256 of its weights, by its name."""

    @classmethod
    def current(
        cls,
        *,
        commit: str = "",
        data_sha256: Mapping[str, str] | None = None,
        recipe: str = "",
        scores: Mapping[str, float] | None = None,
        started_from: Mapping[str, str] | None = None,
    ) -> "Provenance":
        """Fill in the versions and the time."""
        return cls(
            versions={
                "transduce": SOURCE_VERSION,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
            commit=commit,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            data_sha256=data_sha256 or {},
            recipe=recipe,
            scores=scores or {},
            started_from=started_from or {},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cleaning:
    """What `text.corpus.tidy` does to a sentence; another rule would need another program."""

    unicode: Literal["NFC"] = "NFC"
    control_characters: Literal["space"] = "space"
    ends: Literal["stripped"] = "stripped"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Config:
    """What config.json holds."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    format: str
    version: int
    languages: Languages
    model: ModelConfig
    search: SearchConfig
    cleaning: _Cleaning
    provenance: Provenance


@dataclass(kw_only=True, slots=True)
class Bundle:
    """A model with all that is needed to translate with it, and the story of its making."""

    model: Transformer
    tokenizer: Tokenizer
    languages: Languages
    search: SearchConfig
    provenance: Provenance
    confidence: Confidence | None = None
    """What its probabilities are worth; None where nobody has learned it."""

    def __post_init__(self) -> None:
        assert self.tokenizer.vocab_size == self.model.config.vocab_size, "one vocabulary for both"

    def save(self, folder: str | Path) -> None:
        """Write the bundle, whole or not at all; an older bundle in its place is replaced.

        Raises:
            ValueError: if `folder` holds something else, or a weight is not a finite number.
            OSError: if it cannot be written; what was there is still there.
        """
        folder = Path(folder)
        _check_replaceable(folder)
        weights = {
            name: tensor.detach().to("cpu", torch.float32).contiguous()
            for name, tensor in self.model.state_dict().items()
        }
        check_weights(weights, f"the model for {folder}")
        config = _Config(
            format=FORMAT,
            version=VERSION,
            languages=self.languages,
            model=self.model.config,
            search=self.search,
            cleaning=_Cleaning(),
            provenance=self.provenance,
        )
        text = json.dumps(asdict(config), indent=2, ensure_ascii=False)
        with atomic_folder(folder) as fresh:
            (fresh / CONFIG).write_text(f"{text}\n", encoding="utf-8")
            write_tensors(weights, fresh / WEIGHTS)
            (fresh / TOKENIZER).write_bytes(self.tokenizer.to_bytes())
            if self.confidence is not None:
                (fresh / CONFIDENCE).write_text(self.confidence.to_json(), encoding="utf-8")
            (fresh / CARD).write_text(_card(self), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, *, device: torch.device | str = "cpu") -> "Bundle":
        """Read a bundle, and believe none of it unchecked. The model comes back in eval mode.

        Args:
            folder: a bundle, or a run's folder: its `model/`, or its `best/` while it still trains.
            device: where the model shall be.

        Raises:
            ValueError: one line that names the file at fault and what to do about it.
        """
        folder = find_bundle(Path(folder))
        check_folder(folder, expected="a model bundle, as `transduce train` writes it")
        vouched = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name in _FILES:
            if not (folder / name).is_file():
                raise ValueError(f"{folder / name} is missing: {folder} is no whole bundle")
            if name not in vouched:
                raise ValueError(
                    f"{folder / MANIFEST} does not vouch for {name}: copy the bundle again"
                )
        config = _read_config(folder / CONFIG)
        tokenizer = _read_tokenizer(folder / TOKENIZER)
        if tokenizer.vocab_size != config.model.vocab_size:
            raise ValueError(
                f"{folder / TOKENIZER} has {tokenizer.vocab_size} pieces, but the model in "
                f"{CONFIG} has {config.model.vocab_size}: copy all files from one bundle"
            )
        return cls(
            model=_place(_read_model(folder / WEIGHTS, config.model), device),
            tokenizer=tokenizer,
            languages=config.languages,
            search=config.search,
            provenance=config.provenance,
            confidence=_read_confidence(folder / CONFIDENCE, vouched=CONFIDENCE in vouched),
        )


def average_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of some models' weights (section 6.1 averages the last checkpoints).

    The sum is made in double precision; the mean comes back in the precision of the first.

    Raises:
        ValueError: if there is nothing to average, or the models are not of one shape.
    """
    if not states:
        raise ValueError("there are no checkpoints to average: train for at least one validation")
    first = {name: tensor.shape for name, tensor in states[0].items()}
    sums = {name: tensor.double() for name, tensor in states[0].items()}
    for number, state in enumerate(states[1:], start=2):
        if {name: tensor.shape for name, tensor in state.items()} != first:
            raise ValueError(
                f"checkpoint {number} of {len(states)} has other tensors than the first: "
                f"average checkpoints of one model only"
            )
        for name, tensor in state.items():
            sums[name] = sums[name] + tensor.double()
    return {name: (total / len(states)).to(states[0][name].dtype) for name, total in sums.items()}


def find_bundle(path: Path) -> Path:
    """Where the bundle of a run's folder lies; any other folder is one itself, or none at all."""
    if not (path / CONFIG).exists():
        for inner in (path / "model", path / "best"):
            if recover_interrupted(inner):
                return inner
    return path


def _check_replaceable(folder: Path) -> None:
    """Only an older bundle may be replaced, and only one that nobody has put a file into."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file: name another folder for the bundle")
    held = {path.name for path in folder.iterdir()}
    foreign = sorted(held - {*_FILES, CONFIDENCE, CARD, MANIFEST})
    if foreign or (held and not {CONFIG, MANIFEST} <= held):
        what = f"it holds {foreign[0]}" if foreign else "it is no whole bundle"
        raise ValueError(f"{folder} is not replaced by a bundle, {what}: name another folder")


def _read_config(path: Path) -> _Config:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is no JSON: copy the bundle again") from None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise ValueError(f'{path} does not say "format": "{FORMAT}": it belongs to another program')
    if held.get("version") not in _READABLE:
        raise ValueError(
            f"{path} has format version {sanitise(str(held.get('version')))}, this program reads "
            f"{' and '.join(map(str, _READABLE))}: install the version of transduce that wrote it"
        )
    try:
        return pydantic.TypeAdapter(_Config).validate_json(json.dumps(held), strict=True)
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = sanitise(".".join(str(part) for part in fault["loc"]))
        if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            said = f"{key} is unknown here: a newer transduce may have written it"
        elif fault["type"] == "value_error":
            said = sanitise(fault["msg"].removeprefix("Value error, "))
        else:
            said = f"{key}: {fault['msg']}"
        raise ValueError(f"{path} does not fit this version of transduce: {said}") from None


def _read_confidence(path: Path, *, vouched: bool) -> Confidence | None:
    if not path.exists():
        return None
    if not vouched:
        raise ValueError(f"{path.parent / MANIFEST} does not vouch for {path.name}: delete it")
    try:
        return Confidence.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {sanitise(str(error))}") from None


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return read_tokenizer(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {sanitise(str(error))}") from None


def _read_model(path: Path, config: ModelConfig) -> Transformer:
    weights = read_weights(path)
    found = {name: (list(t.shape), t.dtype) for name, t in weights.items()}
    check_size(weights, config, str(path))
    with _Undrawn():
        model = Transformer(config)
    expected = {name: (list(t.shape), torch.float32) for name, t in model.state_dict().items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise ValueError(
                f"{path} does not fit {CONFIG}: tensor {sanitise(name)} is "
                f"{_shown(found.get(name))}, not {_shown(expected.get(name))}: "
                f"copy all files from one bundle"
            )
    check_weights(weights, str(path))
    model.load_state_dict(weights)
    return model.eval()


class _Undrawn(TorchFunctionMode):
    """Leaves initial weights undrawn: those that are read next would go over them.

    It saves a large model a second, and the run that loads one the place in its random numbers.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        given = kwargs or {}
        if func.__name__ in {"kaiming_uniform_", "uniform_", "normal_"}:
            return given.get("tensor", args[0] if args else None)
        return func(*args, **given)


def _shown(tensor: tuple[list[int], torch.dtype] | None) -> str:
    return "absent" if tensor is None else f"{tensor[0]} {str(tensor[1]).removeprefix('torch.')}"


def _place(model: Transformer, device: torch.device | str) -> Transformer:
    try:
        return model.to(device)
    except (AssertionError, RuntimeError) as error:  # torch says either, in many lines
        reason = str(error).partition("\n")[0]
        raise ValueError(f"the device {str(device)!r} cannot be used here: {reason}") from None


def _card(bundle: Bundle) -> str:
    """The model card: README.md for whoever is handed the folder."""
    said, made, shape = bundle.languages, bundle.provenance, bundle.model.config
    source, target = said.source_name or said.source, said.target_name or said.target
    scores = [f"| {_cell(name)} | {value:.2f} |" for name, value in made.scores.items()]
    files = [f"- `{name}` {checksum}" for name, checksum in made.data_sha256.items()]
    versions = [f"- {name} {version}" for name, version in made.versions.items()]
    start = [f"\n- the weights of `{name}`, {sha256}" for name, sha256 in made.started_from.items()]
    by = "brought into" if made.started_from and not made.recipe else "trained with"
    table = ", cut by a model a side" if isinstance(bundle.tokenizer, PairTokenizer) else ""
    size = bundle.model.size
    return f"""# {source} → {target}

A Transformer (Vaswani et al. 2017) that turns {source} (`{said.source}`) into {target}
(`{said.target}`), {by} transduce. It reads one sentence a line.

- {size:,} parameters: {shape.encoder_layers} encoder layers, {shape.decoder_layers} decoder
  layers, d_model {shape.d_model}, d_ff {shape.d_ff}, {shape.heads} heads, {shape.norm}-norm
- one vocabulary of {shape.vocab_size:,} pieces for both sides (SentencePiece{table})
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
