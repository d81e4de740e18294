"""A translation memory gives back what was stored, and similar entries with honest percentages."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Transduce

from transduce.memory.store import Entry, TranslationMemory
from transduce.memory.tmx import open_memory, read_entries, tmx_lines

EN_DE = ("en", "de")


def entry(source: str, target: str, context: str = "", origin: str = "correction") -> Entry:
    return Entry(
        source=source,
        target=target,
        source_lang="en",
        target_lang="de-AT",
        context=context,
        origin=origin,
    )


@pytest.fixture
def memory(tmp_path: Path) -> TranslationMemory:
    return TranslationMemory(tmp_path / "memory.db")


def test_an_exact_match_is_the_newest_of_its_languages(memory: TranslationMemory):
    memory.add([entry("A dog.", "Ein Hund."), entry("A dog.", "Der Hund.")])
    memory.add([entry("A dog.", "Ein Hund.")])

    match = memory.exact(" A dog.\n", languages=("en-GB", "de"))

    assert match is not None
    assert (match.entry.target, match.score, match.in_context) == ("Ein Hund.", 100, False)
    assert memory.exact("A dog.", languages=("en", "fr")) is None
    assert memory.exact("a dog.", languages=EN_DE) is None


def test_the_same_sentence_before_it_goes_first(memory: TranslationMemory):
    memory.add([entry("Yes.", "Doch.", context="Don't you?"), entry("Yes.", "Ja.")])

    match = memory.exact("Yes.", languages=EN_DE, context="Don't you?")

    assert match is not None
    assert (match.entry.target, match.in_context) == ("Doch.", True)
    assert memory.exact("Yes.", languages=EN_DE) == memory.exact(
        "Yes.", languages=EN_DE, context="Who?"
    )


def test_a_correction_outranks_later_imports(memory: TranslationMemory):
    memory.add([entry("Yes.", "Jawohl.")])
    memory.add([entry("Yes.", "Ja.", origin="a.tmx"), entry("Yes.", "Jawohl.", origin="a.tmx")])

    match = memory.exact("Yes.", languages=EN_DE)

    assert match is not None
    assert (match.entry.target, match.entry.origin) == ("Jawohl.", "correction")


def test_similar_sources_have_their_similarity_in_percent(memory: TranslationMemory):
    memory.add([entry("The dog runs fast.", "x"), entry("The cat runs fast.", "y")])

    matches = memory.lookup("The dog runs fast!", languages=EN_DE)

    assert [(match.entry.target, match.score) for match in matches] == [("x", 94), ("y", 77)]
    assert memory.lookup('"; AND OR NOT * \0', languages=EN_DE) == []


def test_words_are_split_at_underscores_as_in_the_index(memory: TranslationMemory):
    memory.add([entry("Call the old_function here.", "x")])

    matches = memory.lookup("Call the old_function _ here.", languages=EN_DE)

    assert [match.score for match in matches] == [93]


@pytest.mark.parametrize(
    ("stored", "source"),
    [
        ("今天我们去公园散步。", "今天他们去公园散步。"),
        ("東京タワーに登りました。", "東京タワーに登ります。"),
    ],
)
def test_similar_sources_of_scripts_without_spaces(
    memory: TranslationMemory, stored: str, source: str
):
    memory.add([entry(stored, "x")])

    assert [match.entry.source for match in memory.lookup(source, languages=EN_DE)] == [stored]


def test_codes_of_three_letters_name_the_same_languages(memory: TranslationMemory):
    memory.add([replace(entry("A dog.", "Ein Hund."), target_lang="deu")])

    assert memory.exact("A dog.", languages=EN_DE)
    assert memory.exact("A dog.", languages=("eng", "deu_Latn"))
    assert memory.lookup("A dog!", languages=("eng", "ger"))


def test_entries_of_a_store_without_version_are_found(tmp_path: Path):
    sources = ("我喜欢狗。", "A dog.")
    with TranslationMemory(tmp_path / "old.db") as memory:
        memory.add([entry(source, "x") for source in sources])
        memory._database.executescript(
            "INSERT INTO words (words) VALUES ('delete-all'); DROP TRIGGER index_words;"
            "INSERT INTO words (rowid, source) SELECT id, source FROM entries;"
            "UPDATE entries SET target_lang = 'deu'; PRAGMA user_version = 0;"
            "CREATE TRIGGER index_words AFTER INSERT ON entries BEGIN INSERT INTO words"
            " (rowid, source) VALUES (new.id, new.source); END;"
        )

    with TranslationMemory(tmp_path / "old.db") as memory:
        memory.add([entry("我喜欢猫。", "y")])
        similar = memory.lookup("我喜欢马。", languages=EN_DE)

        assert all(memory.exact(source, languages=EN_DE) for source in sources)
        assert [match.entry.target for match in similar] == ["y", "x"]
        assert len(memory.lookup("A dog!", languages=EN_DE)) == 1


def test_near_equality_is_below_100_percent(memory: TranslationMemory):
    memory.add([entry("long " * 200 + "a", "x")])

    assert [m.score for m in memory.lookup("long " * 200 + "b", languages=EN_DE)] == [99]


def test_similar_sources_of_frequent_words_only(
    memory: TranslationMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.memory.store._RARE", 2)
    memory.add([entry(f"Tom is here {word} Tom", word) for word in ("a", "b", "c")])
    memory.add([entry("Tom is at home", "home")])
    memory.add([entry("Tom said", "1"), entry("he is", "2"), entry("here we are", "3")])

    matches = memory.lookup("Tom is here d Tom", languages=EN_DE)

    assert {match.entry.target for match in matches} == {"a", "b", "c"}


def test_the_cost_of_a_look_up_hardly_grows_with_the_memory(memory: TranslationMemory):
    def steps() -> int:
        counted = [0]

        def count() -> None:
            counted[0] += 1

        memory._database.set_progress_handler(count, 100)  # of SQLite's virtual machine
        assert memory.lookup("a rare dog 7 runs", languages=EN_DE)[0].entry.target == "T7"
        memory._database.set_progress_handler(None, 0)
        return counted[0]

    few, many = range(1_000), range(1_000, 20_000)
    memory.add([entry(f"a rare dog {number} sleeps", f"T{number}") for number in few])
    before = steps()
    memory.add([entry(f"a rare dog {number} sleeps", f"T{number}") for number in many])

    assert steps() < 3 * before


def test_tmx_goes_out_and_in_again(memory: TranslationMemory, tmp_path: Path):
    memory.add([entry('A <b> & "c"\x01', "Ein\nü"), entry("Yes.", "Ja.")])
    file = tmp_path / "out.tmx"
    file.write_text("".join(tmx_lines(memory.entries())))

    pairs = [(read.source, read.target) for read in read_entries(file, languages=EN_DE)]

    assert pairs == [('A <b> & "c"', "Ein\nü"), ("Yes.", "Ja.")]
    assert len(open_memory(file, languages=EN_DE)) == 2
    assert len(open_memory(file, languages=("en", "fr"))) == 0


def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path):
    path = tmp_path / "memory.db"
    program = (
        "import sys; from transduce.memory.store import Entry, TranslationMemory\n"
        "memory = TranslationMemory(sys.argv[1])\n"
        "for number in range(1000):\n"
        "    memory.add([Entry(source=str(number), target='x', source_lang='en',"
        " target_lang='de')])\n"
        "    print(number, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if line == "300\n":
                os.kill(writer.pid, signal.SIGKILL)
                break
        acknowledged = [300, *map(int, writer.stdout.read().split())]

    with TranslationMemory(path) as memory:
        stored = {entry.source for entry in memory.entries()}
        assert {str(number) for number in range(acknowledged[-1] + 1)} <= stored
        memory.add([entry("after", "danach")])
        assert memory.exact("after", languages=EN_DE)


def test_another_file_is_refused(tmp_path: Path):
    (tmp_path / "text.db").write_text("no database" * 100)

    with pytest.raises(ValueError, match="cannot be opened as a translation memory"):
        TranslationMemory(tmp_path / "text.db")
    with pytest.raises(FileNotFoundError, match="no such translation memory"):
        TranslationMemory(tmp_path / "missing.db", create=False)


def test_a_file_that_cannot_be_written_or_read_is_named(tmp_path: Path):
    path = tmp_path / "memory.db"
    with TranslationMemory(path) as memory:
        memory.add([entry(f"dog {number}", "Hund") for number in range(1000)])
        memory._database.execute("PRAGMA query_only = ON")
        with pytest.raises(ValueError, match=r"memory\.db: .* readonly database: check that"):
            memory.add([entry("cat", "Katze")])
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * len(content[4096:]))

    with TranslationMemory(path) as memory:
        with pytest.raises(ValueError, match=r"memory\.db: .*malformed: check that"):
            list(memory.entries())
        with pytest.raises(ValueError, match=r"memory\.db: .*malformed: check that"):
            memory.exact("dog 7", languages=EN_DE)


def test_the_command_imports_looks_up_and_exports(tmp_path: Path, transduce: Transduce):
    tmx, store, copy = tmp_path / "a.tmx", tmp_path / "m.db", tmp_path / "b.tmx"
    tmx.write_text("".join(tmx_lines([entry("A dog runs.", "Ein Hund rennt.")])))
    languages = ("--source-lang", "en", "--target-lang", "de")

    imported = transduce("memory", "import", str(store), str(tmx), *languages)
    again = transduce("memory", "import", str(store), str(tmx), *languages)
    result = transduce("memory", "lookup", str(store), "A dog ran.", *languages)
    exported = transduce("memory", "export", str(store), "-o", str(copy))
    to_stdout = transduce("memory", "export", str(store), "-o", "-")

    assert (imported.code, result.code, exported.code) == (0, 0, 0)
    assert "1 entries, 1 of them new" in imported.err
    assert "1 entries, 0 of them new" in again.err
    assert result.out == "81\tA dog runs.\tEin Hund rennt.\n"
    assert copy.read_text().count("<tu ") == 1
    assert to_stdout.out == copy.read_text()
    assert not Path("-").exists()
    assert transduce("memory", "export", str(tmp_path / "none.db")).code == 2


def test_a_file_that_cannot_be_read_to_its_end_changes_no_store(
    tmp_path: Path, transduce: Transduce
):
    good, bad, store = tmp_path / "a.tmx", tmp_path / "b.tmx", tmp_path / "m.db"
    good.write_text("".join(tmx_lines([entry("A dog runs.", "Ein Hund rennt.")])))
    bad.write_text(good.read_text().removesuffix("</tmx>\n"))
    languages = ("--source-lang", "en", "--target-lang", "de")

    refused = transduce("memory", "import", str(store), str(good), str(bad), *languages)

    assert refused.code == 2
    assert f"{bad}, line " in refused.err
    assert not store.exists()
