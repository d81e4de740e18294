"""ModelRegistry: found by what clients call languages, refused in LibreTranslate's words."""

import asyncio
import sys
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from tests.conftest import Run, Transduce

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import Tokenizer
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import ModelRegistry, load_models
from transduce.serve.settings import ServerSettings

NAMES = {"en": "", "de": "Deutsch", "fr": "", "zh": ""}

Loaded = Callable[..., ModelRegistry]


@pytest.fixture
def loaded(tmp_path: Path, untrained: Transformer, tokenizer: Tokenizer) -> Generator[Loaded]:
    made: list[ModelRegistry] = []

    def load(*ways: tuple[str, str]) -> ModelRegistry:
        bundle = Bundle(
            model=untrained,
            tokenizer=tokenizer,
            languages=Languages(),
            search=SearchConfig(beam=1, extra=2),
            provenance=Provenance(),
        )
        places: list[Path] = []
        for source, target in ways:
            names = Languages(
                source=source,
                target=target,
                source_name=NAMES[source.lower()],
                target_name=NAMES[target.lower()],
            )
            places.append(tmp_path / f"{len(places)}-{source}-{target}")
            replace(bundle, languages=names).save(places[-1])
        made.append(load_models(places, ServerSettings(), engine="torch"))
        return made[-1]

    yield load
    for registry in made:
        registry.close()


def test_a_direction_is_found_by_its_codes_in_any_case(loaded: Loaded) -> None:
    registry = loaded(("en", "de"), ("de", "en"))

    assert registry.find("en", "de").name == "en-de"
    assert registry.find("DE", "En").name == "de-en"


def test_older_names_of_languages_are_known(loaded: Loaded) -> None:
    registry = loaded(("en", "zh"), ("de", "en"))

    assert registry.find("en", "zh-Hans").name == "en-zh"


@pytest.mark.parametrize(("source", "target"), [("zz", "de"), ("en", "zz"), ("auto", "zz")])
def test_a_language_that_is_not_loaded_is_not_supported(
    loaded: Loaded, source: str, target: str
) -> None:
    registry = loaded(("en", "de"))

    with pytest.raises(HTTPError, match=r"^zz is not supported$") as refused:
        registry.find(source, target)

    assert refused.value.status == 400


def test_a_direction_that_is_not_loaded_is_refused_by_both_names(loaded: Loaded) -> None:
    registry = loaded(("en", "de"))

    with pytest.raises(HTTPError) as refused:
        registry.find("de", "en")

    assert refused.value.message == (
        "English (en) is not available as a target language from Deutsch (de)"
    )


def test_sources_and_their_targets_are_each_there_once(loaded: Loaded) -> None:
    registry = loaded(("en", "de"), ("de", "en"), ("en", "fr"))

    assert [source.code for source in registry.sources()] == ["en", "de"]
    assert [target.code for target in registry.targets()] == ["de", "en", "fr"]
    assert [(item.code, item.name) for item in registry.targets_of("en")] == [
        ("de", "Deutsch"),
        ("fr", "French"),
    ]


def test_auto_needs_no_detector_where_there_is_one_source(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)
    registry = loaded(("en", "de"), ("en", "fr"))

    guess = asyncio.run(registry.detect_source("Ein Haus.", "fr"))

    assert guess.language == "en"
    assert registry.find(guess.language, "fr").name == "en-fr"


def test_auto_chooses_by_the_text_where_there_are_several(loaded: Loaded) -> None:
    pytest.importorskip("lingua")
    registry = loaded(("en", "fr"), ("de", "fr"))

    guess = asyncio.run(registry.detect_source("Der alte Mann liest ein Buch."))

    assert registry.find(guess.language, "fr").name == "de-fr"


def test_two_models_of_one_direction_are_refused_by_their_places(loaded: Loaded) -> None:
    with pytest.raises(ValueError, match=r"0-en-de and .*1-EN-de both translate EN into de"):
        loaded(("en", "de"), ("EN", "de"))


def test_a_source_longer_than_the_training_data_is_translated_in_parts(
    tmp_path: Path, untrained: Transformer, tokenizer: Tokenizer
) -> None:
    """16 kB without a sentence end took 8 seconds in one go; parts cost in proportion."""
    bundle = Bundle(
        model=untrained,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(max_source=40),
        provenance=Provenance(recipe="[data]\nmax_pieces = 7\n"),
    )
    bundle.save(tmp_path / "model")

    registry = load_models([tmp_path / "model"], ServerSettings(), engine="torch")
    registry.close()

    (translated,) = registry.directions[0].translator.translate(["a" * 30])
    assert registry.directions[0].translator.search.max_source == 7
    assert translated.parts > 1


def test_the_command_serves_every_direction_of_a_model(
    both_ways: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(app: Starlette, *_: object, on_ready: Callable[[], None], **options: object) -> int:
        on_ready()
        app.state.store.close()
        return 0

    monkeypatch.setattr("transduce.serve.server.run", run)

    result = transduce("serve", both_ways, "--port", 0, "--engine", "torch")

    assert result.code == 0, result.err
    assert "/: en-de (" in result.err
    assert ", de-en (" in result.err


def test_a_shortlist_restricts_the_only_model(tmp_path: Path, run: Run) -> None:
    shortlist = tmp_path / "vmap.txt"
    shortlist.write_text("\t</s> <unk> ▁ ▁0 ▁1 0 1\n")

    registry = load_models([run.folder], ServerSettings(), shortlist=shortlist)
    registry.close()

    translator = registry.directions[0].translator
    assert translator.engine_description.endswith(", shortlist")
    text = translator.translate("2 3 4 5", num_beams=1, retry_loops=False)[0].text
    assert set(text) <= set("01 ⁇")


def test_several_models_have_no_shortlist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a shortlist is of one model: serve one, or leave out"):
        load_models([tmp_path, tmp_path], ServerSettings(), shortlist=tmp_path / "vmap.txt")


@pytest.fixture
def unnamed(both_ways: Path, tmp_path: Path) -> Path:
    """An imported model of several targets, whose source nobody named."""
    bundle = Bundle.load(both_ways)
    bundle.languages = Languages()
    bundle.directions = (LanguagePair("source", "de"), LanguagePair("source", "en"))
    bundle.save(tmp_path / "unnamed")
    return tmp_path / "unnamed"


def test_languages_name_the_source_of_several_directions(unnamed: Path) -> None:
    """They had no effect: the source stayed "source"."""
    registry = load_models([unnamed], ServerSettings(), languages=["fr-en"], engine="torch")
    registry.close()

    assert [direction.name for direction in registry.directions] == ["fr-de", "fr-en"]
    assert registry.directions[0].bundle.languages == Languages(source="fr", target="en")


def test_languages_cannot_name_another_target_of_several_directions(unnamed: Path) -> None:
    with pytest.raises(ValueError, match=r"--languages fr-it: .* into de, en: name one of these"):
        load_models([unnamed], ServerSettings(), languages=["fr-it"], engine="torch")
