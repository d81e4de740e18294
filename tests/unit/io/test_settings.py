"""A value that a setting does not have is refused also where settings are made in Python."""

import subprocess
import sys

# In a process of its own: in this one, types of arguments are checked before.
PROGRAM = """
from transduce.data.config import CorpusConfig, TokenizerConfig
from transduce.model.config import ModelConfig
from transduce.train.config import TrainConfig

for kind, setting in (
    (TrainConfig, {"optimizer": "sgd"}),
    (TrainConfig, {"precision": "half"}),
    (ModelConfig, {"activation": "tanh"}),
    (CorpusConfig, {"duplicates": "maybe"}),
    (TokenizerConfig, {"kind": "syllable"}),
):
    try:
        kind(**setting)
    except ValueError as error:
        print(error)
"""


def test_a_choice_that_is_none_is_refused():
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    ).stdout

    assert shown.splitlines() == [
        """train.optimizer must be "adam" or "muon", not 'sgd'""",
        """train.precision must be "auto", "float32" or "bfloat16", not 'half'""",
        """model.activation must be "relu", "gelu" or "silu", not 'tanh'""",
        """data.duplicates must be "keep" or "drop", not 'maybe'""",
        """tokenizer.kind must be "bpe", "unigram", "char" or "word", not 'syllable'""",
    ]
