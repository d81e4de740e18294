"""Fetch a Marian model from the Hugging Face hub, and upload a bundle in that form.

HF_ENDPOINT names a mirror, as in Hugging Face's own programs.
"""

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from http.client import HTTPException
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import urlopen

from transduce.bundle.bundle import WEIGHTS, Bundle
from transduce.data.languages import base_language
from transduce.export.importer import FILES
from transduce.export.marian import write_huggingface
from transduce.export.marian_files import PICKLE
from transduce.export.proof import Proof, prove_huggingface
from transduce.io.atomic_folder import CARD, sanitise

_HUB = "https://huggingface.co"
_TIMEOUT = 30.0  # seconds without an answer
_ABSENT = (401, 403, 404)  # the hub's answers for models and files that it does not show
_HUB_LANGUAGE = re.compile("[a-z]{2,3}")  # ISO 639, all that the hub takes


def is_hub_id(name: str) -> bool:
    """Return whether a name has the form of a model's on the hub.

    >>> is_hub_id("Helsinki-NLP/opus-mt-en-de"), is_hub_id("models/old/en-de"), is_hub_id("é/e")
    (True, False, False)
    """
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name, re.ASCII) is not None


def fetch_model(model_id: str, folder: Path, *, on_file: Callable[[str], None]) -> None:
    """Fetch what `import_marian` reads.

    Args:
        model_id: owner and name, such as "Helsinki-NLP/opus-mt-en-de".
        folder: an existing one, to write to.
        on_file: called with the address of each file before it is fetched.

    Raises:
        ValueError: if there is no such model, or the hub cannot be reached; one line that says how
            to get the folder.
    """
    hub = os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")
    try:
        for name in FILES:
            if name != PICKLE or not (folder / WEIGHTS).exists():
                on_file(address := f"{hub}/{model_id}/resolve/main/{name}")
                _fetch(address, folder / name)
    except (OSError, HTTPException, ValueError) as error:  # ValueError: an address without scheme
        reason = getattr(error, "reason", None) or error
        raise ValueError(
            f"{model_id} is no folder, and {hub} cannot be read ({reason}): where there is a "
            f"network run `hf download {model_id} --local-dir {folder.name}` (of the package "
            f"huggingface_hub), copy that folder here, and run `transduce import {folder.name}`"
        ) from None
    if not any(folder.iterdir()):
        raise ValueError(
            f"{model_id} is no folder, and {hub} has no public model of that name: of a private "
            f"one run `hf download {model_id} --local-dir {folder.name}` first"
        )


def upload_model(bundle: Bundle, model_id: str, sentences: Sequence[str], *, card: str) -> Proof:
    """Upload a bundle as a Hugging Face folder with its model card; a new repository is private.

    Args:
        bundle: the model; `import_marian` reads it back.
        model_id: owner and name of the repository, which is created if there is none.
        sentences: the sample of the proof, which must not fail.
        card: README.md in Markdown, without front matter.

    Raises:
        ValueError: if the form cannot express the model, Transformers disagrees, or the hub
            cannot be reached or refuses; nothing is uploaded then.
    """
    if not is_hub_id(model_id):
        raise ValueError(f"{model_id} is no repository of a hub: name OWNER/NAME by --out")
    try:
        api_class = import_module("huggingface_hub").HfApi  # before the proof, which works offline
    except ImportError:
        raise ValueError("huggingface_hub is not installed: pip install 'transduce[hub]'") from None
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        write_huggingface(bundle, folder)
        proof = prove_huggingface(bundle, folder, sentences)
        if not (proof.holds or proof.not_made):
            raise ValueError(f"nothing was uploaded, as Transformers translates otherwise: {proof}")
        (folder / CARD).write_text(_hub_card(bundle, model_id, card), encoding="utf-8")
        api = api_class(endpoint=os.environ.get("HF_ENDPOINT", _HUB).rstrip("/"))
        try:
            api.create_repo(model_id, private=True, exist_ok=True)
            api.upload_folder(repo_id=model_id, folder_path=folder, commit_message="Export")
        except Exception as error:  # the library's, and those of its HTTP client
            reason = sanitise(str(error).strip().partition("\n")[0]) or type(error).__name__
            raise ValueError(
                f"{api.endpoint} cannot be reached, or refuses to store {model_id} ({reason}): "
                f"log in by `hf auth login` with a token that may write"
            ) from None
    return proof


def _hub_card(bundle: Bundle, model_id: str, card: str) -> str:
    """Add the front matter that the hub searches by, and how to get the model."""
    languages = bundle.languages
    pairs = bundle.directions or ((languages.source, languages.target),)
    codes = [
        code.replace("_", "-")
        for code in dict.fromkeys(itertools.chain(*pairs))
        if _HUB_LANGUAGE.fullmatch(base_language(code))
    ]
    fields = {
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["transduce"],
        "language": list(dict.fromkeys(map(base_language, codes))),
        "language_bcp47": [code for code in codes if code != base_language(code)],
    }
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in fields.items() if value)
    name = f"models/{model_id.partition('/')[2]}"
    command = "    transduce translate "
    used = card.replace(command, f"    transduce import {model_id}\n{command}", 1)
    return f"---\n{front}\n---\n\n{used.replace('path/to/this/folder', name)}"


def _fetch(address: str, file: Path) -> None:
    """Fetch a file; nothing is written if the hub does not have it."""
    try:
        with urlopen(address, timeout=_TIMEOUT) as answer, file.open("wb") as out:
            shutil.copyfileobj(answer, out)
            size = answer.headers["Content-Length"]
    except HTTPError as error:
        if error.code in _ABSENT:
            return
        raise
    if size is not None and file.stat().st_size != int(size):
        raise HTTPException(f"{file.name} broke off")
