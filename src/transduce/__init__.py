"""Train, inspect, evaluate and deploy your own encoder-decoder Transformer.

    from transduce import Translator

    translator = Translator.load("runs/tiny")
    print(translator.translate("A dog runs.")[0].text)

The names below are the public API. Each is imported on first use (PEP 562), so `import transduce`
does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from transduce.io.machine import TORCH_HINT, VERSION

if TYPE_CHECKING:
    from transduce.bundle.bundle import Bundle as Bundle
    from transduce.bundle.bundle import Provenance as Provenance
    from transduce.config import Recipe as Recipe
    from transduce.config import load_recipe as load_recipe
    from transduce.data.tokenizer import Tokenizer as Tokenizer
    from transduce.evaluation.metrics import Score as Score
    from transduce.inference.translation import Translation as Translation
    from transduce.inference.translator import Translator as Translator
    from transduce.model.config import ModelConfig as ModelConfig
    from transduce.model.transformer import Transformer as Transformer
    from transduce.pipeline.run import run_recipe as run_recipe
    from transduce.search.config import SearchConfig as SearchConfig

__version__ = VERSION

__all__ = [
    "Bundle",
    "ModelConfig",
    "Provenance",
    "Recipe",
    "Score",
    "SearchConfig",
    "Tokenizer",
    "Transformer",
    "Translation",
    "Translator",
    "__version__",
    "load_recipe",
    "run_recipe",
]


def __getattr__(name: str) -> object:
    module = {
        "Bundle": "bundle.bundle",
        "ModelConfig": "model.config",
        "Provenance": "bundle.bundle",
        "Recipe": "config",
        "Score": "evaluation.metrics",
        "SearchConfig": "search.config",
        "Tokenizer": "data.tokenizer",
        "Transformer": "model.transformer",
        "Translation": "inference.translation",
        "Translator": "inference.translator",
        "load_recipe": "config",
        "run_recipe": "pipeline.run",
    }.get(name)
    if module is None:
        raise AttributeError(f"module 'transduce' has no attribute {name!r}")
    try:
        return getattr(import_module(f"transduce.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ImportError(f"transduce.{name} needs PyTorch: {TORCH_HINT}") from None
        raise


def __dir__() -> list[str]:
    return sorted(__all__)
