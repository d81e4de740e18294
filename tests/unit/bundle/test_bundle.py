"""A bundle comes back as it went, and nothing that is not one gets in."""

import hashlib
import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from transduce.bundle import bundle as bundle_module
from transduce.bundle.averaging import average_weights
from transduce.bundle.bundle import Bundle, Provenance
from transduce.bundle.calibration import Calibration, Confidence
from transduce.bundle.card import model_card
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import Tokenizer
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

FILES = ("config.json", "model.safetensors", "tokenizer.model")


@pytest.fixture
def bundle(untrained: Transformer, tokenizer: Tokenizer) -> Bundle:
    return Bundle(
        model=untrained,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de", source_name="English", target_name="German"),
        search=SearchConfig(beam=7, alpha=0.3),
        provenance=replace(
            Provenance.current(),
            commit="0123abc",
            data_sha256={"train.en": "00ff"},
            recipe='name = "small"\n',
            scores={"BLEU nrefs:1|case:mixed": 12.345},
        ),
    )


@pytest.fixture
def saved(bundle: Bundle, tmp_path: Path) -> Path:
    bundle.save(tmp_path / "model")
    return tmp_path / "model"


def describe(folder: Path) -> None:
    """Write the manifest anew, so that a test reaches what lies behind the checksums."""
    facts = {
        name: {
            "bytes": (folder / name).stat().st_size,
            "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(),
        }
        for name in FILES
    }
    (folder / "manifest.json").write_text(json.dumps(facts))


def edit_config(folder: Path, change: Callable[[dict], object]) -> None:
    held = json.loads((folder / "config.json").read_text())
    change(held)
    (folder / "config.json").write_text(json.dumps(held))
    describe(folder)


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = {name: tensor.clone() for name, tensor in load_file(folder / FILES[1]).items()}
    change(weights)
    save_file(weights, folder / FILES[1])
    describe(folder)


def refusal(folder: Path) -> str:
    with pytest.raises(ValueError, match=r"\S") as caught:
        Bundle.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_loaded_bundle_is_the_saved_one(bundle: Bundle, saved: Path):
    loaded = Bundle.load(saved)

    assert loaded.model.config == bundle.model.config
    assert loaded.tokenizer.to_bytes() == bundle.tokenizer.to_bytes()
    assert (loaded.languages, loaded.search) == (bundle.languages, bundle.search)
    assert loaded.provenance == bundle.provenance
    weights = loaded.model.state_dict()
    assert weights.keys() == bundle.model.state_dict().keys()
    for name, tensor in bundle.model.state_dict().items():
        assert torch.equal(weights[name], tensor)


def test_a_loaded_model_is_ready_to_translate(bundle: Bundle, saved: Path):
    loaded = Bundle.load(saved).model

    assert not loaded.training
    source = torch.tensor([[5, 7, 11, 0]])
    assert torch.equal(loaded(source, None, source), bundle.model(source, None, source))


def test_loading_costs_no_run_its_seed(saved: Path):
    before = torch.get_rng_state()

    Bundle.load(saved)

    assert torch.equal(torch.get_rng_state(), before)


def test_a_bundle_is_five_files(saved: Path):
    assert sorted(path.name for path in saved.iterdir()) == sorted(
        (*FILES, "README.md", "manifest.json")
    )
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_half_precision_weights_are_stored_in_single(bundle: Bundle, tmp_path: Path):
    bundle.model.bfloat16()

    bundle.save(tmp_path / "model")

    kinds = {tensor.dtype for tensor in load_file(tmp_path / "model" / FILES[1]).values()}
    assert kinds == {torch.float32}


def test_the_card_tells_people_what_it_is(saved: Path):
    card = (saved / "README.md").read_text(encoding="utf-8")

    parameters = sum(tensor.numel() for tensor in load_file(saved / FILES[1]).values())
    for result in (
        "# English → German",
        f"{parameters:,} parameters",
        r"| BLEU nrefs:1\|case:mixed | 12.35 |",
        "`train.en` 00ff",
        "0123abc",
        'name = "small"',
    ):
        assert result in card


def test_the_card_names_all_directions(bundle: Bundle):
    pairs = (LanguagePair("en", "de"), LanguagePair("fr", "de"), LanguagePair("de", "en"))

    card = model_card(replace(bundle, directions=pairs))
    same_target = model_card(replace(bundle, directions=pairs[:2]))

    for result in (
        "# Translation in 3 directions\n",
        "turns English (`en`) into German\n(`de`), fr (`fr`) into German\n(`de`), German (`de`)",
        "transduce translate path/to/this/folder --to de < ",
        '.translate(["..."], target="de")[0]',
    ):
        assert result in card
    assert "# Translation in 2 directions\n" in same_target
    assert "transduce translate path/to/this/folder < " in same_target
    assert '.translate(["..."])[0]' in same_target


def test_an_edited_card_is_no_damage(saved: Path):
    (saved / "README.md").write_text("our house translator")

    assert Bundle.load(saved).languages.source == "en"


def test_a_bundle_replaces_an_older_one(bundle: Bundle, saved: Path):
    with torch.no_grad():
        bundle.model.embedding.weight[3] = 0.25

    bundle.save(saved)

    assert Bundle.load(saved).model.embedding.weight[3].eq(0.25).all()
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_an_empty_folder_may_become_a_bundle(bundle: Bundle, tmp_path: Path):
    (tmp_path / "model").mkdir()

    bundle.save(tmp_path / "model")

    assert Bundle.load(tmp_path / "model").search == bundle.search


def test_a_folder_of_something_else_is_not_replaced(bundle: Bundle, tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ValueError, match=r"thesis\.tex: move it away, or name another folder$"):
        bundle.save(tmp_path)

    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_bundle_that_someone_put_a_file_into_is_not_replaced(bundle: Bundle, saved: Path):
    (saved / "notes.txt").write_text("mine")

    with pytest.raises(ValueError, match=r"it holds notes\.txt"):
        bundle.save(saved)

    assert (saved / "notes.txt").exists()


def test_a_lone_readme_is_not_replaced(bundle: Bundle, tmp_path: Path):
    (tmp_path / "README.md").write_text("mine")

    with pytest.raises(ValueError, match=r"it has no manifest\.json"):
        bundle.save(tmp_path)


def test_a_file_is_not_replaced(bundle: Bundle, tmp_path: Path):
    (tmp_path / "model").write_text("mine")

    with pytest.raises(ValueError, match="is a file: name another folder"):
        bundle.save(tmp_path / "model")


def test_a_failed_save_leaves_the_older_bundle(
    bundle: Bundle, saved: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(self: Tokenizer) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Tokenizer, "to_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        bundle.save(saved)
    monkeypatch.undo()

    assert Bundle.load(saved).search == bundle.search
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_weights_that_are_no_numbers_are_not_saved(bundle: Bundle, tmp_path: Path):
    with torch.no_grad():
        bundle.model.embedding.weight[2, 3] = float("nan")

    with pytest.raises(ValueError, match=r"not finite numbers, in embedding\.weight"):
        bundle.save(tmp_path / "model")

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("inner", ["model", "best"])
def test_a_runs_folder_stands_for_its_bundle(bundle: Bundle, tmp_path: Path, inner: str):
    bundle.save(tmp_path / "run" / inner)

    assert Bundle.load(tmp_path / "run").search == bundle.search


def test_a_finished_runs_model_comes_before_its_best(bundle: Bundle, tmp_path: Path):
    bundle.save(tmp_path / "run" / "model")
    bundle.search = SearchConfig(beam=2)
    bundle.save(tmp_path / "run" / "best")

    assert Bundle.load(tmp_path / "run").search.beam == 7


def test_a_missing_folder_is_named(tmp_path: Path):
    assert refusal(tmp_path / "nowhere").startswith(f"{tmp_path / 'nowhere'} is not a model bundle")


def test_a_folder_of_something_else_is_no_bundle(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("years of work")

    assert refusal(tmp_path).startswith(f"{tmp_path} is not a model bundle")


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_missing_file_is_named(saved: Path, name: str):
    (saved / name).unlink()

    assert name in refusal(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_the_manifest_forgot_is_missed(saved: Path, name: str):
    (saved / name).unlink()
    facts = json.loads((saved / "manifest.json").read_text())
    facts.pop(name)
    (saved / "manifest.json").write_text(json.dumps(facts))

    assert f"{saved / name} is missing" in refusal(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_the_manifest_does_not_vouch_for_is_not_believed(saved: Path, name: str):
    facts = json.loads((saved / "manifest.json").read_text())
    facts.pop(name)
    (saved / "manifest.json").write_text(json.dumps(facts))

    assert f"has no checksum for {name}" in refusal(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_named(saved: Path, name: str):
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[:-1])

    assert f"{saved / name} has {len(data) - 1} bytes instead of {len(data)}" in refusal(saved)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_flipped_bit_is_found(saved: Path, name: str, share: float):
    data = bytearray((saved / name).read_bytes())
    data[int(len(data) * share)] ^= 1
    (saved / name).write_bytes(data)

    assert f"{saved / name} does not match its checksum" in refusal(saved)


def test_a_damaged_manifest_is_named(saved: Path):
    data = (saved / "manifest.json").read_bytes()
    (saved / "manifest.json").write_bytes(data[: len(data) // 2])

    assert refusal(saved).startswith(f"{saved / 'manifest.json'} is damaged")


@pytest.mark.parametrize("text", ["", "[]", "3", '{"architectures": ["MarianMTModel"]}'])
def test_the_config_of_another_program_is_named(saved: Path, text: str):
    (saved / "config.json").write_text(text)
    describe(saved)

    assert refusal(saved).startswith(f"{saved / 'config.json'} ")


def test_another_format_version_says_what_to_install(saved: Path):
    edit_config(saved, lambda held: held.update(version=3))

    assert "has format version 3, this program reads 1 and 2: install" in refusal(saved)


@pytest.mark.parametrize("section", ["model", "languages", "search", "cleaning", "provenance"])
def test_an_unknown_key_is_named(saved: Path, section: str):
    edit_config(saved, lambda held: held[section].update(colour="red"))

    assert f"{section}.colour is unknown" in refusal(saved)


def test_an_unknown_section_is_named(saved: Path):
    edit_config(saved, lambda held: held.update(colour="red"))

    assert "colour is unknown" in refusal(saved)


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("d_model", 21, "model.d_model must be even"),
        ("d_model", "22", "model.d_model: "),
        ("norm", "middle", "model.norm: "),
    ],
)
def test_a_setting_that_cannot_be_is_named(saved: Path, key: str, value: object, fault: str):
    edit_config(saved, lambda held: held["model"].update({key: value}))

    assert fault in refusal(saved)


def test_text_cleaned_otherwise_is_refused(saved: Path):
    edit_config(saved, lambda held: held["cleaning"].update(unicode="NFKC"))

    assert "cleaning.unicode" in refusal(saved)


def test_a_tensor_too_few_is_named(saved: Path):
    edit_weights(saved, lambda weights: weights.pop("embedding.weight"))

    assert "tensor embedding.weight is absent, not [" in refusal(saved)


def test_a_tensor_too_many_is_named(saved: Path):
    edit_weights(saved, lambda weights: weights.update(colour=torch.ones(2, 3)))

    assert "tensor colour is [2, 3] float32, not absent" in refusal(saved)


def test_a_tensor_of_another_shape_is_named(saved: Path):
    edit_weights(saved, lambda weights: weights.update({"embedding.weight": torch.ones(2, 3)}))

    assert "tensor embedding.weight is [2, 3] float32, not [" in refusal(saved)


def test_a_tensor_of_another_kind_is_named(saved: Path):
    def halve(weights: dict[str, torch.Tensor]) -> None:
        weights["embedding.weight"] = weights["embedding.weight"].half()

    edit_weights(saved, halve)

    assert "float16, not [" in refusal(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(saved: Path, value: float):
    edit_weights(
        saved, lambda weights: weights["embedding.weight"].index_fill_(0, torch.tensor(2), value)
    )

    assert "not finite numbers, in embedding.weight" in refusal(saved)


def test_weights_of_another_program_are_named(saved: Path):
    (saved / "model.safetensors").write_bytes(b"\x80\x04pickle")
    describe(saved)

    assert refusal(saved).startswith(f"{saved / 'model.safetensors'} is no safetensors file")


def test_a_damaged_tokenizer_is_named(saved: Path):
    (saved / "tokenizer.model").write_bytes(b"not a model")
    describe(saved)

    assert refusal(saved).startswith(f"{saved / 'tokenizer.model'}: ")


def test_the_tokenizer_of_another_model_is_named(saved: Path):
    lines = ["so many letters", "abcdefghijklmnopqrstuvwxyz"]
    other = Tokenizer.train(lines, TokenizerConfig(vocab_size=53))
    (saved / "tokenizer.model").write_bytes(other.to_bytes())
    describe(saved)

    assert f"tokenizer.model has {other.vocab_size} pieces, but the model in" in refusal(saved)


def test_a_device_that_is_not_there_is_named(saved: Path):
    with pytest.raises(ValueError, match=r"^the device 'abacus' cannot be used: ") as caught:
        Bundle.load(saved, device="abacus")

    assert "\n" not in str(caught.value)


def test_the_average_is_the_mean_in_the_stored_precision():
    states = [{"a": torch.tensor([item, 2.0 * item])} for item in (1.0, 2.0, 6.0)]

    mean = average_weights(states)

    assert mean.keys() == {"a"}
    assert mean["a"].dtype == torch.float32
    assert mean["a"].tolist() == [3.0, 6.0]


def test_the_average_is_summed_in_double_precision():
    states = [{"a": torch.tensor([item])} for item in (2.0**24, 1.0, 1.0, -(2.0**24))]

    assert average_weights(states)["a"].tolist() == [0.5]


def test_the_average_leaves_the_models_alone():
    first = torch.tensor([1.0])

    average_weights([{"a": first}, {"a": torch.tensor([3.0])}])

    assert first.tolist() == [1.0]


def test_models_of_other_shapes_are_not_averaged():
    with pytest.raises(ValueError, match=r"^checkpoint 2 of 2 has other tensors than the first"):
        average_weights([{"a": torch.ones(2)}, {"a": torch.ones(3)}])


def test_there_is_no_average_of_nothing():
    with pytest.raises(ValueError, match="no checkpoints to average"):
        average_weights([])


NEWER = (*("activation", "positions", "max_positions", "attention_bias", "output_bias"), "radius")
"""Settings of a model that bundles of before do not know."""


def test_a_bundle_of_before_the_options_loads_as_the_model_it_was(bundle: Bundle, saved: Path):
    edit_config(saved, lambda held: [held["model"].pop(key) for key in NEWER])

    loaded = Bundle.load(saved).model

    assert (loaded.config.activation, loaded.config.positions) == ("relu", "sinusoid")
    source = torch.tensor([[5, 7, 11, 0]])
    assert torch.equal(loaded(source, None, source), bundle.model(source, None, source))


def test_a_bundle_that_knows_no_positions_is_refused(saved: Path):
    edit_config(saved, lambda held: held["model"].update(positions="none"))

    assert "model.positions" in refusal(saved)


def test_weights_with_another_number_of_positions_are_refused(bundle: Bundle, tmp_path: Path):
    config = replace(bundle.model.config, positions="learned", max_positions=13)
    replace(bundle, model=Transformer(config)).save(tmp_path / "model")
    edit_config(tmp_path / "model", lambda held: held["model"].update(max_positions=11))

    assert "tensor positions.weight is [13, 22] float32, not [11, 22]" in refusal(
        tmp_path / "model"
    )


CONFIDENCE = Confidence(
    words=Calibration(log_probs=(-3.5, -0.25), worth=(0.125, 0.875), observations=211)
)


@pytest.fixture
def calibrated(bundle: Bundle, tmp_path: Path) -> Path:
    replace(bundle, confidence=CONFIDENCE).save(tmp_path / "calibrated")
    return tmp_path / "calibrated"


def test_confidence_comes_back_as_it_went(calibrated: Path, saved: Path):
    assert Bundle.load(calibrated).confidence == CONFIDENCE
    assert Bundle.load(saved).confidence is None


def test_the_manifest_vouches_for_confidence(calibrated: Path):
    held = (calibrated / "confidence.json").read_text()
    (calibrated / "confidence.json").write_text(held.replace("0.875", "0.999"))

    assert f"{calibrated / 'confidence.json'} does not match its checksum" in refusal(calibrated)


def test_confidence_that_is_missing_is_named(calibrated: Path):
    (calibrated / "confidence.json").unlink()

    assert f"{calibrated / 'confidence.json'} is missing" in refusal(calibrated)


def test_confidence_that_nobody_vouches_for_is_not_believed(saved: Path):
    (saved / "confidence.json").write_text(CONFIDENCE.to_json())

    assert refusal(saved) == (
        f"{saved / 'manifest.json'} has no checksum for confidence.json: {saved} is incomplete, "
        f"copy it again"
    )


@pytest.mark.parametrize("text", ["{", '{"words": 3}', '{"words": null, "more": 1}'])
def test_confidence_that_is_none_is_named(calibrated: Path, text: str):
    (calibrated / "confidence.json").write_text(text)
    facts = json.loads((calibrated / "manifest.json").read_text())
    facts["confidence.json"] = {
        "bytes": len(text),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    (calibrated / "manifest.json").write_text(json.dumps(facts))

    assert refusal(calibrated).startswith(f"{calibrated / 'confidence.json'} is damaged (")


def test_a_bundle_with_confidence_replaces_one_without_and_the_other_way_round(
    bundle: Bundle, saved: Path
):
    for confidence in (CONFIDENCE, None):
        replace(bundle, confidence=confidence).save(saved)

        assert Bundle.load(saved).confidence == confidence


@pytest.mark.parametrize("moment", ["_read_config", "_read_tokenizer", "_read_model"])
def test_a_bundle_that_is_replaced_while_it_is_read_is_read_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch, moment: str
):
    """Neither an error nor a mixture of both."""
    newer = Bundle.load(saved)
    with torch.no_grad():
        newer.model.embedding.weight[0] += 1.0
    newer.search = SearchConfig(beam=9)
    read, times = getattr(bundle_module, moment), itertools.count()

    def replaced(*given: object) -> object:
        if next(times) == 0:
            newer.save(saved)
        return read(*given)

    monkeypatch.setattr(bundle_module, moment, replaced)
    loaded = Bundle.load(saved)

    assert loaded.search == newer.search
    assert torch.equal(loaded.model.embedding.weight, newer.model.embedding.weight)


def test_a_bundle_that_vanishes_for_a_moment_is_read_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch
):
    read, times = bundle_module.check_folder, itertools.count()

    def absent(*given: object, **more: object) -> None:
        if next(times) == 0:
            shutil.copytree(saved, saved.with_name("copy"))
            shutil.rmtree(saved)
            saved.with_name("copy").rename(saved)
            raise ValueError("it does not exist")
        read(*given, **more)

    monkeypatch.setattr(bundle_module, "check_folder", absent)

    assert Bundle.load(saved).search.beam
