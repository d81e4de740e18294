"""Argos Translate at work, as a program of its own: `python -m transduce.export.argos_runner JOB`.

Argos makes folders in its user's home when it is imported, so `export.proof` starts it apart, with
a home that is thrown away. JOB is a JSON file: the package, the languages, the sentences, and where
to write what became of them. Its splitters of sentences, which download models, are replaced by one
that takes each text for one sentence; the programs behind them are not even loaded.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType


class _Whole:
    """Splits nothing."""

    def __init__(self, package: object) -> None:
        """Take the place of a splitter that is made for a package."""

    def split_sentences(self, text: str) -> list[str]:
        return [text]


class _Empty(ModuleType):
    """Stands for a module of which only the names are used."""

    SBDetect = None

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.models = ModuleType("models")


def main(job: Path) -> None:
    """Install the package, translate, write a JSON list of texts."""
    asked = json.loads(job.read_text(encoding="utf-8"))
    for name in ("stanza", "spacy", "minisbd"):
        sys.modules[name] = _Empty(name)
    packages, translate = (
        import_module(f"argostranslate.{name}") for name in ("package", "translate")
    )
    vars(translate)["MiniSBDSentencizer"] = _Whole
    packages.install_from_path(asked["package"])
    argos = translate.get_translation_from_codes(asked["source"], asked["target"])
    said = [argos.translate(sentence) for sentence in asked["sentences"]]
    Path(asked["said"]).write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
