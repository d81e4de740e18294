"""Write a bundle as a package of Argos Translate: one `.argosmodel` file.

    translate-en_de/
        metadata.json          language codes and names
        sentencepiece.model    tokenizer of source and target
        model/                 CTranslate2 model

Argos has fixed search settings (beam 4, CTranslate2's length penalty 0.2), splits text into
sentences with a model that it downloads, and replaces each "_" in a translation by a space.
"""

import json
import re
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from transduce.bundle.bundle import Bundle
from transduce.data.config import Languages
from transduce.data.pair_tokenizer import SOURCE, PairTokenizer, zip_files
from transduce.inference.engines.ct2_model import unsupported_feature as why_not_ctranslate2
from transduce.inference.engines.ct2_model import write_ctranslate2
from transduce.io.atomic_folder import atomic_file

SUFFIX = ".argosmodel"
MODEL_FILES = ("config.json", "model.bin", "shared_vocabulary.json")
"""Files that CTranslate2 reads from a model's folder."""

_LONGEST = 1024  # CTranslate2's default, which Argos keeps
_CODE = re.compile("[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


def why_not(bundle: Bundle) -> str:
    """Return the first feature of a model that Argos lacks; empty if it has all."""
    if reason := why_not_ctranslate2(bundle.weights.config):
        return reason
    config, tokenizer = bundle.weights.config, bundle.tokenizer
    if config.positions == "learned" and config.max_positions <= _LONGEST:
        return (
            f"model.max_positions {config.max_positions}, where Argos has sentences of up to "
            f"{_LONGEST:,} pieces"
        )
    if not tokenizer.shared:
        return "separate vocabularies of source and target (tokenizer.shared = false)"
    if tokenizer.tags:
        return f"a model of several directions, with tags in the text: {next(iter(tokenizer.tags))}"
    return ""


def write_argos(bundle: Bundle, file: Path, *, quantization: str | None = None) -> None:
    """Write the package atomically; an earlier export is replaced.

    Args:
        bundle: the model; its languages must have codes.
        file: output file, ending in `.argosmodel`.
        quantization: weight type as for `write_ctranslate2`.

    Raises:
        ValueError: if the languages have no codes, Argos cannot express the model, or `file` has
            another suffix or holds something else.
        OSError: if it cannot be written.
    """
    if file.suffix != SUFFIX:
        raise ValueError(f"{file} must end in {SUFFIX} to be an Argos package")
    if file.is_dir():
        raise ValueError(f"{file} is a folder: name a file for the Argos package")
    if file.is_file() and not _is_ours(file):
        raise ValueError(f"{file} is not a package that was exported here: name another file")
    _check_codes(bundle.languages)
    if reason := why_not(bundle):
        raise ValueError(f"Argos cannot express {reason}")
    root, files = _name(bundle.languages), _files(bundle, quantization=quantization)
    named = {f"{root}/{name}": data for name, data in files.items()}
    package = zip_files(named, compression=zipfile.ZIP_DEFLATED)
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as stream:
        stream.write(package)


def _files(bundle: Bundle, *, quantization: str | None) -> Mapping[str, bytes]:
    tokenizer = bundle.tokenizer
    pair = isinstance(tokenizer, PairTokenizer)
    files = {
        "metadata.json": f"{json.dumps(_metadata(bundle.languages), indent=2)}\n".encode(),
        "sentencepiece.model": tokenizer.files()[SOURCE] if pair else tokenizer.to_bytes(),
    }
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        write_ctranslate2(bundle, model, quantization=quantization)
        return files | {f"model/{name}": (model / name).read_bytes() for name in MODEL_FILES}


def _metadata(languages: Languages) -> Mapping[str, object]:
    return {
        "package_version": "1.0",
        "argos_version": "1.9",
        "type": "translate",
        "from_code": languages.source,
        "from_name": languages.source_name or languages.source,
        "to_code": languages.target,
        "to_name": languages.target_name or languages.target,
        "links": [],
    }


def _check_codes(languages: Languages) -> None:
    for side in ("source", "target"):
        code = getattr(languages, side)
        if side in languages.missing or not _CODE.fullmatch(code):
            raise ValueError(
                f'Argos finds a package by language codes such as "en", but languages.{side} is '
                f"{code!r}: export with --{side}-lang, or correct it by `transduce relabel`"
            )


def _name(languages: Languages) -> str:
    """The package's folder once installed."""
    return f"translate-{languages.source}_{languages.target}"


def _is_ours(file: Path) -> bool:
    """Whether a file is a package that `write_argos` wrote."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError):
        return False
    named = any(entry.filename.endswith("/metadata.json") for entry in entries)
    return named and all(entry.date_time == zipfile.ZipInfo().date_time for entry in entries)
