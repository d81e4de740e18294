"""Fetch the files of a Marian model from the Hugging Face hub.

HF_ENDPOINT names a mirror, as in Hugging Face's own programs.
"""

import os
import re
import shutil
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from transduce.export.importer import FILES, PICKLE, WEIGHTS

_HUB = "https://huggingface.co"
_TIMEOUT = 30.0  # seconds without an answer
_ABSENT = (401, 403, 404)  # the hub's answers for models and files that it does not show


def is_hub_id(name: str) -> bool:
    """Return whether a name has the form of a model's on the hub.

    >>> is_hub_id("Helsinki-NLP/opus-mt-en-de"), is_hub_id("models/old/en-de")
    (True, False)
    """
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) is not None


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
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ValueError(
            f"{model_id} is no folder, and {hub} cannot be read ({reason}): where there is a "
            f"network run `hf download {model_id} --local-dir {folder.name}` (of the package "
            f"huggingface_hub), copy that folder here, and run `transduce import {folder.name}`"
        ) from None
    if not any(folder.iterdir()):
        raise ValueError(f"{model_id} is no folder, and {hub} has no public model of that name")


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
