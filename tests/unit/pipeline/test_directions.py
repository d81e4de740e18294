"""Several directions in one model: tags, sampling, scores by direction, and what is refused."""

import json
import pickle
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from tests.conftest import Transduce
from tests.unit.inference.engines.conftest import PLAIN_SHAPE, lively

from transduce.bundle.bundle import Bundle, Provenance
from transduce.cli.corpus_options import corpus_settings
from transduce.cli.entry import main
from transduce.config import Recipe, load_recipe, to_toml
from transduce.data.config import BatchConfig, CorpusConfig, Languages, TokenizerConfig
from transduce.data.languages import LanguagePair
from transduce.data.loader import Loader
from transduce.data.sampler import Mixture, Sampler, SamplerState
from transduce.data.tokenizer import SYNTHETIC_TAGS, Tokenizer, target_tag
from transduce.export.argos import why_not as why_not_argos
from transduce.export.marian import write_huggingface
from transduce.export.marian_npz import write_marian_npz
from transduce.inference.translator import Translator
from transduce.pipeline import fit_time, synthetic_pairs
from transduce.pipeline.prepare import prepare
from transduce.pipeline.prepared import Prepared
from transduce.pipeline.run import run_recipe
from transduce.pipeline.survey import survey_corpus
from transduce.pipeline.training_pairs import TrainingPairs
from transduce.search.config import SearchConfig
from transduce.serve.model_registry import load_models
from transduce.serve.settings import ServerSettings
from transduce.train.events import Event
from transduce.web.tokenizer import tokenizer_data

DIGITS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ZIFFERN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]


def write(folder: Path, name: str, sides: dict[str, list[str]]) -> None:
    for code, lines in sides.items():
        (folder / f"{name}.{code}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers in English, German and, as a third language, reversed English."""
    folder, rng = tmp_path_factory.mktemp("corpus"), Random(1)
    for name, count in (("train", 300), ("small", 60), ("held", 7)):
        drawn = [[rng.randrange(10) for _ in range(rng.randrange(3, 9))] for _ in range(count)]
        sides = {
            "en": [" ".join(DIGITS[digit] for digit in line) for line in drawn],
            "de": [" ".join(ZIFFERN[digit] for digit in line) for line in drawn],
            "xx": [" ".join(DIGITS[digit][::-1] for digit in line) for line in drawn],
        }
        write(folder, name, sides)
    return folder


def recipe(folder: Path, *settings: str) -> Recipe:
    files = {"en-de": "train", "de-en": "small", "en-xx": "small", "de-xx": ""}
    tables: list[str] = []
    for name, train in files.items():
        source, target = name.split("-")
        held = f'["held.{source}", "held.{target}"]'
        names = f'train=["{train}.{source}", "{train}.{target}"], validation={held}'
        tables.append(
            f'{{source="{source}", target="{target}", {names if train else f"test={held}"}}}'
        )
    return load_recipe(
        "tiny",
        [
            f"data.directions=[{', '.join(tables)}]",
            f"data.folder={json.dumps(str(folder))}",
            *(f"model.{name}={value}" for name, value in SHAPE.items()),
            *("tokenizer.vocab_size=120", "batch.tokens=200", *settings),
        ],
    )


SHAPE = {
    **{"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16},
    **{"heads": 2, "d_k": 8, "d_v": 8},
}


@pytest.fixture(scope="module")
def prepared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Prepared, list[str]]:
    events: list[Event] = []
    out = tmp_path_factory.mktemp("run")
    done = prepare(recipe(folder, "data.temperature=5"), out, on_event=events.append)
    return done, [str(event) for event in events]


def test_each_source_begins_with_the_tag_of_its_target(prepared: tuple[Prepared, list[str]]):
    run, result = prepared
    firsts = Counter(
        run.tokenizer.pieces([int(run.store.source(index)[0])])[0]
        for index in range(len(run.store))
    )

    assert firsts == {"<2de>": 300, "<2en>": 60, "<2xx>": 60}
    assert run.store.pair(0).source.startswith("<2de> ")
    text = run.tokenizer.decode(run.store.source(0).tolist())
    assert f"<2de> {text}" == run.store.pair(0).source
    assert [pair.source[:5] for pair in run.validation[::7]] == ["<2de>", "<2en>", "<2xx>"]
    assert [pair.source[:5] for pair in run.test] == ["<2xx>"] * 7
    assert [(str(part), part.pairs) for part in run.directions] == [
        ("en-de", 300),
        ("de-en", 60),
        ("en-xx", 60),
        ("de-xx", 0),
    ]
    assert any("zero-shot directions, which nothing trains: de-xx" in line for line in result)


def test_temperature_levels_the_directions(prepared: tuple[Prepared, list[str]]):
    run, _ = prepared

    mixture = run.mixture(CorpusConfig(temperature=5.0))

    assert run.mixture(CorpusConfig()) is None
    assert mixture is not None
    shares = [size**0.2 for size in (300, 60, 60)]
    expected = [420 * share / sum(shares) for share in shares]
    drawn = mixture.draw(np.random.default_rng(1))
    np.testing.assert_allclose(np.bincount(mixture.parts[drawn]), expected, atol=1)
    assert mixture.tokens(run.store.lengths) == pytest.approx(
        int(run.store.lengths[drawn, 1].sum()) + len(drawn), rel=0.05
    )


FURTHER = (
    'data.also=[{train=["bt.tsv"], source="de", target="en", weight=3.0}, '
    '{train=["small.en", "small.xx"], source="en", target="xx", weight=0.5}]'
)


@pytest.fixture(scope="module")
def further(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The directions and two corpora: back-translated pairs of de-en, and those of en-xx again."""
    (folder / "bt.tsv").write_text("<bt> eins zwei acht\tone two eight\n" * 7, "utf-8")
    out = tmp_path_factory.mktemp("further")
    return prepare(recipe(folder, "data.duplicates=keep", FURTHER), out, on_event=str)


def test_a_further_corpus_has_the_tag_of_its_direction_before_its_own(further: Prepared):
    ids = [further.store.source(index).tolist() for index in range(len(further.store))]
    firsts = Counter(tuple(further.tokenizer.pieces(source[:2])) for source in ids)

    assert further.also_lines == (421, 428)
    assert [part.pairs for part in further.directions] == [300, 60, 60, 0]
    assert firsts["<2en>", "<bt>"] == 7
    assert sum(count for pieces, count in firsts.items() if pieces[0] == "<2en>") == 67
    assert sum(count for pieces, count in firsts.items() if pieces[0] == "<2xx>") == 120
    tags = {*further.tokenizer.all_tags.values()}
    assert all(tags.isdisjoint(source[2:]) for source in ids)
    assert further.store.pair(420).source.startswith("<2en> <bt> eins")


def test_variations_and_sampled_subwords_keep_both_tags(further: Prepared):
    tags = [further.tokenizer.all_tags[name] for name in ("<2en>", "<bt>")]
    loader = Loader(
        further.store,
        sampler=Sampler(further.store.lengths, config=BatchConfig(tokens=9000), seed=1),
        tokenizer=further.tokenizer,
        augment=load_recipe("tiny", ["augment.upper_case=1.0"]).augment,
    )
    (update,) = islice(loader.updates(SamplerState()), 1)
    rows = [row for part in update.batches for row in part.source.tolist() if row[:2] == tags]

    assert len(rows) == 7
    assert all(further.tokenizer.UNK in row for row in rows), "upper case has no pieces here"
    ids = further.store.source(420).tolist()
    assert ids[:2] == tags == further.tokenizer.sample_subwords(ids, alpha=0.5, rng=Random(1))[:2]


def test_weights_are_passes_whatever_the_temperature(further: Prepared, folder: Path):
    mixture = further.mixture(recipe(folder, FURTHER, "data.temperature=5").data)
    assert mixture is not None

    drawn = np.bincount(mixture.parts[mixture.draw(np.random.default_rng(1))])

    shares = [size**0.2 for size in (300, 60, 60)]
    assert drawn[:3] == pytest.approx([420 * share / sum(shares) for share in shares], abs=1)
    assert drawn[3:].tolist() == [21, 30]


def test_the_vocabulary_reads_further_corpora_as_often_as_training(folder: Path):
    weighted = recipe(folder, "data.duplicates=keep", FURTHER)
    survey = survey_corpus(weighted, TrainingPairs(weighted), lambda line: None)

    lines = Counter(line > 420 for line, _ in survey.vocabulary_sample())
    texts = [pair.source for line, pair in survey.vocabulary_sample() if 420 < line < 428]

    assert lines[False] == 420
    assert lines[True] == pytest.approx(3 * 7 + 30, abs=12)
    assert texts == ["eins zwei acht"] * 21
    assert [part.lines.stop for part in survey.parts()] == [301, 361, 421]


def test_text_held_out_of_a_direction_is_in_no_further_corpus(folder: Path, tmp_path: Path):
    def table(name: str, pair: str) -> str:
        source, target = pair.split("-")
        files = f'train=["{name}.{source}", "{name}.{target}"]'
        return f'{{source="{source}", target="{target}", {files}}}'

    own = (table("train", "en-de"), table("small", "de-en"), table("small", "en-xx"))
    further = (table("train", "de-en"), table("train", "en-xx"))
    settings = [f"data.directions=[{', '.join(own)}]", f"data.also=[{', '.join(further)}]"]
    settings += [f"data.folder={folder}", "tokenizer.vocab_size=120", "data.duplicates=keep"]

    run = prepare(load_recipe("tiny", settings), tmp_path, on_event=str)

    held = {side for pair in run.validation for side in (pair.source[6:], pair.target)}
    first = int(np.searchsorted(run.store.lines, run.also_lines[0]))
    pairs = [run.store.pair(index) for index in range(first, len(run.store))]
    assert len(run.validation) == 21
    assert held.isdisjoint(side for pair in pairs for side in (pair.source[6:], pair.target))
    assert len(pairs) > 500


def test_text_held_out_of_a_direction_is_trained_on_in_none(tmp_path: Path):
    sides = {
        "en": [f"{DIGITS[i % 10]} {DIGITS[i // 10]}" for i in range(100) for _ in "abc"],
        "de": [f"{ZIFFERN[i % 10]} {ZIFFERN[i // 10]} {x}" for i in range(100) for x in "abc"],
    }
    write(tmp_path, "train", sides)
    tables = [
        f'{{source="{source}", target="{target}", train=["train.{source}", "train.{target}"]}}'
        for source, target in (("en", "de"), ("de", "en"))
    ]
    settings = [f"data.directions=[{', '.join(tables)}]", f"data.folder={tmp_path}"]

    run = prepare(
        load_recipe("tiny", [*settings, "tokenizer.vocab_size=90", "data.held_out=20"]),
        tmp_path / "run",
        on_event=str,
    )

    held = {side for pair in run.validation for side in (pair.source[6:], pair.target)}
    pairs = [run.store.pair(index) for index in range(len(run.store))]
    assert held.isdisjoint(side for pair in pairs for side in (pair.source[6:], pair.target))
    assert sum(part.pairs for part in run.directions) == len(pairs) > 400


def test_a_mixture_uses_all_pairs_before_any_again_and_resumes():
    lengths = np.full((30, 2), 4)
    mixture = Mixture(np.repeat([0, 1], [20, 10]).astype(np.int32), (0.5, 2.5))
    sampler = Sampler(lengths, config=BatchConfig(tokens=40), seed=3, mixture=mixture)
    updates = sampler.epoch_updates(0)

    plans = list(islice(sampler.updates(SamplerState()), 2 * updates))
    used = Counter(int(i) for plan in plans[:updates] for part in plan.micro_batches for i in part)
    resumed = list(islice(sampler.updates(plans[2].state_after), 3))

    assert sum(used[i] for i in range(20)) == 10
    assert {used[i] for i in range(20)} == {0, 1}
    assert {used[i] for i in range(20, 30)} == {2, 3}
    for again, plan in zip(resumed, plans[3:6], strict=True):
        assert [part.tolist() for part in again.micro_batches] == [
            part.tolist() for part in plan.micro_batches
        ]


def test_text_never_makes_a_tag():
    tokenizer = Tokenizer.train([*DIGITS, "<2de>"], TokenizerConfig(vocab_size=60), tags=["<2de>"])

    (tag,) = tokenizer.tags.values()
    assert tokenizer.encode("<2de> one")[0] == tag
    assert tag not in tokenizer.encode("one <2de> one")
    assert tokenizer.find_tag("deu") == "<2de>"
    assert tokenizer.find_tag("fr") == ""


def test_a_run_scores_every_direction_and_names_zero_shot_ones(folder: Path, tmp_path: Path):
    events: list[Event] = []
    short = recipe(
        folder,
        *("train.updates=4", "train.validate_every=4", "train.warmup=2", "data.temperature=2"),
        *("train.average_checkpoints=1", "augment.upper_case=0.5", "batch.subword_sampling=0.1"),
    )

    with torch.random.fork_rng(devices=[]):
        result = run_recipe(short, tmp_path / "run", on_event=events.append)

    assert list(result.directions) == [
        *("validation en-de", "validation de-en", "validation en-xx"),
        "test de-xx (zero-shot)",
    ]
    assert [part.pairs for part in result.directions.values()] == [7, 7, 7, 7]
    assert any("BLEU by direction: en-de" in str(event) for event in events)
    bundle = Bundle.load(tmp_path / "run")
    assert [str(pair) for pair in bundle.directions] == ["en-de", "de-en", "en-xx"]
    assert any("test de-xx (zero-shot) BLEU" in name for name in bundle.provenance.scores)
    assert load_recipe(tmp_path / "run" / "recipe.toml") == short


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model that translates English and German into each other."""
    pairs = (LanguagePair("en", "de"), LanguagePair("de", "en"))
    tags = [*(target_tag(pair.target) for pair in pairs), *SYNTHETIC_TAGS]
    tokenizer = Tokenizer.train(DIGITS + ZIFFERN, TokenizerConfig(vocab_size=90), tags=tags)
    config = {**PLAIN_SHAPE_SETTINGS, "vocab_size": tokenizer.vocab_size}
    bundle = Bundle(
        model=lively(type(PLAIN_SHAPE)(**config)),
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(beam=2),
        provenance=Provenance(),
        directions=pairs,
    )
    path = tmp_path_factory.mktemp("models") / "both"
    bundle.save(path)
    return path


PLAIN_SHAPE_SETTINGS = {
    name: getattr(PLAIN_SHAPE, name) for name in PLAIN_SHAPE.__dataclass_fields__
}


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_the_target_chooses_the_tag_in_both_engines(model: Path, engine: str):
    translator = Translator.load(model, engine=engine)

    (german,) = translator.translate("one two", target="de")
    (english,) = translator.translate("one two", target="en")
    (explicit,) = translator.translate("<2en> one two")

    assert german.ids != english.ids
    assert (english.ids, english.score) == (explicit.ids, pytest.approx(explicit.score))
    assert german.source == "one two"
    words = translator.to("de").alignment(german).split()
    assert {int(link.partition("-")[0]) for link in words} <= {0, 1}


def test_a_translator_of_a_target_shares_the_engine_scores_and_pickles(model: Path):
    translator = Translator.load(model, engine="torch")
    german, english = (translator.to(code) for code in ("de", "en"))

    first, second = (way.score(["one two"], ["zwei"])[0] for way in (german, english))

    assert first.log_prob != second.log_prob
    assert english.model is translator.model
    again = pickle.loads(pickle.dumps(english))
    assert again.translate("one two")[0].ids == english.translate("one two")[0].ids


def test_a_missing_or_unknown_target_is_refused_by_name(model: Path):
    translator = Translator.load(model, engine="torch")

    with pytest.raises(ValueError, match=r"into de, en: put the tag of a target .*, such as <2"):
        translator.translate("one")
    assert translator.to("de").tagged("<bt> one") == "<2de><bt> one"
    with pytest.raises(ValueError, match="not translate into 'fr', only into de, en"):
        translator.translate("one", target="fr")
    with pytest.raises(ValueError, match="not translate from 'fr', only from de, en"):
        translator.to("de", source="fr")


def test_augment_takes_text_of_any_source_of_a_model_of_several(
    tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    tokenizer = Tokenizer.train(
        DIGITS + ZIFFERN, TokenizerConfig(vocab_size=90), tags=[target_tag("en"), *SYNTHETIC_TAGS]
    )
    config = replace(PLAIN_SHAPE, vocab_size=tokenizer.vocab_size)
    Bundle(
        model=lively(config),
        tokenizer=tokenizer,
        languages=Languages(source="de", target="en"),
        search=SearchConfig(beam=2),
        provenance=Provenance(),
        directions=tuple(LanguagePair(source, "en") for source in ("de", "fr")),
    ).save(tmp_path / "model")
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(
        synthetic_pairs, "augment", lambda *_, languages, **__: calls.append(languages)
    )

    result = transduce("augment", tmp_path / "model", "-i", tmp_path / "more", "-o", tmp_path / "o")

    assert result.code == 0, result.err
    assert calls == [("", "en")]


def test_the_server_lists_every_direction_of_one_model(model: Path):
    registry = load_models([model], ServerSettings())
    try:
        ways = {way.name: way for way in registry.directions}
        (german,) = ways["en-de"].translator.translate("one two")
        (english,) = ways["de-en"].translator.translate("one two")

        assert [*ways] == ["en-de", "de-en"]
        assert [language.code for language in registry.sources()] == ["en", "de"]
        assert registry.find("de", "en") is ways["de-en"]
        assert german.ids != english.ids
        assert ways["en-de"].bundle is ways["de-en"].bundle
    finally:
        registry.close()


def test_exports_carry_the_tags_or_refuse_by_name(model: Path, tmp_path: Path):
    bundle = Bundle.load(model)

    write_huggingface(bundle, tmp_path / "hf")

    table = json.loads((tmp_path / "hf" / "vocab.json").read_text("utf-8"))
    assert table[">>de<<"] == bundle.tokenizer.tags["<2de>"]
    assert "<2de>" in why_not_argos(bundle)
    with pytest.raises(ValueError, match=r"data\.directions"):
        tokenizer_data(bundle.tokenizer)
    with pytest.raises(ValueError, match=r"data\.directions"):
        write_marian_npz(bundle, tmp_path / "npz")


BAD = {
    "no training files": ['data.directions=[{source="en", target="de"}]'],
    "one language on both sides": [
        'data.directions=[{source="en", target="en", train=["a", "b"]}]'
    ],
    "has en-de twice": [
        'data.directions=[{source="en", target="de", train=["a", "b"]}, '
        '{source="en", target="de", train=["a", "b"]}]'
    ],
    r"unknown setting data\.directions\.targt": ["data.directions=[{targt=1}]"],
    r"leave out data\.train": [
        'data.directions=[{source="en", target="de", train=["a", "b"]}]',
        'data.train=["a", "b"]',
    ],
    "needs one vocabulary with tags": [
        'data.directions=[{source="en", target="de", train=["a", "b"]}]',
        'tokenizer.protect=["url"]',
    ],
}


@pytest.mark.parametrize("message", BAD)
def test_contradictory_directions_are_refused_by_name(message: str):
    with pytest.raises(ValueError, match=message):
        load_recipe("tiny", BAD[message])


def test_recipes_with_directions_are_written_and_read(folder: Path, tmp_path: Path):
    original = recipe(folder)
    (tmp_path / "recipe.toml").write_text(to_toml(original), "utf-8")

    assert load_recipe(tmp_path / "recipe.toml") == original
    assert original.languages.codes == ("en", "de")


@pytest.mark.parametrize("several", [True, False])
def test_languages_swapped_between_files_are_refused(tmp_path: Path, several: bool):
    german = "Der Hund und die Katze sind nicht in dem Haus, aber ich bin"
    english = "The dog and the cat are not in the house, but I am here with you"
    for name in ("text", "held"):
        write(tmp_path, name, {"en": [english] * 60, "de": [german] * 60})
    names, held = (f'["{tmp_path}/{name}.de", "{tmp_path}/{name}.en"]' for name in ("text", "held"))
    files = f"train={names}, validation={held}"
    settings = ["tokenizer.vocab_size=60", 'data.duplicates="keep"']
    if several:
        settings.append(f'data.directions=[{{source="en", target="de", {files}}}]')
    else:
        settings += [f"data.train={names}", f"data.validation={held}"]
        settings += ["languages.source=en", "languages.target=de"]
    swapped = load_recipe("tiny", settings)

    with pytest.raises(ValueError, match="languages of en-de are swapped: exchange the two files"):
        prepare(swapped, tmp_path / "run", on_event=lambda event: None)

    assert not (tmp_path / "run" / "prepared").exists()


def test_directions_of_the_command_line_are_settings():
    settings = corpus_settings(None, None, directions=["en-de=a.en,a.de", "de-pt-BR=b.tsv"])

    directions = load_recipe("tiny", settings).data.directions
    assert [(str(part.pair), part.train) for part in directions] == [
        ("en-de", ("a.en", "a.de")),
        ("de-pt-BR", ("b.tsv",)),
    ]
    with pytest.raises(ValueError, match="--direction takes en-de=SOURCE,TARGET, not 'de'"):
        corpus_settings(None, None, directions=["de"])
    further = corpus_settings(
        None, None, directions=["en-de=a", "de-en=b"], also=["de-en=c:d.tsv:.5", "en-de=e,f"]
    )
    assert [(str(p.pair), p.train, p.weight) for p in load_recipe("tiny", further).data.also] == [
        ("de-en", ("c:d.tsv",), 0.5),
        ("en-de", ("e", "f"), 1.0),
    ]
    with pytest.raises(ValueError, match="--direction names the training files"):
        corpus_settings(Path("a"), Path("b"), directions=["en-de=a.en,a.de"])


def test_translate_refuses_an_unknown_target_with_one_line(
    model: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["translate", str(model), "--to", "fr", "one"]) == 2
    assert "does not translate into 'fr'" in capsys.readouterr().err.strip().splitlines()[-1]


EN_DE = "--direction", "en-de=train.en,train.de"
REFUSED = {
    "no.en does not exist": ("--direction", "en-de=no.en,no.de"),
    "--direction takes en-de=SOURCE,TARGET, not 'en-de='": ("--direction", "en-de="),
    "empty.de and empty.en: no line to read": (*EN_DE, "--direction", "de-en=empty.de,empty.en"),
    "one of en-de, as in --also en-de=FILE": (*EN_DE, "--also", "fr-de=train.en,train.de"),
    "the languages of en-de are swapped": ("--source", "swapped.en", "--target", "swapped.de"),
    "train.time 1s is too short": ("--source", "train.en", "--target", "train.de", "--time", "1s"),
}


@pytest.mark.parametrize("named", REFUSED)
def test_the_command_line_refuses_with_one_line(
    folder: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch, named: str
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(fit_time, "_FEWEST_UPDATES", 1_000_000)  # however fast the machine is
    write(folder, "empty", {"en": [], "de": []})
    write(folder, "short", {"en": ["one"], "de": ["eins"]})
    german = ["der Hund und die Katze sind nicht da", "aber ich bin in dem Haus mit einem Hund"]
    english = ["the dog and the cat are not here", "but I am in the house with a dog"]
    write(folder, "swapped", {"en": german * 30, "de": english * 30})
    settings = (
        "tokenizer.vocab_size=60",
        "batch.tokens=100",
        *(f"model.{name}={SHAPE[name]}" for name in SHAPE),
    )
    kept = ("data.duplicates=keep", 'data.validation=["short.en", "short.de"]')
    settings += kept * (REFUSED[named][0] == "--source")

    words = (word for setting in settings for word in ("--set", setting))
    result = transduce("train", "tiny", *REFUSED[named], *words, "--out", "refused")

    assert result.code == 2
    assert result.out == ""
    assert result.err.splitlines()[-1].startswith("transduce: ")
    assert named in result.err.splitlines()[-1]
    assert not (folder / "refused" / "checkpoints").exists()
