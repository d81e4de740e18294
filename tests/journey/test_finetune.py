"""A model learns on from where it stands, with pieces for what it could not spell."""

import contextlib
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import Run, Transduce

from transduce import Bundle, load_recipe
from transduce.cli import main
from transduce.data.corpus import Pair
from transduce.evaluation.perplexity import evaluate_perplexity
from transduce.evaluation.scoring import translate_pairs
from transduce.io.atomic_folder import sha256
from transduce.pipeline.prepared import open_prepared

WORDS = (
    *("--source", "more.src", "--target", "more.rev", "--set", "train.updates=6"),
    *(
        "--set",
        "train.validate_every=3",
        "--set",
        "train.warmup=2",
        "--set",
        "train.intra_op_threads=1",
    ),
    *("--set", "batch.tokens=300", "--set", "data.held_out=19"),
)
EXTENDED = (*WORDS, "--set", "tokenizer.extend=9")
STILL = (*WORDS, "--set", "train.learning_rate=1e-12")
"""At a rate that moves nothing."""


@pytest.fixture(scope="module")
def place(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with digits in reverse as before, among them a new digit and a new word."""
    folder = tmp_path_factory.mktemp("more")
    chance = random.Random(13)
    words = ["0", "1", "2", "3", "4", "7", "żółw"]
    lines = [chance.choices(words, k=chance.randint(2, 5)) for _ in range(211)]
    (folder / "more.src").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    (folder / "more.rev").write_text("".join(f"{' '.join(line[::-1])}\n" for line in lines))
    shutil.copytree(run.folder / "model", folder / "origin")
    for out, options in (("tuned", EXTENDED), ("still", STILL)):
        with contextlib.chdir(folder):
            assert main(["train", "--from", "origin", *options, "--out", out]) == 0
    shutil.rmtree(folder / "origin")  # nothing below needs it
    return folder


@pytest.fixture
def begun(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the extended run as it was before its first checkpoint, from where it was made."""
    copied = tmp_path / "tuned"
    shutil.copytree(place / "tuned", copied)
    unbegin(copied)
    monkeypatch.chdir(place)
    return copied


def unbegin(folder: Path) -> None:
    for name in ("model", "best", "checkpoints"):
        shutil.rmtree(folder / name)
    (folder / "metrics.jsonl").unlink()


def test_before_the_first_update_it_is_the_model_it_starts_from(run: Run, place: Path):
    prepared, start = open_prepared(place / "still"), Bundle.load(run.folder)
    pairs = [Pair(text, text[::-1]) for text in ("1 2 3", "4 0 1 2", "0 0", "3 1 4 1 2")]

    assert prepared.start
    own = Bundle.load(prepared.start)

    weights = own.model.state_dict()
    assert all(torch.equal(weights[n], w) for n, w in start.model.state_dict().items())
    assert evaluate_perplexity(own.model, prepared.tokenizer, pairs=pairs) == evaluate_perplexity(
        start.model, start.tokenizer, pairs=pairs
    )
    assert translate_pairs(
        own.model, prepared.tokenizer, pairs=pairs, search=own.search
    ) == translate_pairs(start.model, start.tokenizer, pairs=pairs, search=start.search)


def test_training_begins_with_those_weights(run: Run, place: Path):
    prepared, start = open_prepared(place / "still"), Bundle.load(run.folder)

    lines = (place / "still" / "metrics.jsonl").read_text().split("\n")[:-1]

    losses = [fact["validation_loss"] for fact in map(json.loads, lines) if "bleu" in fact]
    loss = evaluate_perplexity(start.model, start.tokenizer, pairs=prepared.validation).per_token
    assert losses == pytest.approx([loss, loss], abs=1e-4)


def test_the_model_says_what_it_started_from(run: Run, place: Path):
    checksum = sha256(run.folder / "model" / "model.safetensors")

    assert Bundle.load(place / "tuned").provenance.started_from == {"origin": checksum}
    card = (place / "tuned" / "model" / "README.md").read_text()
    assert f"- the weights of `origin`, {checksum}" in card
    assert Bundle.load(run.folder).provenance.started_from == {}


def test_what_could_not_be_spelled_now_can(run: Run, place: Path):
    old, new = Bundle.load(run.folder).tokenizer, Bundle.load(place / "tuned").tokenizer

    assert old.UNK in old.encode("7 żółw")
    assert old.UNK not in new.encode("7 żółw")
    assert new.vocab_size == old.vocab_size + 9
    assert new.pieces(range(old.pad)) == old.pieces(range(old.pad))


def test_learning_lowers_the_loss_of_the_new_text(place: Path):
    prepared, tuned = open_prepared(place / "tuned"), Bundle.load(place / "tuned")
    assert prepared.start
    before = Bundle.load(prepared.start)

    losses = [
        evaluate_perplexity(bundle.model, prepared.tokenizer, pairs=prepared.validation).per_token
        for bundle in (before, tuned)
    ]

    assert losses[1] < losses[0]


def test_the_recipe_of_the_run_says_all_that_was_trained(run: Run, place: Path):
    recipe, shape = load_recipe(place / "tuned/recipe.toml"), Bundle.load(run.folder).model.config

    assert (recipe.name, recipe.tokenizer.extend) == ("finetune", 9)
    assert recipe.model == replace(shape, vocab_size=shape.vocab_size + 9)


def test_it_goes_on_without_the_model_it_started_from(
    place: Path, begun: Path, transduce: Transduce
):
    result = transduce("train", "--resume", "--out", begun)

    assert result.code == 0, result.err
    weights = "model/model.safetensors"
    assert sha256(begun / weights) == sha256(place / "tuned" / weights)


def test_the_same_words_with_resume_go_on(run: Run, begun: Path, transduce: Transduce):
    result = transduce("train", "--from", run.folder, *EXTENDED, "--out", begun, "--resume")

    assert result.code == 0, result.err


def test_a_run_keeps_to_the_model_it_started_from(
    run: Run, begun: Path, transduce: Transduce, tmp_path: Path
):
    other = Bundle.load(run.folder)
    with torch.no_grad():
        other.model.embedding.weight *= 2
    other.save(tmp_path / "other")

    result = transduce("train", "--from", tmp_path / "other", *EXTENDED, "--out", begun, "--resume")

    assert (result.code, result.err.count("\n")) == (2, 2)
    assert f"the run in {begun} started from origin: leave --from out" in result.err


def test_what_was_prepared_for_a_model_is_prepared_anew_for_none(
    place: Path, transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Even where recipe and files are the same."""
    shutil.copytree(place / "still", tmp_path / "still")
    unbegin(tmp_path / "still")
    monkeypatch.chdir(place)

    recipe = tmp_path / "still" / "recipe.toml"
    result = transduce("prepare", recipe, "--out", tmp_path / "still")

    assert result.code == 0, result.err
    assert "is prepared already" not in result.err
    assert open_prepared(tmp_path / "still").start is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "model.d_model=64"), "model.d_model cannot be 64: it is 32 in"),
        (("--set", "tokenizer.kind=unigram"), "tokenizer.kind cannot be unigram: it is bpe in"),
    ],
)
def test_a_contradiction_is_one_line(
    run: Run, transduce: Transduce, tmp_path: Path, words: tuple[str, ...], message: str
):
    result = transduce(
        "train", "--from", run.folder, *EXTENDED, *words, "--out", tmp_path / "tuned"
    )

    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err
    assert not (tmp_path / "tuned").exists()


def test_a_model_that_is_not_there_is_one_line(transduce: Transduce, tmp_path: Path):
    result = transduce(
        "train", "--from", tmp_path / "nowhere", *EXTENDED, "--out", tmp_path / "tuned"
    )

    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"{tmp_path / 'nowhere'} is not a model bundle" in result.err


def test_more_pieces_want_a_model_to_add_them_to(
    place: Path, transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)

    result = transduce("train", *EXTENDED, "--out", tmp_path / "tuned")

    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "tokenizer.extend adds to a model's vocabulary: name one, --from MODEL" in result.err
