"""`transduce corpus`: files become one clean corpus, split by document, with a record of it."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS
from tests.conftest import CommandResult, Transduce, refuses
from tests.sentences import sentences, write_sides

from transduce.corpus_check.fingerprint import fold
from transduce.data.corpus import Pair

PAIRS = sentences(433)
LANGUAGES = ("--source-lang", "en", "--target-lang", "de")
NONE_HELD = ("--validation", 0, "--test", 0)
SWAPPED = [Pair(pair.target, pair.source) for pair in PAIRS[:11]]
FAULTY = [*SWAPPED, *PAIRS[11:], PAIRS[20], Pair("Stop!", "Stop!"), Pair("", "Leer.")]
FAULTY += [Pair("It is late.", "Es ist\u2028spät."), Pair("No.", PAIRS[0].target * 3)]
LEAKED = PAIRS[33]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_sides(tmp_path, "train", FAULTY)
    write_sides(tmp_path, "clean", PAIRS)
    write_sides(tmp_path, "test", [Pair(LEAKED.source.upper(), "Etwas anderes.")])
    return tmp_path


def sides(folder: Path, name: str) -> str:
    return f"{folder}/{name}.en,{folder}/{name}.de"


def build(transduce: Transduce, folder: Path, *words: object) -> CommandResult:
    return transduce("corpus", "build", *words, *LANGUAGES, "--out", folder / "out")


def read(folder: Path, part: str = "train") -> list[tuple[str, str]]:
    texts = ((folder / "out" / f"{part}.{code}").read_bytes().decode() for code in ("en", "de"))
    return list(zip(*(text.split("\n")[:-1] for text in texts), strict=True))


def source_record(folder: Path, index: int = 0) -> dict[str, object]:
    return json.loads((folder / "out" / "corpus.json").read_text())["sources"][index]


def test_what_is_built_has_no_faults_and_a_record_of_them(transduce: Transduce, folder: Path):
    exclude = ("--exclude", sides(folder, "test"))
    result = build(transduce, folder, sides(folder, "train"), *NONE_HELD, *exclude)

    kept = [pair for pair in PAIRS if pair != LEAKED]
    assert result.code == 0, result.err
    assert read(folder) == [*kept, ("It is late.", "Es ist spät.")]
    record = source_record(folder)
    dropped = {"empty source": 1, "length ratio": 1, "copy": 1, "duplicate": 1}
    assert record["dropped"] == dropped | {"in validation or test": 1}
    assert (record["read"], record["kept"]) == (438, {"train": 433, "validation": 0, "test": 0})
    assert record["files"] == {
        str(folder / f"train.{code}"): hashlib.sha256(
            (folder / f"train.{code}").read_bytes()
        ).hexdigest()
        for code in ("en", "de")
    }
    assert (
        "438 pairs, kept (train: 433, validation: 0, test: 0), dropped (empty source: 1"
        in result.out
    )
    assert result.err == "no licence is recorded: name it by --licence\n"


def test_no_sentence_of_a_later_part_is_in_an_earlier_one(transduce: Transduce, folder: Path):
    # Every source has a second target, and every target a second source, elsewhere in the file.
    more = [Pair(pair.source, f"{pair.target} Oder?") for pair in PAIRS[::3]]
    more += [Pair(f"{pair.source} Right?", pair.target) for pair in PAIRS[::3]]
    write_sides(folder, "more", more)
    files = (sides(folder, "clean"), sides(folder, "more"))

    build(transduce, folder, *files, "--validation", 100, "--test", 120)

    parts = [read(folder, name) for name in ("train", "validation", "test")]
    assert [100 >= len(parts[1]) > 10, 120 >= len(parts[2]) > 50] == [True, True]
    for earlier, later in ((0, 1), (0, 2), (1, 2)):
        for side in (0, 1):
            seen = {fold(pair[side]) for pair in parts[earlier]}
            assert not seen & {fold(pair[side]) for pair in parts[later]}
    dropped = [source_record(folder, index)["dropped"] for index in (0, 1)]
    counts = [count["in validation or test"] for count in dropped if isinstance(count, dict)]
    assert sum(counts) + sum(map(len, parts)) == len(PAIRS) + len(more)


def test_a_document_stays_together(transduce: Transduce, folder: Path):
    names = [f"document {number % 40}" for number in range(len(PAIRS))]
    (folder / "names").write_text("".join(f"{name}\n" for name in names))
    files = f"{sides(folder, 'clean')},{folder}/names"

    build(transduce, folder, files, "--validation", 50, "--test", 50)

    document = dict(zip(PAIRS, names, strict=True))
    parts = [
        {document[Pair(*pair)] for pair in read(folder, name)}
        for name in ("train", "validation", "test")
    ]
    assert [len(part) for part in parts] == [32, 4, 4]
    assert len(set.union(*parts)) == 40
    (folder / "names").write_text("one\n")
    (folder / "out").rename(folder / "before")
    refuses(build(transduce, folder, files), "names has 1 lines")


def test_nearly_equal_pairs_are_dropped_on_request(transduce: Transduce, folder: Path):
    source = "The council talks about the new bridge over the river in the old town hall on"
    target = "Der Rat berät im alten Rathaus über die neue Brücke über den Fluss am"
    days = [("Monday", "Montag"), ("Tuesday", "Dienstag"), ("Monday!", "Montag, Montag")]
    near = [Pair(f"{source} {day}.", f"{target} {tag}.") for day, tag in days]
    other = [Pair(near[0].source, PAIRS[0].target * 2), Pair("It is late.", "Es ist spät.")]
    write_sides(folder, "near", [*PAIRS[:2], *near, *other])
    build(transduce, folder, sides(folder, "near"), *NONE_HELD)
    everything = read(folder)
    shutil.rmtree(folder / "out")

    result = build(transduce, folder, sides(folder, "near"), *NONE_HELD, "--near", 0.8)

    assert result.code == 0, result.err
    assert set(everything) - set(read(folder)) == {near[1], near[2]}
    assert source_record(folder)["dropped"] == {"near duplicate": 2}


def test_near_duplicates_need_their_package_and_a_similarity(
    transduce: Transduce, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    for near in (1.5, 0.0):
        refused = build(transduce, folder, sides(folder, "clean"), "--near", near)
        refuses(refused, f"--near must be above 0 and at most 1, not {near}")
    monkeypatch.setitem(sys.modules, "rensa", None)

    refused = build(transduce, folder, sides(folder, "clean"), "--near", 0.8)
    refuses(refused, "near duplicates need rensa: pip install 'transduce[near]'")


def test_sources_have_a_licence_each(transduce: Transduce, folder: Path):
    rows = [{"src": pair.source, "tgt": pair.target} for pair in PAIRS[200:]]
    (folder / "last.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    write_sides(folder, "first", PAIRS[:200])
    files = (sides(folder, "first"), folder / "last.jsonl")

    result = build(transduce, folder, *files, *NONE_HELD, "--licence", "MIT", "--licence", "own")

    assert (result.code, result.err) == (0, "")
    assert read(folder) == PAIRS
    records = [source_record(folder, index) for index in range(2)]
    assert [record["licence"] for record in records] == ["MIT", "own"]
    assert [record["read"] for record in records] == [200, 233]
    refuses(
        build(transduce, folder, *files, files[1], "--licence", "MIT", "--licence", "own"),
        "3 sources, but 2 times --licence",
    )


def test_too_few_pairs_and_a_full_folder_are_refused(transduce: Transduce, folder: Path):
    files = sides(folder, "clean")

    refuses(build(transduce, folder, files), "cleaning left 433 pairs: too few for 1,000")
    held = ("--test", 9, "--validation", 0)
    refuses(build(transduce, folder, files, *held), "more than the 9 pairs")
    assert not (folder / "out").exists()
    (folder / "out").mkdir()
    assert build(transduce, folder, files, *NONE_HELD).code == 0
    (folder / "train.en").unlink()  # which would be named if the corpus were read first
    refuses(build(transduce, folder, sides(folder, "train")), "out is not an empty folder")


def test_a_file_that_lacks_a_language_is_named(transduce: Transduce, folder: Path):
    (folder / "b.tmx").write_text(
        '<tmx><body><tu><tuv xml:lang="en"><seg>bread</seg></tuv>'
        '<tuv xml:lang="fr"><seg>pain</seg></tuv></tu></body></tmx>'
    )

    result = build(transduce, folder, sides(folder, "clean"), folder / "b.tmx", *NONE_HELD)

    refuses(result, f"{folder / 'b.tmx'}: cleaning left no pair: ")
    assert not (folder / "out").exists()


def test_two_equal_languages_are_refused(transduce: Transduce, folder: Path):
    words = (sides(folder, "clean"), "--source-lang", "en", "--target-lang", "en")

    result = transduce("corpus", "build", *words, "--out", folder / "out")

    refuses(result, "--source-lang and --target-lang must differ, not both be 'en'")
    assert not (folder / "out").exists()


def test_swapped_files_are_refused(transduce: Transduce, folder: Path):
    write_sides(folder, "swapped", [Pair(pair.target, pair.source) for pair in PAIRS])

    result = build(transduce, folder, sides(folder, "swapped"), *NONE_HELD)

    refuses(result, "the languages of en-de are swapped: exchange the two files, or --source-lang")
    assert not (folder / "out").exists()


def test_a_corpus_without_training_pairs_is_refused(transduce: Transduce, folder: Path):
    files = sides(folder, "clean")

    result = build(transduce, folder, files, *NONE_HELD, "--exclude", files)

    refuses(result, "no training pair is left of 433: add sources, or exclude", "--exclude")
    assert not (folder / "out").exists()


def get(transduce: Transduce, folder: Path, name: str, target: str = "de") -> CommandResult:
    languages = ("--source-lang", "en", "--target-lang", target)
    return transduce("corpus", "get", name, *languages, "--out", folder / "got")


def test_a_test_set_is_fetched_by_sacrebleu(
    transduce: Transduce, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    wmt = DATASETS["wmt22"]
    monkeypatch.setattr(wmt, "get_source_file", lambda pair: str(folder / "clean.en"))
    monkeypatch.setattr(wmt, "get_reference_files", lambda pair: [str(folder / "clean.de")])

    result = get(transduce, folder, "wmt22")

    assert result.code == 0
    digests = json.loads((folder / "got" / "manifest.json").read_text())
    for code in ("en", "de"):
        data = (folder / f"clean.{code}").read_bytes()
        assert (folder / "got" / f"wmt22.{code}").read_bytes() == data
        assert hashlib.sha256(data).hexdigest() in json.dumps(digests)


@pytest.mark.parametrize(
    ("error", "part"),
    [(OSError("no route"), "is there a network? (no route)"), (SystemExit(1), "damaged")],
)
def test_without_a_network_nothing_is_written(
    transduce: Transduce,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    part: str,
):
    def fail(pair: str) -> str:
        raise error

    monkeypatch.setattr(DATASETS["wmt22"], "get_source_file", fail)

    refuses(get(transduce, folder, "wmt22"), "wmt22 was not fetched", part)
    refuses(get(transduce, folder, "wmt22", "xx"), "wmt22 has no en-xx, but ", "en-de")
    assert not (folder / "got").exists()


def test_a_data_set_is_fetched_by_mtdata(
    transduce: Transduce, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(folder))
    refuses(get(transduce, folder, "A-b-1-deu-eng"), "pip install mtdata")
    program = folder / "mtdata"
    program.write_text(
        '#!/bin/sh\n[ "$2" = A-b-1-deu-eng ] && printf "Hund\\tdog\\n" && exit\necho why >&2\n'
    )
    program.chmod(0o755)

    assert get(transduce, folder, "A-b-1-deu-eng").code == 0
    assert (folder / "got" / "A-b-1-deu-eng.tsv").read_text() == "Hund\tdog\n"
    (folder / "got").rename(folder / "before")
    refuses(get(transduce, folder, "none"), "mtdata has not fetched none", "(why)")
    assert not (folder / "got").exists()
