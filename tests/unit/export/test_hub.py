"""What the hub is told of a model's languages."""

import pytest

from transduce.bundle.bundle import Bundle
from transduce.data.config import Languages
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
