"""A bundle as a package of Argos Translate: one `.argosmodel` file that it installs.

    translate-en_de/
        metadata.json          the languages, by code and name
        sentencepiece.model    cuts the source, joins the target
        model/                 the same as CTranslate2 reads it

Argos searches by settings of its own (a beam of 4, CTranslate2's length penalty 0.2), splits text
into sentences with a model that it downloads, and makes a blank of each "_" in a translation.
"""

import io
import json
import re
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from transduce.bundle.bundle import Bundle
from transduce.data.corpus_config import Languages
from transduce.data.pair_tokenizer import SOURCE, PairTokenizer
from transduce.inference.engines.ct2_model import why_not as why_not_ctranslate2
from transduce.inference.engines.ct2_model import write_ctranslate2
from transduce.io.atomic_folder import whole_file

SUFFIX = ".argosmodel"
MODEL_FILES = ("config.json", "model.bin", "shared_vocabulary.json")
"""What CTranslate2 reads of a model's folder."""

_THEN = (1980, 1, 1, 0, 0, 0)  # the least that an archive can say: equal bundles, equal bytes
_CODE = re.compile("[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


def why_not(bundle: Bundle) -> str:
    """Say in a few words what of a model Argos cannot express; empty if it can express all."""
    if reason := why_not_ctranslate2(bundle.model.config):
        return reason
    tokenizer = bundle.tokenizer
    if isinstance(tokenizer, PairTokenizer):
        codes = [piece for piece in tokenizer.table if re.fullmatch(">>.+<<", piece)]
        if codes:
            return f"a model of several target languages, which are named in the text: {codes[0]}"
    return ""


def write_argos(bundle: Bundle, file: Path, *, quantization: str | None = None) -> None:
    """Write the package, whole or not at all; a file that is there already is replaced.

    Args:
        bundle: the model; its languages must have codes.
        file: where to write; its name must end in `.argosmodel`.
        quantization: as for `write_ctranslate2`.

    Raises:
        ValueError: if the languages have no codes, Argos cannot express the model, or `file` has
            another ending.
        OSError: if it cannot be written.
    """
    if file.suffix != SUFFIX:
        raise ValueError(f"{file} is no name for an Argos package: let it end in {SUFFIX}")
    if file.is_dir():
        raise ValueError(f"{file} is a folder: name a file for the Argos package")
    _check_codes(bundle.languages)
    if reason := why_not(bundle):
        raise ValueError(f"Argos cannot express {reason}")
    package = _packed(_files(bundle, quantization=quantization), root=_name(bundle.languages))
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as stream:
        stream.write(package)


def _files(bundle: Bundle, *, quantization: str | None) -> Mapping[str, bytes]:
    tokenizer = bundle.tokenizer
    cuts = tokenizer.files()[SOURCE] if isinstance(tokenizer, PairTokenizer) else None
    held = {
        "metadata.json": f"{json.dumps(_metadata(bundle.languages), indent=2)}\n".encode(),
        "sentencepiece.model": tokenizer.to_bytes() if cuts is None else cuts,
    }
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        write_ctranslate2(bundle, model, quantization=quantization)
        return held | {f"model/{name}": (model / name).read_bytes() for name in MODEL_FILES}


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
    usual = Languages()
    for side in ("source", "target"):
        code = getattr(languages, side)
        if code == getattr(usual, side) or not _CODE.fullmatch(code):
            raise ValueError(
                f'Argos finds a package by language codes such as "en", but languages.{side} is '
                f"{code!r}: say it in the recipe, or where the package is written"
            )


def _name(languages: Languages) -> str:
    """The folder that the package becomes where it is installed."""
    return f"translate-{languages.source}_{languages.target}"


def _packed(files: Mapping[str, bytes], *, root: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"{root}/{name}", date_time=_THEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return packed.getvalue()
