"""A model that Marian itself trained becomes a bundle that translates the same."""

import json
from pathlib import Path

import pytest
from tests.exports import ENGLISH, GERMAN, SENTENCES, one_vocabulary, two_vocabularies

from transduce.data.pair_tokenizer import PairTokenizer
from transduce.export.importer import import_marian
from transduce.export.marian_npz import prove_marian_npz

pymarian = pytest.importorskip("pymarian", reason="pip install -e .[test-interop]")
pytest.importorskip("yaml", reason="pip install -e .[test-interop]")


def train(folder: Path, vocabulary: str, sources: list[str], targets: list[str]) -> None:
    """Train a few updates, and write decoder.yml as OPUS-MT does."""
    (folder / "source").write_text("\n".join(sources) + "\n")
    (folder / "target").write_text("\n".join(targets) + "\n")
    pymarian.Trainer(
        type="transformer",
        model=str(folder / "model.npz"),
        train_sets=[str(folder / "source"), str(folder / "target")],
        vocabs=[str(folder / vocabulary)] * 2,
        after="30u",
        learn_rate=0.03,
        dim_emb=12,
        enc_depth=2,
        dec_depth=1,
        transformer_heads=3,
        transformer_dim_ffn=17,
        transformer_ffn_activation="swish",
        transformer_postprocess="dan",
        tied_embeddings_all=True,
        cpu_threads=1,
        mini_batch=3,
        workspace=100,
        seed=3,
        quiet=True,
    ).train()
    (folder / "decoder.yml").write_text(
        "relative-paths: true\nmodels:\n  - model.npz\n"
        f"vocabs:\n  - {vocabulary}\n  - {vocabulary}\nbeam-size: 6\nnormalize: 1\n"
    )


@pytest.mark.parametrize("form", ["vocab.yml", "vocab.spm"])
def test_both_translate_alike(form: str, tmp_path: Path):
    if form == "vocab.yml":  # as OPUS-MT: text is segmented outside of Marian
        tokenizer = two_vocabularies()
        for name, data in tokenizer.files().items():
            (tmp_path / name).write_bytes(data)
        names = tokenizer.pieces(range(tokenizer.pad))
        lines = (f"{json.dumps(name)}: {number}\n" for number, name in enumerate(names))
        (tmp_path / form).write_text("".join(lines))
        sides = (tokenizer, ENGLISH), (tokenizer.target, GERMAN)
        sources, targets = (
            [" ".join(side.pieces(side.encode(line))) for line in lines] for side, lines in sides
        )
    else:
        (tmp_path / form).write_bytes(one_vocabulary().to_bytes())
        sources, targets = list(ENGLISH), list(GERMAN)
    train(tmp_path, form, sources, targets)

    bundle = import_marian(tmp_path, source="en", target="de")

    proof = prove_marian_npz(bundle, tmp_path, (*ENGLISH, *SENTENCES[:2]))
    assert proof.holds, proof
    assert proof.gap is not None
    assert proof.gap < 1e-4
    assert isinstance(bundle.tokenizer, PairTokenizer) == (form == "vocab.yml")
    assert (bundle.search.beam, bundle.search.alpha) == (6, 1.0)
    assert bundle.weights.config.positions == "learned"
