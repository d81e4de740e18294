"""Trees come out of brackets as they went in; what a treebank adds is taken off."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.paper.table4.bracketed import TREES, single_tree

from transduce.paper.table4.trees import (
    DEEPEST,
    Tree,
    draw_tree,
    parse_trees,
    read_trees,
    tidy_tree,
)

quick = settings(max_examples=40, deadline=None, database=None, derandomize=True)


def tidied(text: str) -> str:
    return str(tidy_tree(single_tree(text)))


@quick
@given(tree=TREES)
def test_a_tree_that_is_written_is_read_as_the_same_tree(tree: Tree):
    assert single_tree(str(tree)) == tree


@quick
@given(tree=TREES)
def test_a_tree_that_has_nothing_to_tidy_stays_as_it_is(tree: Tree):
    assert tidy_tree(Tree("", (tree,))) == tree


def test_a_tree_goes_over_many_lines_and_a_file_holds_several(tmp_path: Path):
    file = tmp_path / "wsj_0201.mrg"
    file.write_text("\n( (S (NP (NN rain))\n    (VP (VBD fell)) \n (. .)) )\n( (X (UH oh)) )\n")

    trees = [str(tree) for tree in read_trees(file)]

    assert trees == ["(S (NP (NN rain)) (VP (VBD fell)) (. .))", "(X (UH oh))"]


def test_comments_between_trees_are_passed_over():
    lines = ["*x* Copyright", "# one", "(X (# #) (CD 5))", "; two", "% three"]

    assert [str(tree) for tree in parse_trees(lines, name="f")] == ["(X (# #) (CD 5))"]


def test_a_trace_goes_and_every_phrase_that_it_leaves_empty():
    result = tidied("( (VP (VBD reported) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))))")

    assert result == "(VP (VBD reported))"


def test_a_sentence_of_nothing_but_traces_is_left_out(tmp_path: Path):
    file = tmp_path / "f.mrg"
    file.write_text("( (S (NP-SBJ (-NONE- *))) )\n")

    assert list(read_trees(file)) == []


@pytest.mark.parametrize(
    ("label", "bare"),
    [("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("PP-LOC=3", "PP"), ("PRT|ADVP", "PRT"), ("-X", "-X")],
)
def test_a_label_ends_where_its_function_begins(label: str, bare: str):
    assert tidied(f"( ({label} (NN rain)))") == f"({bare} (NN rain))"


def test_a_part_of_speech_keeps_its_hyphens():
    assert tidied("( (X (-LRB- -LRB-) (NN a)))") == "(X (-LRB- -LRB-) (NN a))"


def test_escaped_words_are_read_as_people_write_them():
    tree = single_tree(r"(X (-LRB- -LRB-) (CD 1\/2) (NN *\*) (-RRB- -RRB-))")

    assert tree.words == ("(", "1/2", "**", ")")


@pytest.mark.parametrize("label", ["", "TOP", "ROOT", "S1"])
def test_an_outer_bracket_around_one_phrase_goes(label: str):
    assert tidied(f"({label} (S (NN rain)))") == "(S (NN rain))"


def test_an_outer_bracket_around_several_is_called_top():
    assert tidied("( (S (NN rain)) (. .))") == "(TOP (S (NN rain)) (. .))"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\n(S (NP (NN rain))", 2, "never closed"),
        ("(X (NN a))\n)", 2, "outside all brackets"),
        ("(X (NN a))\nrain", 2, "outside all brackets"),
        ("(S\n(NN two words))", 2, "holds 2 words"),
        ("(S (NN a)\nrain)", 2, "bracket of its own"),
        ("(S ())", 1, "holds nothing"),
        ("(S)", 1, "holds nothing"),
        ("(S word (NN a))", 1, "opens behind the word word"),
        ("(" * (DEEPEST + 1), 1, f"more than {DEEPEST} brackets"),
    ],
)
def test_what_is_no_tree_is_refused_in_one_line_that_names_its_own(
    text: str, line: int, message: str
):
    with pytest.raises(ValueError, match=rf"^some\.mrg, line {line}: .*{message}") as refused:
        single_tree(text)

    assert "\n" not in str(refused.value)


@quick
@given(text=st.text(st.sampled_from("() aNP-\n#"), max_size=40))
def test_any_text_is_read_or_refused(text: str):
    try:
        trees = list(parse_trees(text.split("\n"), name="some.mrg"))
    except ValueError as refused:
        trees, message = [], str(refused)
    else:
        message = "some.mrg, line 1: nothing"

    assert message.startswith("some.mrg, line ")
    assert all(tree.words for tree in trees)


def test_a_drawn_tree_has_a_line_for_each_phrase_and_word():
    tree = single_tree("(S (NP (NN a) (NN a)) (VP (VBD b)))")

    assert draw_tree(tree).split("\n") == [
        "S",
        "├── NP",
        "│   ├── NN a",
        "│   └── NN a",
        "└── VP",
        "    └── VBD b",
    ]
