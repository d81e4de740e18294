"""Languages of a model: from options, names of files or text, and corrected afterwards."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.conftest import SMALL, Run, Transduce, refuses
from tests.exports import CONFIG, ENGLISH, GERMAN, bundle_of
from tests.faults.damaging import tiny_bundle
from tests.sentences import sentences

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.corpus import Pair
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import CARD, check_folder, sha256
from transduce.serve.app import make_app
from transduce.serve.model_registry import load_models
from transduce.serve.settings import ServerSettings

LINE = "languages guessed from the text: source en, target de; --source-lang and --target-lang"
UNKNOWN = "WARNING: the language of source and target is unknown, but clients"


def write_tsv(file: Path, pairs: list[Pair]) -> str:
    file.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    return f"data.train={file}"


@pytest.fixture
def model(run: Run, tmp_path: Path) -> Path:
    """A copy of a model that was made without languages."""
    return Path(shutil.copytree(run.folder / "model", tmp_path / "model"))


def ask(model: Path, *, source: str, target: str, **options: object) -> tuple[list[str], int]:
    """The languages that a server lists, and the status of a request for a translation."""
    registry = load_models([model], ServerSettings(), engine="torch", **options)  # type: ignore[arg-type]
    app = make_app(registry, ServerSettings())

    async def go() -> tuple[list[str], int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            listed = [entry["code"] for entry in (await client.get("/languages")).json()]
            request = {"q": "1 2 3", "source": source, "target": target}
            return listed, (await client.post("/translate", json=request)).status_code

    try:
        return asyncio.run(go())
    finally:
        registry.close()
        app.state.store.close()


def test_a_tsv_without_names_gets_guessed_languages(transduce: Transduce, tmp_path: Path) -> None:
    corpus = write_tsv(tmp_path / "corpus.tsv", sentences(433))
    out = tmp_path / "run"

    checked = transduce("check", "--set", corpus, "--set", "tokenizer.vocab_size=97")
    result = transduce(
        *("prepare", "--set", corpus, *SMALL, "--set", "tokenizer.vocab_size=97", "--out", out)
    )

    assert checked.err.startswith(LINE)
    assert result.code == 0, result.err
    assert result.err.count(LINE) == 1
    assert "unknown" not in checked.out + result.err
    languages = load_recipe(out / "recipe.toml").languages
    assert (languages.source, languages.target) == ("en", "de")


def test_options_win_over_names_and_text(transduce: Transduce, tmp_path: Path) -> None:
    pairs = sentences(60)
    (tmp_path / "a.en").write_text("".join(f"{pair.source}\n" for pair in pairs))
    (tmp_path / "b").write_text("".join(f"{pair.target}\n" for pair in pairs))
    files = ("--source", tmp_path / "a.en", "--target", tmp_path / "b")
    small = (*SMALL, "--set", "tokenizer.vocab_size=97")

    named = transduce("prepare", *files, *small, "--source-lang", "gsw", "--out", tmp_path / "run")

    assert named.code == 0, named.err
    assert "languages guessed from the text: target de;" in named.err
    assert load_recipe(tmp_path / "run" / "recipe.toml").languages.source == "gsw"
    assert load_recipe(tmp_path / "run" / "recipe.toml").languages.target == "de"
    refuses(transduce("check", *files, "--source-lang", ""), "languages.source must be a code")


def test_text_that_tells_nothing_gets_a_warning(run: Run, transduce: Transduce) -> None:
    files = ("--source", run.corpus / "train.src", "--target", run.corpus / "train.rev")
    small = ("--set", "tokenizer.vocab_size=15")

    checked = transduce("check", *files, *small)
    named = transduce("check", *files, *small, "--source-lang", "a", "--target-lang", "b")
    listed = json.loads(transduce("check", *files, *small, "--json").out)["report"]

    assert UNKNOWN in run.process.stderr.decode()
    assert "--source-lang CODE --target-lang CODE" in run.process.stderr.decode()
    assert UNKNOWN in checked.out
    assert listed["language_warning"].startswith(UNKNOWN)
    assert "unknown" not in named.out


def test_a_begun_run_keeps_its_languages(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of an earlier version have none, though the text would tell."""
    folder, corpus = tmp_path / "run", write_tsv(tmp_path / "corpus.tsv", sentences(433))
    begin = ("train", "tiny", "--set", corpus, *SMALL, "--set", "tokenizer.vocab_size=97")
    begin += ("--set", "train.updates=2", "--set", "train.warmup=1", "--out", folder)
    with monkeypatch.context() as earlier:
        earlier.setattr("transduce.corpus_check.language.guess_languages", lambda _: ("", ""))
        result = transduce(*begin, "--set", "train.validate_every=2")
    assert result.code == 0, result.err

    resumed = transduce(*begin, "--set", "train.validate_every=2", "--resume")

    assert resumed.code == 0, resumed.err
    assert "guessed" not in resumed.err
    other = transduce(*begin, "--set", "train.validate_every=2", "--resume", "--source-lang", "fr")
    assert "languages.source differs from that of the run" in other.err


def test_relabel_makes_a_server_answer(model: Path, transduce: Transduce) -> None:
    assert ask(model, source="en", target="de") == (["source", "target"], 400)
    weights = sha256(model / "model.safetensors")

    result = transduce("relabel", model, "--source-lang", "en", "--target-lang", "de")

    assert (result.code, result.err) == (0, "")
    assert result.out == f"{model} translates en to de\n"
    assert ask(model, source="en", target="de") == (["en", "de"], 200)
    assert sha256(model / "model.safetensors") == weights
    check_folder(model, expected="a model bundle")
    assert "(`en`)" in (model / CARD).read_text()


def test_relabel_keeps_what_it_is_not_given(model: Path, transduce: Transduce) -> None:
    (model / CARD).write_text("by hand\n")
    transduce("relabel", model, "--source-lang", "en", "--target-lang", "de")

    result = transduce("relabel", model, "--target-lang", "nl")

    assert result.out == f"{model} translates en to nl\n"
    assert (model / CARD).read_text() == "by hand\n"
    assert "was edited and stays" in result.err
    refuses(transduce("relabel", model), "--source-lang CODE")
    refuses(transduce("relabel", model, "--source-lang", " "), "languages.source must be a code")
    refuses(transduce("relabel", model.parent / "none", "--source-lang", "en"), "does not exist")
    (model / CARD).write_bytes(b"caf\xe9\n")
    refused = transduce("relabel", model, "--target-lang", "fr")
    refuses(refused, f"{model / CARD}, line 1: not UTF-8")
    assert transduce("translate", model, stdin=b"1 2\n").code == 0


def test_relabel_renames_the_source_of_several_directions(
    model: Path, transduce: Transduce
) -> None:
    bundle = Bundle.load(model)
    pairs = (("source", "de"), ("source", "fr"), ("de", "source"))
    bundle.directions = tuple(LanguagePair(*pair) for pair in pairs)
    bundle.save(model)

    result = transduce("relabel", model, "--source-lang", "en")

    assert result.code == 0, result.err
    assert [str(pair) for pair in Bundle.load(model).directions] == ["en-de", "en-fr", "de-source"]
    refuses(transduce("relabel", model, "--target-lang", "nl"), "leave out --target-lang")
    refuses(transduce("relabel", model, "--source-lang", "de"), "the source cannot be 'de' in the")


def test_relabel_leaves_an_unfinished_run_alone(tmp_path: Path, transduce: Transduce) -> None:
    tiny_bundle().save(tmp_path / "best")

    refuses(transduce("relabel", tmp_path, "--source-lang", "en"), "unfinished")


def test_calibrate_leaves_an_unfinished_run_alone(tmp_path: Path, transduce: Transduce) -> None:
    tiny_bundle().save(tmp_path / "best")
    (tmp_path / "text").write_text("a dog\n" * 120)
    pair = ("--source", tmp_path / "text", "--target", tmp_path / "text")

    refuses(transduce("calibrate", tmp_path, *pair), f"{tmp_path} is unfinished")
    unconfident = transduce("translate", tmp_path, "a dog", "--confidence")
    refuses(unconfident, "has no confidence", "its training, which is unfinished, calibrates it")


@pytest.fixture
def directed(tmp_path: Path) -> Path:
    """An untrained model of two directions from a source without a name."""
    tokenizer = Tokenizer.train(
        (*ENGLISH, *GERMAN), TokenizerConfig(vocab_size=81), tags=["<2de>", "<2fr>"]
    )
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    bundle.languages = Languages(target="de")
    bundle.directions = (LanguagePair("source", "de"), LanguagePair("source", "fr"))
    bundle.save(tmp_path / "model")
    return tmp_path / "model"


def test_an_export_corrects_the_source_of_several_directions(
    directed: Path, tmp_path: Path, transduce: Transduce
) -> None:
    export = ("export", directed, "--to", "huggingface", "--out", tmp_path / "marian")

    refuses(transduce(*export, "--target-lang", "nl"), "leave out --target-lang")
    assert not (tmp_path / "marian").exists()
    transduce(*export, "--source-lang", "en")
    result = transduce("import", tmp_path / "marian", "--out", tmp_path / "back")

    assert result.code == 0, result.err
    assert [str(pair) for pair in Bundle.load(tmp_path / "back").directions] == ["en-de", "en-fr"]


def test_serve_takes_the_languages_of_a_model_without(model: Path, transduce: Transduce) -> None:
    assert ask(model, source="pt", target="de", languages=["pt-de"]) == (["pt", "de"], 200)
    assert ask(model, source="pt-BR", target="en", languages=["pt-BR-en"]) == (["pt-BR", "en"], 200)
    port = ("--port", "0")
    refuses(transduce("serve", model, *port, "--languages", "german"), "SOURCE-TARGET", "german")
    transduce("relabel", model, "--source-lang", "en", "--target-lang", "de")
    refuses(transduce("serve", model, *port, "--languages", "en-de"), "`transduce relabel`")


def test_serve_warns_of_a_model_without_languages(
    model: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transduce.serve.server.run", lambda *_, **options: options["on_ready"]() or 0
    )
    monkeypatch.delenv("LT_LANGUAGES", raising=False)
    serve = ("serve", model, "--port", "0", "--engine", "torch")

    unnamed = transduce(*serve).err
    monkeypatch.setenv("LT_LANGUAGES", "en-de")
    named = transduce(*serve).err

    assert f"WARNING: {model} has no languages, and is served as source-target: add " in unnamed
    assert "WARNING" not in named
    assert "en-de (engine: torch)" in named
