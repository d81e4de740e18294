"""Several corpora in one run: weights, tags of synthetic pairs, held-out text, resuming."""

from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from tests.conftest import Run, Transduce

from transduce.bundle.bundle import Bundle
from transduce.cli.corpus_options import corpus_settings
from transduce.config import Recipe, load_recipe, to_toml
from transduce.data.config import BatchConfig, TokenizerConfig
from transduce.data.loader import Loader
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.sampler import Sampler, SamplerState
from transduce.data.tokenizer import SYNTHETIC_TAGS, Tokenizer
from transduce.export.marian_npz import write_marian_npz
from transduce.inference.translator import Translator
from transduce.pipeline import run as module
from transduce.pipeline.fit_time import Durations
from transduce.pipeline.prepare import prepare
from transduce.pipeline.prepared import Prepared
from transduce.pipeline.run import run_recipe
from transduce.train.events import Event, LogMessage
from transduce.train.time_plan import TimePlan
from transduce.web.tokenizer import tokenizer_data

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ZAHLEN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 real pairs in two files, 60 back-translated and 40 others in TSV files."""
    folder, rng = tmp_path_factory.mktemp("also"), Random(1)

    def pairs(count: int) -> list[tuple[str, str]]:
        drawn = [rng.choices(range(10), k=rng.randrange(4, 9)) for _ in range(count)]
        return [tuple(" ".join(w[i] for i in line) for w in (WORDS, ZAHLEN)) for line in drawn]  # pyright: ignore[reportReturnType]

    real = pairs(200)
    for number, name in enumerate(("train.en", "train.de")):
        lines = (f"{pair[number]}\n" for pair in real)
        (folder / name).write_text("".join(lines), "utf-8")
    synthetic = [(f"<bt> {source}", target) for source, target in pairs(60)]
    leaks = [(f"<bt> {source} one", target) for source, target in real]
    for name, rows in (("bt.tsv", synthetic), ("more.tsv", pairs(40)), ("leaks.tsv", leaks)):
        (folder / name).write_text("".join(f"{s}\t{t}\n" for s, t in rows), "utf-8")
    return folder


SMALL = (
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=16", "model.d_ff=16"),
    *("model.heads=2", "model.d_k=8", "model.d_v=8", "tokenizer.vocab_size=70"),
    *("batch.tokens=200", "train.updates=8", "train.validate_every=4", "train.warmup=2"),
    *("train.average_checkpoints=1", "data.duplicates=keep"),
)


def recipe(
    folder: Path, *more: str, also: tuple[str, ...] = ("bt.tsv:0.5", "more.tsv:2")
) -> Recipe:
    settings = corpus_settings(Path("train.en"), Path("train.de"), also=list(also))
    return load_recipe("tiny", [*settings, f"data.folder={folder}", *SMALL, *more])


@pytest.fixture(scope="module")
def prepared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Prepared, list[str]]:
    events: list[Event] = []
    done = prepare(recipe(folder), tmp_path_factory.mktemp("run"), on_event=events.append)
    return done, [event.text for event in events if isinstance(event, LogMessage)]


def test_the_tag_is_one_piece_that_real_pairs_lack(prepared: tuple[Prepared, list[str]]):
    run, result = prepared
    tag = run.tokenizer.all_tags["<bt>"]
    firsts = Counter(int(run.store.source(i)[0]) == tag for i in range(len(run.store)))

    assert firsts == {True: 60, False: 190 + 40}
    assert not run.tokenizer.tags
    assert not any("<" in name for name in run.tokenizer.pieces(range(4, run.tokenizer.pad)))
    assert "bt.tsv: 60 of the pairs, weight 0.5" in result
    assert run.also_lines == (201, 261)
    assert len(run.validation) == 10
    assert not any(pair.source.startswith("<bt>") for pair in run.validation)


def test_an_epoch_goes_through_each_corpus_as_often_as_its_weight(
    folder: Path, prepared: tuple[Prepared, list[str]]
):
    run, _ = prepared
    config = recipe(folder)
    mixture = run.mixture(config.data)
    assert mixture is not None

    drawn = np.bincount(mixture.parts[mixture.draw(np.random.default_rng(1))])

    assert drawn.tolist() == [190, 30, 80]
    tokens = int(run.store.lengths[:, 1].mean() * 300)
    assert run.epoch_tokens(config) == pytest.approx(tokens + 300, rel=0.1)
    assert run.mixture(recipe(folder, also=("bt.tsv", "more.tsv:1")).data) is None


def test_the_time_of_an_update_is_measured_by_the_tokens_that_an_epoch_draws(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    planned: list[float] = []

    def fit(recipe: Recipe, durations: Durations, **rest: object) -> tuple[Recipe, TimePlan]:
        planned.append(durations.update)
        return recipe, TimePlan(updates=8)

    monkeypatch.setattr(module, "fit_time", fit)
    monkeypatch.setattr(module, "measure_evaluation", lambda *args, **rest: (1.0, 1.0))
    monkeypatch.setattr(module._Run, "measure_speed", lambda *args, **rest: 100.0)  # pyright: ignore[reportPrivateUsage]

    module.dry_run(recipe(folder, "train.time=1h", also=("more.tsv:20",)), on_event=print)

    assert planned == [pytest.approx(2.0, rel=0.1)], "200 tokens at 100 tokens/s"


def test_a_dry_run_fits_a_long_decay(folder: Path):
    decay = ("train.schedule=wsd", "train.decay=0.9", "train.updates=100")

    text = module.dry_run(recipe(folder, *decay), on_event=print)

    assert text.startswith("training would take ")


def test_pairs_of_held_out_text_are_not_trained_on(folder: Path, tmp_path: Path):
    events: list[Event] = []
    leaking = recipe(folder, also=("leaks.tsv",))

    run = prepare(leaking, tmp_path / "run", on_event=events.append)

    targets = {run.store.pair(index).target for index in range(len(run.store))}
    assert targets.isdisjoint(pair.target for pair in run.validation)
    assert len(run.store) == 2 * (200 - len(run.validation))
    assert any("held out for validation: 10, such as line 2" in str(event) for event in events)


def test_a_resumed_run_ends_with_the_same_weights(folder: Path, tmp_path: Path):
    varied = ("augment.upper_case=0.5", "batch.subword_sampling=0.1")
    short = recipe(folder, *varied)

    def stop(event: Event) -> None:
        if "validation at update 4" in str(event) or getattr(event, "update", 0) == 4:
            raise KeyboardInterrupt

    with torch.random.fork_rng(devices=[]):
        run_recipe(short, tmp_path / "straight", on_event=lambda event: None)
        with pytest.raises(KeyboardInterrupt):
            run_recipe(short, tmp_path / "stopped", on_event=stop)
        run_recipe(short, tmp_path / "stopped", resume=True, on_event=lambda event: None)

    weights = [
        (tmp_path / name / "model" / "model.safetensors").read_bytes()
        for name in ("straight", "stopped")
    ]
    assert weights[0] == weights[1]
    assert load_recipe(tmp_path / "stopped" / "recipe.toml") == short
    bundle = Bundle.load(tmp_path / "straight")
    assert {"bt.tsv", "more.tsv"} <= bundle.provenance.data_sha256.keys()
    assert bundle.provenance.recipe == to_toml(short)
    # The tag is nothing that a user of the model has to know.
    write_marian_npz(bundle, tmp_path / "npz")
    assert tokenizer_data(bundle.tokenizer)
    translator = Translator.from_bundle(bundle, engine="torch")
    assert translator.translate("one two")[0].parts == 1
    with pytest.raises(ValueError, match=r"data\.also differs"):
        run_recipe(
            recipe(folder, *varied, also=("bt.tsv:0.6", "more.tsv:2")),
            tmp_path / "stopped",
            resume=True,
            on_event=lambda event: None,
        )


def test_variations_and_sampled_subwords_keep_the_tag(prepared: tuple[Prepared, list[str]]):
    run, _ = prepared
    batch = BatchConfig(tokens=4000, subword_sampling=0.3)
    loader = Loader(
        run.store,
        sampler=Sampler(run.store.lengths, config=batch, seed=1),
        tokenizer=run.tokenizer,
        sampling=0.3,
        augment=load_recipe("tiny", ["augment.upper_case=1.0"]).augment,
    )
    (update,) = islice(loader.updates(SamplerState()), 1)
    tag = run.tokenizer.all_tags["<bt>"]

    assert sum(int((part.source[:, 0] == tag).sum()) for part in update.batches) == 60
    assert all(int((part.source[:, 1:] == tag).sum()) == 0 for part in update.batches)


@pytest.mark.parametrize("more", [{}, {"protect": ("number",), "vocab_size": 90}, {"kind": "char"}])
def test_every_kind_of_vocabulary_has_the_tags(more: dict[str, object]):
    config = TokenizerConfig(**{"vocab_size": 70, **more})  # pyright: ignore[reportArgumentType]
    tokenizer = Tokenizer.train([*WORDS, *ZAHLEN], config, tags=SYNTHETIC_TAGS)

    assert [*tokenizer.all_tags] == ["<bt>", "<ft>"]
    tagged, bare = tokenizer.encode("<ft> one two"), tokenizer.encode("one two")
    assert tagged == [tokenizer.all_tags["<ft>"], *bare]
    assert tokenizer.encode("one <ft>")[0] not in tokenizer.all_tags.values()


def test_separate_vocabularies_have_the_tags_on_the_source_side():
    config = TokenizerConfig(vocab_size=60, shared=False)
    tokenizer = PairTokenizer.train_pair(WORDS, ZAHLEN, config, tags=SYNTHETIC_TAGS)
    again = PairTokenizer.from_bytes(tokenizer.to_bytes())

    tagged = again.encode("<bt> one two")
    assert tagged == [again.all_tags["<bt>"], *again.encode("one two")]
    assert again.decode(tagged[1:]) == "one two"
    assert not again.target.all_tags
    assert not again.tags


def test_command_line_and_recipe_say_the_same():
    settings = corpus_settings(
        Path("a.en"), Path("a.de"), also=["b.en,b.de:2", "C:/c.tsv", "d.tsv:.5"]
    )
    read = load_recipe("tiny", settings)

    assert [(part.train, part.weight) for part in read.data.also] == [
        (("b.en", "b.de"), 2.0),
        (("C:/c.tsv",), 1.0),
        (("d.tsv",), 0.5),
    ]
    assert read.data.files == ("a.en", "a.de", "b.en", "b.de", "C:/c.tsv", "d.tsv")


BAD = {
    r"train must be two files \(source, target\) or one of pairs, not 0": [
        "data.also=[{weight=1}]"
    ],
    "weight of a must be above 0": ['data.also=[{train=["a"], weight=0}]'],
    r"unknown setting data\.also\.wieght": ['data.also=[{train=["a"], wieght=1}]'],
    r"besides data\.train": ['data.also=[{train=["a"]}]'],
    "b names the direction en-de, but there are no": [
        'data.train=["a"]',
        'data.also=[{train=["b"], source="en", target="de"}]',
    ],
    "name the direction of b, one of en-de, as in --also en-de=FILE": [
        'data.directions=[{source="en", target="de", train=["a"]}]',
        'data.also=[{train=["b"]}]',
    ],
}


@pytest.mark.parametrize("message", BAD)
def test_wrong_settings_are_refused_by_name(message: str):
    with pytest.raises(ValueError, match=message):
        load_recipe("tiny", BAD[message])


@pytest.mark.parametrize(
    ("also", "named"),
    [
        ("no.tsv", "no.tsv does not exist"),
        ("bad.tsv", "bad.tsv, line 2: 1 columns"),
        ("empty.tsv", "data.also: no pair of empty.tsv is left"),
        ("bad.tsv:1.2.3", "bad.tsv:1.2.3 does not exist"),
    ],
)
def test_wrong_files_are_refused_in_one_line(
    run: Run,
    transduce: Transduce,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    also: str,
    named: str,
):
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text("a\tb\nc\n")
    Path("empty.tsv").write_text("\tb\n")
    files = ("--source", run.corpus / "train.src", "--target", run.corpus / "train.rev")
    small = ("--set", "tokenizer.vocab_size=15", "--set", "data.held_out=19")

    result = transduce("train", "tiny", *files, *small, "--also", also, "--out", "out")

    assert result.code == 2
    assert named in result.err.strip().splitlines()[-1]
    assert not Path("out").exists()
