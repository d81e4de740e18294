"""What can be asked of a decoder, asked through the command line of a trained model."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CommandResult, Run, Transduce, made, refuses

from transduce.inference.engines.native_library import load_search

LINES = "1 2 3\n\n4 0 1 2\n0 3\n"


@pytest.fixture(scope="module")
def calibrated(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained model, with what its probabilities are worth."""
    from transduce.cli import main

    folder = tmp_path_factory.mktemp("calibrated") / "model"
    shutil.copytree(run.folder / "model", folder)
    source, target = (str(run.corpus / f"train.{side}") for side in ("src", "rev"))
    assert main(["calibrate", str(folder), "--source", source, "--target", target]) == 0
    return folder


@pytest.fixture
def translated(run: Run, transduce: Transduce) -> Transduce:
    """Translate LINES, or other `stdin`, with the trained model."""

    def call(*words: object, stdin: bytes = LINES.encode()) -> CommandResult:
        return transduce("translate", run.folder, *words, stdin=stdin)

    return call


def objects(result: CommandResult) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def texts(result: CommandResult) -> list[str]:
    assert result.code == 0, result.err
    return result.out.splitlines()


def test_the_engine_is_named_on_stderr(translated: Transduce):
    quick = "native float32\n" if load_search().library else "ctranslate2 float32, "
    assert translated().err.startswith(f"engine: {quick}")
    ct2 = translated("--engine", "ctranslate2")
    assert ct2.err.startswith("engine: ctranslate2 float32, ")
    assert ct2.out == translated().out
    assert translated("--engine", "torch").err == "engine: torch\n"


def test_torch_in_bfloat16_says_what_a_sure_model_says_in_float32(run: Run, translated: Transduce):
    lines = (run.corpus / "train.src").read_bytes()
    options = "--engine", "torch", "--json", "--as-is"  # what else it says of loops is chance
    exact = objects(translated(*options, stdin=lines))

    result = translated(*options, "--compute-type", "bfloat16", stdin=lines)

    assert result.err == "engine: torch, bfloat16\n"
    short = objects(result)
    same = sum(
        short_line["text"] == exact_line["text"]
        for short_line, exact_line in zip(short, exact, strict=True)
    )
    assert same >= 0.9 * len(exact)
    assert [short_line["score"] for short_line in short] != [
        short_line["score"] for short_line in exact
    ]


def test_the_torch_engine_has_no_other_kinds_of_numbers(translated: Transduce):
    result = translated("--engine", "torch", "--compute-type", "int8")

    refuses(result, "the torch engine computes in float32 or bfloat16, not 'int8'")


def test_both_engines_say_the_same(run: Run, translated: Transduce):
    lines = (run.corpus / "test.src").read_bytes()

    quick = translated("--engine", "ctranslate2", "--json", stdin=lines)
    torch_result = translated("--engine", "torch", "--json", stdin=lines)

    for quick_line, torch_line in zip(objects(quick), objects(torch_result), strict=True):
        assert quick_line["ids"] == torch_line["ids"]
        assert quick_line["score"] == pytest.approx(torch_line["score"], abs=1e-4)


def test_a_compute_type_can_be_asked_for(translated: Transduce):
    result = translated("--compute-type", "int8", "--workers", 1, "--threads", 1)

    assert result.err == "engine: ctranslate2 int8, 1 worker x 1 thread\n"
    assert len(texts(result)) == 4


def test_a_glossary_is_honoured_and_reported(translated: Transduce, tmp_path: Path):
    (tmp_path / "terms.tsv").write_text("# digits\n3\t4\n4 0\t2\n")

    result = translated("--glossary", tmp_path / "terms.tsv")

    translations = texts(result)
    assert "4" in translations[0].split()
    assert "2" in translations[2].split()
    assert "4" in translations[3].split()
    assert result.err.endswith("glossary: 3 of 3 terms applied\n")


def test_lines_of_a_memory_replace_the_models(
    run: Run, transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from transduce.inference.translator import Translator
    from transduce.memory.store import Entry, TranslationMemory
    from transduce.memory.tmx import tmx_lines

    model, codes = tmp_path / "model", {"source_lang": "en", "target_lang": "de"}
    shutil.copytree(run.folder / "model", model)
    assert transduce("relabel", model, "--source-lang", "en", "--target-lang", "de").code == 0
    stored = ("1 2 3", "100\u00a0%\u3000of\n\t it", "")
    pairs = (stored, ("0 3", "plain", ""), ("0 3", "in context", "4 0 1 2"))
    store, tmx = tmp_path / "memory.db", tmp_path / "memory.tmx"
    with TranslationMemory(store) as memory:
        memory.add(Entry(source=s, target=t, context=c, **codes) for s, t, c in pairs)
        tmx.write_text("".join(tmx_lines(list(memory.entries())[:1])))

    def translated(*words: object) -> CommandResult:
        return transduce("translate", model, *words, stdin=LINES.encode())

    plain, given = texts(translated()), list[str]()
    with monkeypatch.context() as watched:
        decode = Translator.decode
        watched.setattr(
            Translator,
            "decode",
            lambda self, lines, **named: given.extend(lines) or decode(self, lines, **named),
        )
        result = translated("--memory", store)
    rows = objects(translated("--memory", store, "--json"))

    assert texts(result) == ["100\u00a0%\u3000of it", "", plain[2], "in context"]
    assert [line for line in given if line] == ["4 0 1 2"]
    assert result.err.endswith("translation memory: 2 lines\n")
    assert rows[0]["memory"] == {"score": 100, "in_context": False, "origin": "correction"}
    assert (rows[0]["source"], rows[0]["pieces"], rows[2]["memory"]) == ("1 2 3", [], None)
    assert texts(translated("--memory", tmx)) == ["100\u00a0%\u3000of it", *plain[1:]]

    page = b"<p>1 2 3. <b>0 3</b></p><p>0 3</p>"
    document = transduce("translate", model, "--format", "html", "--memory", store, stdin=page)
    assert "<p>in context</p>" in document.out
    assert "<b>in context</b>" in document.out
    assert document.err.endswith("translation memory: 2 texts and sentences\n")
    refuses(translated("--memory", store, "--nbest", 2), "--memory replaces translations")
    refuses(translated("--memory", tmp_path / "no.db"), "no such translation memory")


def test_a_glossary_that_applies_nowhere_changes_nothing(translated: Transduce, tmp_path: Path):
    (tmp_path / "terms.tsv").write_text("dog\t4\n")

    result = translated("--glossary", tmp_path / "terms.tsv")

    assert texts(result) == texts(translated())
    assert result.err.endswith("glossary: no term occurs in the source\n")


def test_a_term_that_does_not_fit_is_reported(translated: Transduce, tmp_path: Path):
    (tmp_path / "terms.tsv").write_text("3\t" + "4 " * 9 + "4\n")

    result = translated("--glossary", tmp_path / "terms.tsv", "--max-length", 6, stdin=b"1 2 3\n")

    assert texts(result) == texts(translated("--max-length", 6, stdin=b"1 2 3\n"))
    assert "glossary: 0 of 1 terms applied\n" in result.err
    assert "0 of 1; see line 1" in result.err


def test_an_n_best_list_has_so_many_different_lines(translated: Transduce):
    rows = [line.split("\t") for line in texts(translated("--nbest", 3, stdin=b"1 2 3\n4 0\n"))]

    assert [(row[0], row[1]) for row in rows] == [(n, r) for n in "12" for r in "123"]
    for n in "12":
        scores = [float(row[2]) for row in rows if row[0] == n]
        assert scores == sorted(scores, reverse=True)
        assert len({row[3] for row in rows if row[0] == n}) == 3


def test_an_n_best_list_widens_the_beam(translated: Transduce):
    assert len(texts(translated("--nbest", 7, stdin=b"1 2 3\n"))) == 7


def test_an_n_best_list_of_greedy_search_has_its_score(translated: Transduce):
    greedy_search = "--engine", "ctranslate2", "--beam", 1, "--nbest", 1
    (greedy,) = texts(translated(*greedy_search, stdin=b"1 2 3\n"))
    assert math.isfinite(float(greedy.split("\t")[2]))


def test_json_has_scores_pieces_and_the_others(translated: Transduce):
    first, blank, *_ = objects(translated("--json", "--nbest", 2))

    assert (first["line"], first["source"]) == (1, "1 2 3")
    assert len(first["pieces"]) == len(first["ids"]) == len(first["log_probs"])
    assert first["pieces"][-1] == "</s>"
    assert [*first["others"][0]] == ["text", "score"]
    assert (first["parts"], first["flag"], first["mended"]) == (1, "", False)
    assert (blank["line"], blank["text"], blank["pieces"]) == (2, "", [])


def test_a_calibrated_model_says_how_good_each_line_may_be(
    calibrated: Path, translated: Transduce, transduce: Transduce
):
    result = transduce("translate", calibrated, "--confidence", stdin=LINES.encode())

    rows = [line.split("\t") for line in texts(result)]
    assert [text for _, text in rows] == texts(translated())
    assert [number for number, _ in rows].pop(1) == ""
    assert all(0 <= float(number) <= 1 for number, text in rows if text)


def test_a_calibrated_model_says_so_of_each_word(calibrated: Path, transduce: Transduce):
    first, blank, *_ = objects(
        transduce("translate", calibrated, "--json", "--confidence", stdin=LINES.encode())
    )

    assert 0 <= first["confidence"] <= 1
    assert [word for word, _ in first["words"]] == first["text"].split()
    assert (blank["confidence"], blank["words"]) == (None, [])


def test_a_model_that_is_not_calibrated_says_how_to_do_that(run: Run, translated: Transduce):
    refuses(translated("--confidence"), f"run `transduce calibrate {run.folder} --source FILE")


def test_alignments_are_a_line_each(translated: Transduce, tmp_path: Path):
    translations = texts(translated("--align", tmp_path / "links"))

    links = (tmp_path / "links").read_text().splitlines()
    assert len(links) == 4
    assert links[1] == ""
    for text, line in zip(translations, links, strict=True):
        assert [int(link.split("-")[1]) for link in line.split()] == list(range(len(text.split())))


def test_the_same_seed_draws_the_same(translated: Transduce):
    drawn = [
        texts(translated("--sample", "--temperature", 1.5, "--beam", 1, "--seed", seed))
        for seed in (3, 3, 4)
    ]

    assert drawn[0] == drawn[1] != drawn[2]


def test_what_is_drawn_depends_on_no_other_line(translated: Transduce):
    draw = ("--sample", "--beam", 3, "--top-k", 4, "--top-p", 0.9, "--nbest", 3)

    alone = texts(translated(*draw, stdin=b"4 0 1 2\n"))

    among = [line for line in texts(translated(*draw)) if line.startswith("3\t")]
    assert [line.split("\t", 1)[1] for line in among] == [line.split("\t", 1)[1] for line in alone]


def test_a_translation_that_the_rest_agrees_with_is_one_of_them(translated: Transduce):
    draws = texts(translated("--sample", "--beam", 5, "--nbest", 5, stdin=b"1 2 3\n"))

    (agreed,) = texts(translated("--sample", "--beam", 5, "--mbr", stdin=b"1 2 3\n"))

    assert agreed in [line.split("\t")[3] for line in draws]


def test_every_translation_begins_with_the_prefix(translated: Transduce):
    translations = texts(translated("--prefix", "4 4"))

    assert [text.startswith("4 4") for text in translations] == [True, False, True, True]


def test_no_run_is_repeated(translated: Transduce):
    (translation,) = texts(translated("--no-repeat", 1, "--max-length", 40, stdin=b"1 1 1 1 1 1\n"))

    pieces = objects(translated("--no-repeat", 1, "--json", stdin=b"1 1 1 1 1 1\n"))[0]["pieces"]
    assert len(pieces) == len(set(pieces))
    assert translation != ""


def test_lengths_are_kept_within(translated: Transduce):
    for line in objects(translated("--max-length", 4, "--json")):
        assert len(line["pieces"]) <= 4
    for line in objects(translated("--min-length", 12, "--json")):
        assert not line["pieces"] or len(line["pieces"]) > 12


def test_models_decide_together(run: Run, translated: Transduce):
    alone = translated("--engine", "torch")

    result = translated("--with", run.folder)

    assert result.err == "engine: torch (ensemble of 2 models)\n"
    assert texts(result) == texts(alone)


def test_a_score_is_that_which_the_translation_had(
    run: Run, translated: Transduce, transduce: Transduce, tmp_path: Path
):
    lines = [line for line in objects(translated("--json", "--engine", "torch")) if line["text"]]
    for side in ("source", "text"):
        (tmp_path / side).write_text("".join(f"{line[side]}\n" for line in lines))
    pair = ("--source", tmp_path / "source", "--target", tmp_path / "text")

    plain = texts(transduce("score", run.folder, *pair))
    scored = objects(transduce("score", run.folder, *pair, "--json"))

    for translated_line, again, line in zip(lines, scored, plain, strict=True):
        assert again["pieces"] == translated_line["pieces"]
        assert again["log_probs"] == pytest.approx(translated_line["log_probs"], abs=1e-5)
        total, mean = map(float, line.split("\t"))
        assert (again["log_prob"], again["mean"]) == pytest.approx((total, mean), abs=1e-4)
        assert total == pytest.approx(sum(translated_line["log_probs"]), abs=1e-3)
        assert mean == pytest.approx(total / len(translated_line["pieces"]), abs=1e-3)


def test_alternatives_go_on_from_where_they_are_asked_for(run: Run, transduce: Transduce):
    result = transduce("alternatives", run.folder, "1 2 3", "--after", "3", "--count", 9)

    rows = [line.split("\t") for line in texts(result)]
    chances = [float(chance) for chance, _, _ in rows]
    assert len(rows) == 9
    assert chances == sorted(chances, reverse=True)
    assert all(text.startswith("3") for _, _, text in rows)


@pytest.fixture
def untaught(run: Run, tmp_path: Path) -> Path:
    """The model of the run as if it had learned nothing: it says one thing for ever."""
    from transduce.bundle.bundle import Bundle

    bundle = Bundle.load(run.folder)
    bundle.model = made(bundle.model.config).eval()
    bundle.save(tmp_path / "untaught")
    return tmp_path / "untaught"


def test_a_loop_is_reported_and_not_where_it_is_to_be_left_as_it_is(
    untaught: Path, transduce: Transduce
):
    lines = b"1 2 3\n4\n"

    mended = transduce("translate", untaught, "--json", stdin=lines)
    left = transduce("translate", untaught, "--json", "--as-is", stdin=lines)

    flagged = [line for line in objects(mended) if line["flag"]]
    assert flagged
    assert all(f"line {line['line']}: {line['flag']}" in mended.err for line in flagged)
    assert [line["flag"] for line in objects(left)] == ["", ""]
    assert "line " not in left.err


def test_what_is_scored_is_what_translate_gives(
    untaught: Path, transduce: Transduce, tmp_path: Path
):
    (tmp_path / "in").write_text("1 2 3\n4\n0 1 0 2\n")
    target = ("--target", tmp_path / "in", "--metric", "chrf", "--json")

    translated = transduce("translate", untaught, "-i", tmp_path / "in", "-o", tmp_path / "out")
    transduce("translate", untaught, "-i", tmp_path / "in", "-o", tmp_path / "raw", "--as-is")
    own = transduce("evaluate", untaught, "--source", tmp_path / "in", *target)
    kept = transduce("evaluate", untaught, "--source", tmp_path / "in", *target, "--as-is")
    given, raw = (
        transduce("evaluate", "--hypotheses", tmp_path / name, *target) for name in ("out", "raw")
    )

    assert "retranslated" in translated.err
    assert own.out == given.out != raw.out
    assert kept.out == raw.out
    assert "repetitive lines retried (" in own.err
    assert "repetitive lines not retried" in kept.err
