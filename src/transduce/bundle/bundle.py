"""Bundles: folders of trained models.

    config.json         shape, languages, search settings, cleaning, provenance
    model.safetensors   weights in single precision
    confidence.json     confidence calibration, if there is one
    tokenizer.model     SentencePiece model; for imported models a zip of two and a table
    README.md           model card, which people may edit
    manifest.json       size and SHA-256 of all but README.md

None of the files can execute code. Writing is atomic; every file is verified before it is used.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pydantic

from transduce.bundle.calibration import Confidence
from transduce.bundle.card import model_card
from transduce.bundle.tensors import check_size, check_weights, read_weights, write_tensors
from transduce.data.config import Languages
from transduce.data.languages import LanguagePair
from transduce.data.pair_tokenizer import read_tokenizer
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import (
    CARD,
    atomic_folder,
    check_folder,
    check_replaceable,
    path_identity,
    recover_interrupted,
    sanitise,
)
from transduce.io.machine import VERSION as SOURCE_VERSION
from transduce.io.records import first_fault, read_record
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import NumpyTransformer, parameter_shapes
from transduce.search.config import SearchConfig

if TYPE_CHECKING:
    import torch

    from transduce.model.transformer import Transformer

FORMAT = "transduce bundle"
VERSION = 2
"""Incremented when older programs can no longer read a bundle. 2 renamed the layers' parts."""

_READABLE = (1, VERSION)

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.model"
CONFIDENCE = "confidence.json"
_FILES = (CONFIG, WEIGHTS, TOKENIZER)
FILES = (*_FILES, CONFIDENCE, CARD)
"""All that a bundle may hold, but its manifest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Origin of a model."""

    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Programs that made it, by name."""
    commit: str = ""
    """Commit of the source code, if known."""
    created: str = ""
    """Time in UTC (ISO 8601)."""
    data_sha256: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of the corpus files, by name."""
    recipe: str = ""
    """The recipe with all settings, as TOML."""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Measured values by name and signature."""
    started_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of the initial weights, by model name."""

    @classmethod
    def current(cls) -> "Provenance":
        """Return the provenance of a model made now, by this program; the rest is empty."""
        try:
            torch = {"torch": version("torch")}
        except PackageNotFoundError:  # a runtime without it can import and export models
            torch = {}
        return cls(
            versions={"transduce": SOURCE_VERSION, **torch, "python": platform.python_version()},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cleaning:
    """The normalisation by `data.corpus.tidy`; the only one this version knows."""

    unicode: Literal["NFC"] = "NFC"
    control_characters: Literal["space"] = "space"
    ends: Literal["stripped"] = "stripped"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Config:
    """Contents of config.json."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    format: str
    version: int
    languages: Languages
    model: ModelConfig
    search: SearchConfig
    cleaning: _Cleaning
    provenance: Provenance
    directions: tuple[LanguagePair, ...] = ()


@dataclass(kw_only=True, slots=True, init=False)
class Bundle:
    """A model with its tokenizer, languages, search settings and provenance."""

    weights: "NumpyTransformer | Transformer"
    """The model: in NumPy as it was read, in torch once `model` is used."""
    tokenizer: Tokenizer
    languages: Languages
    search: SearchConfig
    provenance: Provenance
    confidence: Confidence | None
    """Confidence calibration; None if the model was never calibrated."""
    directions: tuple[LanguagePair, ...]
    """Those that a model of several was trained on, by target tag; `languages` is the first."""

    def __init__(
        self,
        *,
        model: "NumpyTransformer | Transformer | None" = None,
        weights: "NumpyTransformer | Transformer | None" = None,
        tokenizer: Tokenizer,
        languages: Languages,
        search: SearchConfig,
        provenance: Provenance,
        confidence: Confidence | None = None,
        directions: tuple[LanguagePair, ...] = (),
    ) -> None:
        """Put a bundle together.

        Args:
            model: in torch, or in NumPy.
            weights: the same; `dataclasses.replace` names it so, and `model` takes precedence.
            tokenizer: of the model's vocabulary.
            languages: of source and target.
            search: default settings.
            provenance: where the model is from.
            confidence: calibration, if there is one.
            directions: of a model that has several.
        """
        weights = model or weights
        assert weights is not None, "a bundle has a model"
        assert tokenizer.vocab_size == weights.config.vocab_size, "one vocabulary for both"
        self.weights, self.tokenizer, self.languages = weights, tokenizer, languages
        self.search, self.provenance, self.confidence = search, provenance, confidence
        self.directions = directions

    @property
    def model(self) -> "Transformer":
        """The model in torch, built when it is first used."""
        if isinstance(self.weights, NumpyTransformer):
            from transduce.model.transformer import from_numpy

            self.weights = from_numpy(self.weights)
        return self.weights

    @model.setter
    def model(self, model: "Transformer") -> None:
        self.weights = model

    def relabel(self, languages: Languages) -> None:
        """Correct the languages; the targets of several directions stay, as tags name them.

        Raises:
            ValueError: if directions would have equal languages.
        """
        renamed = {self.languages.source: languages.source}
        directions = tuple(
            pair._replace(source=renamed.get(pair.source, pair.source)) for pair in self.directions
        )
        if len({*directions}) < len(directions) or any(a == b for a, b in directions):
            raise ValueError(
                f"the source cannot be {languages.source!r} in the model's directions "
                f"{', '.join(map(str, self.directions))}: name another language"
            )
        self.directions = directions
        self.languages = languages

    def save(self, folder: str | Path, *, card: str | None = None) -> None:
        """Write the bundle atomically, with a generated model card unless `card` is one.

        An older bundle in its place is replaced.

        Raises:
            ValueError: if `folder` holds something else, or a weight is not a finite number.
            OSError: if it cannot be written; an older bundle is left intact.
        """
        folder = Path(folder)
        check_replaceable(folder, FILES)
        saved = self.weights.to_numpy()
        weights = saved.weights
        check_weights(weights, f"the model for {folder}")
        config = _Config(
            format=FORMAT,
            version=VERSION,
            languages=self.languages,
            model=saved.config,
            search=self.search,
            cleaning=_Cleaning(),
            provenance=self.provenance,
            directions=self.directions,
        )
        text = json.dumps(asdict(config), indent=2, ensure_ascii=False)
        with atomic_folder(folder) as fresh:
            (fresh / CONFIG).write_text(f"{text}\n", encoding="utf-8")
            write_tensors(weights, fresh / WEIGHTS)
            (fresh / TOKENIZER).write_bytes(self.tokenizer.to_bytes())
            if self.confidence is not None:
                (fresh / CONFIDENCE).write_text(self.confidence.to_json(), encoding="utf-8")
            (fresh / CARD).write_text(model_card(self) if card is None else card, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, *, device: "torch.device | str" = "cpu") -> "Bundle":
        """Read and verify a bundle; the model is in eval mode.

        If a writer replaces it meanwhile, the new one is read.

        Args:
            folder: a bundle, or a run's folder (its `model/`, or `best/` during training).
            device: of the model in torch; any but "cpu" builds it at once.

        Raises:
            ValueError: one line with the faulty file and the remedy, or for an unusable device.
        """
        while True:
            folder_path = find_bundle(Path(folder))
            before = path_identity(folder_path)
            try:
                bundle = cls._read(folder_path)
            except (OSError, ValueError):
                if path_identity(folder_path) == before:
                    raise
            else:
                if path_identity(folder_path) == before:
                    break
        if str(device) != "cpu":
            from transduce.model.transformer import to_device

            bundle.model = to_device(bundle.model, device)
        return bundle

    @classmethod
    def _read(cls, folder: Path) -> "Bundle":
        calibrated = (folder / CONFIDENCE).exists()
        check_folder(
            folder,
            expected="a model bundle, as `transduce train` writes it",
            required=(*_FILES, CONFIDENCE) if calibrated else _FILES,
        )
        config = _read_config(folder / CONFIG)
        tokenizer = _read_tokenizer(folder / TOKENIZER)
        if tokenizer.vocab_size != config.model.vocab_size:
            raise ValueError(
                f"{folder / TOKENIZER} has {tokenizer.vocab_size} pieces, but the model in "
                f"{CONFIG} has {config.model.vocab_size}: copy all files from one bundle"
            )
        confidence = None
        if calibrated:
            remedy = "copy the bundle again"
            confidence = read_record(folder / CONFIDENCE, Confidence, remedy=remedy)
        return cls(
            model=_read_model(folder / WEIGHTS, config.model),
            tokenizer=tokenizer,
            languages=config.languages,
            search=config.search,
            provenance=config.provenance,
            confidence=confidence,
            directions=config.directions,
        )


def check_same_vocabulary(first: Bundle, other: Bundle, *, names: tuple[object, object]) -> None:
    """Refuse models of an ensemble that do not share their vocabulary.

    Args:
        first: a model.
        other: a model that is to be used with it.
        names: of both, for the message.

    Raises:
        ValueError: if their vocabularies differ.
    """
    if other.tokenizer.checksum != first.tokenizer.checksum:
        raise ValueError(
            f"{names[1]} has another vocabulary than {names[0]}: the models of an ensemble need "
            f"the same tokenizer.model"
        )


def find_bundle(path: Path) -> Path:
    """Return the bundle of a run's folder; any other path is returned unchanged."""
    if not (path / CONFIG).exists():
        for inner in (path / "model", path / "best"):
            if recover_interrupted(inner):
                return inner
    return path


def is_unfinished(path: Path) -> bool:
    """Return whether a path is a run in training, whose best bundle so far may be replaced."""
    folder = find_bundle(path)
    return folder.name == "best" and folder != path


def _read_config(path: Path) -> _Config:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not JSON: copy the bundle again") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'{path} lacks "format": "{FORMAT}": it belongs to another program')
    if content.get("version") not in _READABLE:
        raise ValueError(
            f"{path} has format version {sanitise(str(content.get('version')))}, this program "
            f"reads {' and '.join(map(str, _READABLE))}: install the version of transduce that "
            f"wrote it"
        )
    try:
        return pydantic.TypeAdapter(_Config).validate_json(json.dumps(content), strict=True)
    except pydantic.ValidationError as error:
        fault = first_fault(error)
        raise ValueError(f"{path} does not fit this version of transduce: {fault}") from None


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return read_tokenizer(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {sanitise(str(error))}") from None


def _read_model(path: Path, config: ModelConfig) -> NumpyTransformer:
    weights = read_weights(path)
    check_size([array.size for array in weights.values()], config, str(path))
    actual = {name: (list(array.shape), array.dtype) for name, array in weights.items()}
    single = np.dtype(np.float32)
    expected = {name: (list(shape), single) for name, shape in parameter_shapes(config).items()}
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            raise ValueError(
                f"{path} does not fit {CONFIG}: tensor {sanitise(name)} is "
                f"{_described(actual.get(name))}, not {_described(expected.get(name))}: "
                f"copy all files from one bundle"
            )
    check_weights(weights, str(path))
    return NumpyTransformer(config, weights)


def _described(tensor: tuple[list[int], np.dtype] | None) -> str:
    return "absent" if tensor is None else f"{tensor[0]} {tensor[1]}"
