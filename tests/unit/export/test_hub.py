"""What the hub is told of a model's languages."""

import pytest

from transduce.bundle.bundle import Bundle
from transduce.bundle.card import model_card
from transduce.data.config import Languages
from transduce.data.languages import LanguagePair
from transduce.export import hub


@pytest.mark.parametrize(
    ("languages", "front"),
    [
        (Languages(source="en", target="nds"), 'language: ["en", "nds"]\n'),
        (
            Languages(source="zh_CN", target="zh-TW"),
            'language: ["zh"]\nlanguage_bcp47: ["zh-CN", "zh-TW"]\n',
        ),
        (Languages(source="en", target="ROMANCE"), 'language: ["en"]\n'),
        (Languages(), ""),
    ],
)
def test_only_languages_that_the_hub_knows_are_named(
    plain: Bundle, monkeypatch: pytest.MonkeyPatch, languages: Languages, front: str
):
    monkeypatch.setattr(plain, "languages", languages)

    card = hub._hub_card(plain, "owner/small", "# Small\n")

    assert card.endswith(f'\ntags: ["transduce"]\n{front}---\n\n# Small\n')


def test_the_languages_of_all_directions_are_named(plain: Bundle, monkeypatch: pytest.MonkeyPatch):
    pairs = (LanguagePair("en", "de"), LanguagePair("de", "en"), LanguagePair("en", "pt_BR"))
    monkeypatch.setattr(plain, "directions", pairs)

    card = hub._hub_card(plain, "owner/small", model_card(plain))

    assert 'language: ["en", "de", "pt"]\nlanguage_bcp47: ["pt-BR"]\n' in card
    imported = "    transduce import owner/small\n    transduce translate models/small --to de < "
    assert imported in card
