"""Directions: found by what clients call languages, refused in LibreTranslate's words."""

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.corpus_config import Languages
from transduce.data.tokenizer import Tokenizer
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.serve.directions import Directions, load_directions
from transduce.serve.refusal import Refusal
from transduce.serve.settings import Settings

NAMES = {"en": "English", "de": "German", "fr": "", "zh": "Chinese"}

Loaded = Callable[..., Directions]


@pytest.fixture
def loaded(tmp_path: Path, untrained: Transformer, tokenizer: Tokenizer) -> Generator[Loaded]:
    made: list[Directions] = []

    def load(*ways: tuple[str, str]) -> Directions:
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
        made.append(load_directions(places, Settings(), engine="torch"))
        return made[-1]

    yield load
    for directions in made:
        directions.close()


def test_a_direction_is_found_by_its_codes_in_any_case(loaded: Loaded) -> None:
    directions = loaded(("en", "de"), ("de", "en"))

    assert directions.find("en", "de").name == "en-de"
    assert directions.find("DE", "En").name == "de-en"


def test_older_names_of_languages_are_known(loaded: Loaded) -> None:
    directions = loaded(("en", "zh"), ("de", "en"))

    assert directions.find("en", "zh-Hans").name == "en-zh"


@pytest.mark.parametrize(("source", "target"), [("zz", "de"), ("en", "zz"), ("auto", "zz")])
def test_a_language_that_is_not_loaded_is_not_supported(
    loaded: Loaded, source: str, target: str
) -> None:
    directions = loaded(("en", "de"))

    with pytest.raises(Refusal, match=r"^zz is not supported$") as refused:
        directions.find(source, target)

    assert refused.value.status == 400


def test_a_direction_that_is_not_loaded_is_refused_by_both_names(loaded: Loaded) -> None:
    directions = loaded(("en", "de"))

    with pytest.raises(Refusal) as refused:
        directions.find("de", "en")

    assert refused.value.message == (
        "English (en) is not available as a target language from German (de)"
    )


def test_sources_and_their_targets_are_each_there_once(loaded: Loaded) -> None:
    directions = loaded(("en", "de"), ("en", "fr"), ("de", "en"))

    assert [one.code for one in directions.sources()] == ["en", "de"]
    assert [tuple(one) for one in directions.targets_of("en")] == [("de", "German"), ("fr", "fr")]


def test_auto_needs_no_detector_where_there_is_one_source(loaded: Loaded) -> None:
    directions = loaded(("en", "de"), ("en", "fr"))

    chosen = directions.choose("Ein Haus.", "auto", "fr")

    assert chosen.direction.name == "en-fr"
    assert chosen.detected is not None
    assert chosen.detected.language == "en"


def test_auto_chooses_by_the_text_where_there_are_several(loaded: Loaded) -> None:
    pytest.importorskip("lingua")
    directions = loaded(("en", "fr"), ("de", "fr"))

    chosen = directions.choose("Der alte Mann liest ein Buch.", "auto", "fr")

    assert chosen.direction.name == "de-fr"


def test_two_models_of_one_direction_are_refused_by_their_places(loaded: Loaded) -> None:
    with pytest.raises(ValueError, match=r"0-en-de and .*1-EN-de both translate EN into de"):
        loaded(("en", "de"), ("EN", "de"))
