"""What the doctor finds, and that it survives whatever is broken."""

import shutil
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import transduce.evaluation.perplexity as validation
import transduce.train.step as step
from transduce.cli import doctor
from transduce.cli.doctor import Check, Diagnosis, DoctorReport, diagnose
from transduce.io import machine

ALL = metadata.version


def finding(name: str) -> Diagnosis:
    return next(check.finding for check in diagnose().checks if check.name == name)


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_train_and_translate", lambda: "cpu")


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | None], None]:
    """Pretend that a package has another version, or none."""
    quick(monkeypatch)

    def pretend(package: str, version: str | None) -> None:
        def find_version(name: str) -> str:
            if name == package and version is None:
                raise metadata.PackageNotFoundError(name)
            return version if name == package and version is not None else ALL(name)

        monkeypatch.setattr(doctor.metadata, "version", find_version)

    return pretend


def broken(*_: object, **__: object) -> None:
    raise OSError("a library is damaged\nand much more is said")


def test_every_package_that_the_metadata_want_has_its_line():
    wanted = {
        line.split(">")[0]
        for line in metadata.requires("transduce") or []
        if "extra ==" not in line
    }

    assert wanted <= {check.name for check in diagnose().checks}


def test_here_nothing_is_at_fault():
    assert diagnose().faults == 0


def test_a_missing_package_is_a_fault_with_the_command_that_mends_it(
    versions: Callable[[str, str | None], None],
):
    versions("sentencepiece", None)

    assert finding("sentencepiece") == Diagnosis(
        "missing", "FAULT", 'python -m pip install "sentencepiece>=0.2.1"'
    )


def test_a_missing_package_that_not_every_machine_has_is_a_note(
    versions: Callable[[str, str | None], None],
):
    versions("ctranslate2", None)

    assert finding("ctranslate2") == Diagnosis(
        "missing", "note", 'python -m pip install "ctranslate2>=4.6"'
    )


def test_a_package_too_old_is_a_fault_with_the_command_that_mends_it(
    versions: Callable[[str, str | None], None],
):
    versions("torch", "2.7.1+cpu")

    result = finding("torch")

    assert result.state == "FAULT"
    assert result.text == "2.7.1+cpu is too old (at least 2.8)"
    assert result.advice == 'python -m pip install "torch>=2.8"'


@pytest.mark.parametrize(("room", "name"), [(step, "train_step"), (validation, "perplexity")])
def test_a_broken_self_test_is_a_fault_told_in_one_line(
    room: object, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(room, name, broken)

    result = finding("a tiny model")

    assert result.state == "FAULT"
    assert result.text == "failed: OSError: a library is damaged"
    assert result.advice


def test_a_loss_that_is_no_number_is_a_fault(monkeypatch: pytest.MonkeyPatch):
    def lost(*_: object, **__: object) -> step.StepResult:
        return step.StepResult(
            loss_sum=torch.tensor(torch.nan), tokens=1, grad_norm=torch.tensor(1.0)
        )

    monkeypatch.setattr(step, "train_step", lost)

    assert finding("a tiny model").state == "FAULT"


def test_the_self_test_costs_nobody_a_random_number():
    before = torch.get_rng_state()

    doctor._self_test()

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("room", "function", "name"),
    [
        (torch, "get_num_threads", "threads"),
        (torch.cuda, "is_available", "CUDA devices"),
        (doctor.platform, "machine", "processor"),
        (doctor.os, "sysconf", "memory"),
        (doctor.locale, "getpreferredencoding", "text"),
        (shutil, "disk_usage", "disk"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_probe_that_fails_says_so(
    monkeypatch: pytest.MonkeyPatch, room: object, function: str, name: str
):
    quick(monkeypatch)
    monkeypatch.setattr(room, function, broken)

    assert finding(name) == Diagnosis("check failed: OSError: a library is damaged", "note")


def test_without_an_installation_the_minimums_are_unknown(monkeypatch: pytest.MonkeyPatch):
    quick(monkeypatch)
    monkeypatch.setattr(doctor.metadata, "metadata", broken)

    result = finding("requirements")

    assert result.state == "FAULT"
    assert "pip install ." in result.advice


def test_a_full_disk_is_a_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(7, 7, 0))

    assert doctor._disk().state == "FAULT"


def test_a_locale_that_is_not_utf_8_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor.locale, "getpreferredencoding", lambda _: "ISO-8859-1")

    result = doctor._encoding()

    assert result.state == "note"
    assert "LC_ALL=C.UTF-8" in result.advice


def test_more_threads_than_cores_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.setattr(doctor, "usable_cores", lambda: 2.5)

    assert "--set train.intra_op_threads=2" in doctor._threads().advice


def test_memory_that_a_container_may_not_use_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1610612736\n")

    assert doctor._memory().text == "1.5 GiB (a container limit)"


def test_the_table_is_aligned_under_headings_and_marks_faults_in_words():
    report = DoctorReport(
        checks=(
            Check(heading="First", name="a", finding=Diagnosis("well")),
            Check(heading="First", name="longer", finding=Diagnosis("ill", "FAULT", "do this")),
            Check(heading="Second", name="b", finding=Diagnosis("so so", "note")),
        )
    )

    assert str(report).split("\n") == [
        "First",
        "  ok     a       well",
        "  FAULT  longer  ill",
        "                 -> do this",
        "",
        "Second",
        "  note   b       so so",
        "",
        "1 fault (see FAULT)",
    ]


@pytest.mark.parametrize(
    ("installed", "least", "older"),
    [
        ("2.7.1+cpu", "2.13", True),
        ("2.13.0a0+git1234567", "2.13", False),
        ("2.13", "2.13.0", False),
        ("3", "2.13.7", False),
        ("0.2.0", "0.2.1", True),
        ("1.0", "", False),
    ],
)
def test_releases_are_compared_as_numbers(installed: str, least: str, older: bool):
    assert doctor._older(installed, least) is older


def test_cuda_devices_are_named_with_memory_and_bf16(monkeypatch: pytest.MonkeyPatch):
    def device(_: int) -> SimpleNamespace:
        return SimpleNamespace(name="A device", total_memory=7 * 2**30)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", device)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    monkeypatch.setattr(torch.version, "cuda", "12.8")

    assert doctor._cuda().text == "A device, 7 GiB; A device, 7 GiB; no bf16; CUDA 12.8"


def test_what_torch_warns_of_is_told(monkeypatch: pytest.MonkeyPatch):
    def unable() -> bool:
        warnings.warn("the driver is too old\nand more", UserWarning, stacklevel=1)
        return False

    quick(monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_available", unable)

    result = finding("CUDA devices")

    assert (result.state, result.advice) == ("note", "warning: the driver is too old")
