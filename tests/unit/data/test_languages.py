"""Codes of languages in the names of files."""

from pathlib import Path

import pytest

from transduce.data.config import Languages
from transduce.data.languages import file_language


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("train.en", "en"),
        ("train.EN.gz", "en"),
        ("train.zh-CN", "zh-CN"),
        ("train.pt_BR.xz", "pt-BR"),
        ("corpus.deu", "de"),
        ("Tatoeba.v2023-04-12.deu", "de"),
        ("europarl-v7.de-en.en", "en"),
        ("news.2024.de.txt", "de"),
        ("dev.deu_Latn", "de"),
        ("dev.zho_Hant", "zh-Hant"),
        ("train.src", ""),
        ("train.tgt", ""),
        ("corpus.txt", ""),
        ("corpus.tsv", ""),
        ("corpus.de-en.txt", ""),
        ("my.v2.txt", ""),
        ("train", ""),
        ("en", ""),
    ],
)
def test_the_ending_of_a_name_tells_the_language(name: str, code: str) -> None:
    assert file_language(Path(name)) == code
    assert file_language(None, Path(name)) == code


def test_a_new_code_drops_the_name_of_the_former() -> None:
    languages = Languages(source="en", target="de", source_name="English", target_name="German")

    assert languages.with_codes(source=None, target=None) == languages
    assert languages.with_codes(source="en", target="nl") == Languages(
        source="en", target="nl", source_name="English"
    )
