"""The real Argos Translate installs our package and translates as CTranslate2 at its settings.

Its splitter of sentences, which would be downloaded, is left out; see `export.argos_there`.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.exports import CONFIG, SENTENCES, bundle_of, one_vocabulary, two_vocabularies

from transduce.data.tokenizer import Tokenizer
from transduce.export.argos import write_argos
from transduce.export.proof import prove_argos


@pytest.mark.skipif(
    find_spec("argostranslate") is None,
    reason="argostranslate is not installed: pip install -e .[test-interop]",
)
@pytest.mark.parametrize(
    ("tokenizer", "sentences"),
    [
        (one_vocabulary(), SENTENCES),
        (two_vocabularies(), SENTENCES),
        # An UNK that this untrained model writes is replaced by Argos with what it attends to.
        (one_vocabulary(kind="char"), SENTENCES[:2]),
    ],
)
def test_argos_translates_what_we_wrote(
    tokenizer: Tokenizer, sentences: Sequence[str], tmp_path: Path
):
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    write_argos(bundle, tmp_path / "mine.argosmodel")

    proof = prove_argos(bundle, tmp_path / "mine.argosmodel", sentences)

    assert proof.holds, proof
    assert proof.sentences == len(sentences)
