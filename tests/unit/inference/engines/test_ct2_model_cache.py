"""The cache keeps folders and texts, survives damage and company, and never fails."""

import gc
import os
import shutil
from pathlib import Path

import pytest

from transduce.inference.engines.ct2_model import MAX_FOLDERS, Cache
from transduce.io.atomic_folder import atomic_folder
from transduce.io.machine import user_cache

HOME = Path("/home/me")


def write(folder: Path) -> None:
    with atomic_folder(folder) as fresh:
        (fresh / "model.bin").write_text("weights")


@pytest.mark.parametrize(
    ("environment", "system", "place"),
    [
        ({"TRANSDUCE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "linux", Path("/c")),
        ({"XDG_CACHE_HOME": "/x"}, "linux", Path("/x/transduce")),
        ({"XDG_CACHE_HOME": "not/absolute"}, "linux", HOME / ".cache/transduce"),
        ({}, "linux", HOME / ".cache/transduce"),
        ({}, "darwin", HOME / "Library/Caches/transduce"),
        ({"LOCALAPPDATA": "/local"}, "win32", Path("/local/transduce/cache")),
        ({}, "win32", HOME / "AppData/Local/transduce/cache"),
    ],
)
def test_the_cache_is_where_the_system_has_its_caches_unless_one_is_named(
    environment: dict[str, str], system: str, place: Path
):
    assert user_cache(environment, system=system, home=HOME) == place


def test_the_users_cache_is_taken_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRANSDUCE_CACHE", str(tmp_path / "mine"))

    assert Cache().folder("one", write) == tmp_path / "mine" / "one"


def test_a_folder_is_written_once(cache: Cache):
    written: list[Path] = []

    for _ in range(2):
        cache.folder("one", lambda folder: (written.append(folder), write(folder))[1])

    assert len(written) == 1


def test_a_damaged_folder_is_written_anew(cache: Cache):
    place = cache.folder("one", write)
    (place / "model.bin").write_text("weighty")

    assert cache.folder("one", write) == place

    assert (place / "model.bin").read_text() == "weights"


def test_nothing_but_the_folder_is_left_in_the_cache(cache: Cache):
    cache.folder("one", write)

    assert [path.name for path in cache.root.iterdir()] == ["one"]


def test_a_folder_that_cannot_be_made_leaves_nothing_behind(cache: Cache):
    def fail(folder: Path) -> None:
        folder.mkdir()
        raise ValueError("not this model")

    with pytest.raises(ValueError, match="not this model"):
        cache.folder("one", fail)

    assert list(cache.root.iterdir()) == []


def test_a_process_that_is_late_takes_what_the_quicker_one_wrote(cache: Cache):
    def slowly(folder: Path) -> None:
        Cache(cache.root).folder("one", write)
        write(folder)

    place = cache.folder("one", slowly)

    assert place == cache.root / "one"
    assert [path.name for path in cache.root.iterdir()] == ["one"]


def test_a_cache_that_cannot_be_written_gives_way_to_a_temporary_folder(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "cache")

    place = cache.folder("one", write)

    assert (place / "model.bin").read_text() == "weights"
    assert not place.is_relative_to(tmp_path / "file")


def test_a_full_disk_gives_way_to_a_temporary_folder(cache: Cache):
    full = cache.root

    def write_elsewhere(folder: Path) -> None:
        if folder.is_relative_to(full):
            raise OSError("no space left on device")
        write(folder)

    assert (cache.folder("one", write_elsewhere) / "model.bin").read_text() == "weights"
    assert list(full.iterdir()) == []


def test_a_temporary_folder_goes_with_its_cache(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "cache")
    place = cache.folder("one", write)

    del cache
    gc.collect()

    assert not place.exists()


def test_a_forked_child_leaves_the_temporary_folder_to_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "cache")
    place = cache.folder("one", write)

    monkeypatch.setattr(os, "getpid", lambda: 1)
    del cache
    gc.collect()

    assert place.exists()
    shutil.rmtree(place.parent)


def test_of_many_folders_those_go_that_were_not_used_for_long(cache: Cache):
    for number in range(MAX_FOLDERS):
        os.utime(cache.folder(f"ct2-old-{number}", write), (number, number))
    cache.folder("ct2-old-0", write)  # it is used again

    cache.folder("ct2-new", write)

    held = {path.name.removeprefix("ct2-") for path in cache.root.iterdir()}
    assert held == {"new", *(f"old-{number}" for number in range(MAX_FOLDERS) if number != 1)}


def test_a_folder_that_was_used_a_moment_ago_stays(cache: Cache):
    for number in range(MAX_FOLDERS + 3):
        cache.folder(f"ct2-new-{number}", write)

    assert len(list(cache.root.iterdir())) == MAX_FOLDERS + 3


def test_what_a_killed_process_left_goes(cache: Cache):
    (cache.root / ".ct2-left").mkdir()
    os.utime(cache.root / ".ct2-left", (1, 1))

    cache.folder("one", write)

    assert [path.name for path in cache.root.iterdir()] == ["one"]


def test_folders_of_others_stay(cache: Cache):
    others = {".git", "kernels", *(f"runs-{number}" for number in range(MAX_FOLDERS))}
    for name in others:
        (cache.root / name).mkdir()
        os.utime(cache.root / name, (1, 1))

    cache.folder("ct2-new", write)

    assert {path.name for path in cache.root.iterdir()} == {"ct2-new", *others}


def test_a_text_is_remembered(cache: Cache):
    cache.store_text("plans.json", "[1]")

    assert Cache(cache.root).read_text("plans.json") == "[1]"


def test_a_text_that_was_never_kept_is_empty(cache: Cache):
    assert cache.read_text("plans.json") == ""


def test_a_text_that_cannot_be_kept_is_forgotten(cache: Cache):
    cache.root.rmdir()

    cache.store_text("plans.json", "[1]")

    assert cache.read_text("plans.json") == ""
