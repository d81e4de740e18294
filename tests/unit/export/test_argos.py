"""A bundle becomes one file that Argos Translate can install, or none."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.exports import CONFIG, bundle_of, model_of

from transduce.bundle.bundle import Bundle
from transduce.data.config import Languages
from transduce.data.pair_tokenizer import SOURCE, PairTokenizer
from transduce.export.argos import why_not, write_argos
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import NumpyTransformer


def test_the_package_is_one_folder_named_after_the_languages(plain: Bundle, tmp_path: Path):
    write_argos(plain, tmp_path / "mine.argosmodel")

    with zipfile.ZipFile(tmp_path / "mine.argosmodel") as package:
        names = sorted(package.namelist())
        metadata = json.loads(package.read("translate-en_de/metadata.json"))
        cuts = package.read("translate-en_de/sentencepiece.model")
    model = [f"translate-en_de/model/{name}" for name in ("config.json", "model.bin")]
    assert names == [
        "translate-en_de/metadata.json",
        *model,
        "translate-en_de/model/shared_vocabulary.json",
        "translate-en_de/sentencepiece.model",
    ]
    assert (metadata["from_code"], metadata["to_code"]) == ("en", "de")
    assert (metadata["from_name"], metadata["to_name"]) == ("English", "German")
    assert cuts == plain.tokenizer.to_bytes()


def test_a_bundle_from_disk_is_packed_without_its_model_in_torch(plain: Bundle, tmp_path: Path):
    plain.save(tmp_path / "model")
    bundle = Bundle.load(tmp_path / "model")

    write_argos(bundle, tmp_path / "ours.argosmodel")

    assert isinstance(bundle.weights, NumpyTransformer)
    write_argos(plain, tmp_path / "theirs.argosmodel")
    files = [tmp_path / f"{name}.argosmodel" for name in ("ours", "theirs")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_same_bundle_makes_the_same_bytes(plain: Bundle, tmp_path: Path):
    for name in ("one", "two"):
        write_argos(plain, tmp_path / f"{name}.argosmodel")

    single, two = ((tmp_path / f"{name}.argosmodel").read_bytes() for name in ("one", "two"))
    assert single == two


def test_a_quantized_package_is_smaller(plain: Bundle, tmp_path: Path):
    write_argos(plain, tmp_path / "full.argosmodel")
    write_argos(plain, tmp_path / "small.argosmodel", quantization="int8")

    sizes = [(tmp_path / f"{name}.argosmodel").stat().st_size for name in ("small", "full")]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[1]


def test_of_two_models_the_sources_cuts(foreign: Bundle, tmp_path: Path):
    write_argos(foreign, tmp_path / "mine.argosmodel")

    with zipfile.ZipFile(tmp_path / "mine.argosmodel") as package:
        cuts = package.read("translate-en_de/sentencepiece.model")
    assert isinstance(foreign.tokenizer, PairTokenizer)
    assert cuts == foreign.tokenizer.files()[SOURCE]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_language_without_a_code_is_refused_by_name(plain: Bundle, tmp_path: Path, side: str):
    for code in (side, "x y", "e"):
        nameless = replace(plain, languages=replace(plain.languages, **{side: code}))

        with pytest.raises(
            ValueError, match=rf"languages\.{side} is {code!r}: export with --{side}-lang"
        ):
            write_argos(nameless, tmp_path / "mine.argosmodel")
    assert list(tmp_path.iterdir()) == []


def test_a_code_with_a_script_is_one(plain: Bundle, tmp_path: Path):
    bundle = replace(plain, languages=Languages(source="sr-Latn", target="pt_BR"))

    write_argos(bundle, tmp_path / "mine.argosmodel")

    with zipfile.ZipFile(tmp_path / "mine.argosmodel") as package:
        assert "translate-sr-Latn_pt_BR/metadata.json" in package.namelist()


def test_only_an_earlier_export_is_replaced(plain: Bundle, tmp_path: Path):
    exported, text = tmp_path / "ours.argosmodel", tmp_path / "text.argosmodel"
    write_argos(plain, exported)
    write_argos(plain, exported)
    text.write_text("years of work")
    shutil.copy(exported, copied := tmp_path / "theirs.argosmodel")
    with zipfile.ZipFile(copied, "a") as package:
        package.writestr(zipfile.ZipInfo("translate-en_de/notes", (2020, 5, 17, 0, 0, 0)), "mine")

    for file in (text, copied):
        before = file.read_bytes()
        with pytest.raises(ValueError, match="is not a package that was exported here: name"):
            write_argos(plain, file)
        assert file.read_bytes() == before


def test_another_ending_is_refused(plain: Bundle, tmp_path: Path):
    with pytest.raises(ValueError, match=r"must end in \.argosmodel"):
        write_argos(plain, tmp_path / "mine.zip")


@pytest.mark.parametrize(
    ("config", "named"),
    [(replace(CONFIG, d_k=5), "d_k 5"), (replace(CONFIG, radius=3), r"model\.radius 3")],
)
def test_a_model_that_ctranslate2_lacks_is_refused(
    plain: Bundle, tmp_path: Path, config: ModelConfig, named: str
):
    bundle = replace(plain, model=model_of(config))

    with pytest.raises(ValueError, match=f"^Argos cannot express {named}"):
        write_argos(bundle, tmp_path / "mine.argosmodel")


def test_a_model_of_many_target_languages_is_refused(foreign: Bundle):
    old = foreign.tokenizer
    assert isinstance(old, PairTokenizer)
    names = [*list(old.table)[:-1], ">>deu<<", "<pad>"]
    source, target = old.files().values()
    table = {name: number for number, name in enumerate(names)}
    tokenizer = PairTokenizer.from_files(source=source, target=target, table=table)
    bundle = bundle_of(replace(CONFIG, vocab_size=len(names)), tokenizer)

    assert why_not(bundle).endswith(">>deu<<")
