"""Run Argos Translate as a program of its own: `python -m transduce.export.argos_runner JOB`.

Importing Argos creates folders in the user's home, so `export.proof` runs it in a process with a
temporary one. JOB is a JSON file: package, languages, sentences and the output file. Argos's
sentence splitters, which download models, are replaced by one that keeps each text whole; the
libraries behind them are not even imported.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType


class _NoSplitter:
    """A sentence splitter that does not split."""

    def __init__(self, package: object) -> None:
        """Argos creates one splitter per package."""

    def split_sentences(self, text: str) -> list[str]:
        return [text]


class _StubModule(ModuleType):
    """A module of which only the names are used."""

    SBDetect = None

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.models = ModuleType("models")


def main(job_file: Path) -> None:
    """Install the package, translate, and write a JSON list of translations."""
    job = json.loads(job_file.read_text(encoding="utf-8"))
    for name in ("stanza", "spacy", "minisbd"):
        sys.modules[name] = _StubModule(name)
    packages, translate = (
        import_module(f"argostranslate.{name}") for name in ("package", "translate")
    )
    vars(translate)["MiniSBDSentencizer"] = _NoSplitter
    packages.install_from_path(job["package"])
    argos = translate.get_translation_from_codes(job["source"], job["target"])
    translations = [argos.translate(sentence) for sentence in job["sentences"]]
    Path(job["output"]).write_text(json.dumps(translations), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
