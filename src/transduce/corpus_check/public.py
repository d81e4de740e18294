"""Public corpora by name: test sets through sacreBLEU, training data through mtdata."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from sacrebleu.dataset import DATASETS

from transduce.io.atomic_folder import atomic_folder, check_new_folder


def fetch(name: str, languages: tuple[str, str], folder: Path) -> None:
    """Fetch a public corpus into a folder; its manifest.json has checksums.

    Args:
        name: of a test set of sacreBLEU, such as "wmt22", or of a data set of mtdata, such as
            "Statmt-europarl-10-deu-eng", which becomes TSV in the order of its name.
        languages: codes of source and target of a test set.
        folder: new or empty.

    Raises:
        ValueError: for an unknown name, one without these languages, and without a network.
    """
    check_new_folder(folder)
    stem = name.replace("/", "-")
    if name not in DATASETS and not shutil.which("mtdata"):
        raise ValueError(
            f"{name!r} is no test set of sacreBLEU (sacrebleu --list), and its data sets need "
            "mtdata: pip install mtdata"
        )
    with atomic_folder(folder) as fresh:
        if name in DATASETS:
            for code, file in zip(languages, _test_set(name, "-".join(languages)), strict=True):
                shutil.copyfile(file, fresh / f"{stem}.{code}")
            return
        with (fresh / f"{stem}.tsv").open("wb") as stream:
            completed = subprocess.run(
                ["mtdata", "echo", name], stdout=stream, stderr=subprocess.PIPE, check=False
            )
            if completed.returncode or not stream.tell():
                reason = completed.stderr.decode(errors="replace").strip().rpartition("\n")[2]
                raise ValueError(f"mtdata has not fetched {name}, is there a network? ({reason})")


def _test_set(name: str, pair: str) -> tuple[str, str]:
    """Paths of source and first reference; sacreBLEU checks the MD5 of what it downloads."""
    data: Any = DATASETS[name]
    if pair not in data.langpairs:
        raise ValueError(f"{name} has no {pair}, but {', '.join(sorted(data.langpairs))}")
    try:
        return data.get_source_file(pair), data.get_reference_files(pair)[0]
    except SystemExit:  # how sacreBLEU ends on a wrong checksum, after a message
        raise ValueError(f"{name} was not fetched: the download is damaged") from None
    except OSError as error:
        raise ValueError(f"{name} was not fetched, is there a network? ({error})") from None
