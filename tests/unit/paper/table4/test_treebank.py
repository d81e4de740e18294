"""A treebank of our own, and the sections of somebody's."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from transduce.paper.table4.grammar import (
    generated,
    read_gold,
    read_parsed,
    read_treebank,
    sentence_tree,
    write_corpus,
)
from transduce.paper.table4.run import brackets_of
from transduce.paper.table4.trees import Tree, delinearise, parse_trees, tidy_tree

DRAWN = tuple(sentence_tree(rng) for rng in [Random(7)] for _ in range(800))


def parts(label: str) -> Counter[tuple[str, ...]]:
    """What the drawn trees' phrases of a label are made of."""
    result: Counter[tuple[str, ...]] = Counter()
    waiting = list(DRAWN)
    while waiting:
        tree = waiting.pop()
        below = [child for child in tree.children if isinstance(child, Tree)]
        waiting += below
        if tree.label == label:
            names = [c.label if isinstance(c, Tree) else c.tag for c in tree.children]
            result[tuple(names)] += 1
    return result


@pytest.fixture
def wsj(tmp_path: Path) -> Path:
    """Sections 00 to 24 with a sentence each, which names its section."""
    for section in range(25):
        folder = tmp_path / "wsj" / f"{section:02}"
        folder.mkdir(parents=True)
        text = f"( (S (NP-SBJ (CD s{section:02})) (VP (VBD fell) (NP (-NONE- *)))) )\n"
        (folder / f"wsj_{section:02}01.mrg").write_text(text)
    return tmp_path


def test_no_two_sets_share_a_sentence_and_none_holds_one_twice():
    bank = generated(train=199, validation=31, test=47)

    sets = (bank.train, bank.validation, bank.test)
    sentences = {tree.words for item in sets for tree in item}
    assert [len(item) for item in sets] == [199, 31, 47]
    assert len(sentences) == 199 + 31 + 47


def test_the_same_seed_draws_the_same_trees_and_another_others():
    few = {"train": 5, "validation": 3, "test": 2}

    assert generated(**few) == generated(**few)
    assert generated(**few, seed=2).train != generated(**few).train


def test_no_sentence_has_two_trees():
    trees: dict[tuple[str, ...], Tree] = {}

    for tree in DRAWN:
        assert trees.setdefault(tree.words, tree) == tree


def test_a_drawn_tree_is_a_treebanks():
    for tree in DRAWN[:200]:
        (read,) = parse_trees([f"( {tree})"], name="drawn")
        assert tidy_tree(read) == tree


def test_prepositions_attach_to_verbs_and_to_nouns():
    assert parts("VP")["VBD", "NP", "PP"] > 20
    assert parts("NP")["NP", "PP"] > 20


def test_relative_clauses_have_the_pronoun_as_subject_or_object():
    clauses = parts("SBAR")["WHNP", "S"]

    assert clauses > 50
    assert parts("S")["VP",] > 20
    assert parts("WHNP").keys() == {("WP",), ("WDT",)}


@pytest.mark.parametrize(
    ("label", "made_of"),
    [
        ("NP", ("NP", "CC", "NP")),
        ("VP", ("VP", "CC", "VP")),
        ("S", ("S", ",", "CC", "S", ".")),
        ("SBAR", ("IN", "S")),
        ("VP", ("VBD", "PRT", "NP")),
        ("VP", ("VBD", "NP", "PRT")),
        ("VP", ("TO", "VP")),
        ("VP", ("MD", "RB", "VP")),
        ("S", ("``", "S", ",", "''", "NP", "VP", ".")),
    ],
)
def test_the_grammar_makes_this_phrase(label: str, made_of: tuple[str, ...]):
    assert parts(label)[made_of] > 0


def test_the_sections_are_the_papers(wsj: Path):
    bank = read_treebank(wsj)

    assert [tree.words[0] for tree in bank.train] == [f"s{n:02}" for n in range(2, 22)]
    assert [str(tree) for tree in bank.validation] == ["(S (NP (CD s22)) (VP (VBD fell)))"]
    assert [tree.words[0] for tree in bank.test] == ["s23"]


def test_a_missing_section_is_named(wsj: Path):
    (wsj / "wsj" / "17" / "wsj_1701.mrg").unlink()

    with pytest.raises(ValueError, match=r"no \.mrg file of section 17: name the folder"):
        read_treebank(wsj)


def test_files_and_folders_without_trees_are_refused(wsj: Path, tmp_path: Path):
    empty = wsj / "wsj" / "17" / "wsj_1701.mrg"
    empty.write_text("\n")
    (tmp_path / "parses").mkdir()

    for path in (empty, tmp_path / "parses"):
        with pytest.raises(ValueError, match=rf"{path.name} holds no trees: name a file"):
            list(read_parsed([wsj / "wsj" / "02", path]))
    with pytest.raises(ValueError, match=r"wsj_1701\.mrg holds no trees"):
        read_treebank(wsj)


def test_the_written_sides_belong_together_and_more_trees_are_only_trained_on(
    wsj: Path, tmp_path: Path
):
    bank, also = generated(train=5, validation=3, test=2), [wsj / "wsj" / "00"]

    write_corpus(bank, tmp_path / "corpus", also=read_parsed(also))

    for name, trees in (
        ("train", bank.train),
        ("validation", bank.validation),
        ("test", bank.test),
    ):
        sides = [(tmp_path / "corpus" / f"{name}.{side}") for side in ("words", "tree")]
        words, written = (file.read_text().split("\n")[:-1] for file in sides)
        more = 1 if name == "train" else 0
        assert words[: len(trees)] == [" ".join(tree.words) for tree in trees]
        assert len(words) == len(written) == len(trees) + more
        for tree, line in zip(trees, written, strict=False):
            assert delinearise(line, tree.leaves, tags=True) == (tree, (0,) * 7)
    assert read_gold(tmp_path / "corpus") == bank.test


def test_every_tree_has_brackets_to_score():
    assert all(brackets_of(tree).total() >= 3 for tree in DRAWN)
