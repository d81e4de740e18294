"""A tree survives being written as a sequence, and any sequence becomes a tree over the words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.paper.table4.bracketed import TREES, single_tree

from transduce.paper.table4.trees import Faults, Leaf, Tree, delinearise, linearise

quick = settings(max_examples=50, deadline=None, database=None, derandomize=True)

THREE = (Leaf("DT", "the"), Leaf("NN", "rain"), Leaf("VBD", "fell"))
SOUP = st.lists(
    st.sampled_from(
        ["(S", ")S", "(NP", ")NP", "XX", "DT", "(", ")", "((", "()", ")X)", " ⁇ ", "-"]
    ),
    max_size=30,
).map(" ".join)
SENTENCES = st.lists(st.builds(Leaf, st.just("T"), st.text("abc", min_size=1)), min_size=1)


def mended(output: str) -> tuple[str, dict[str, int]]:
    """What an output over three words becomes, and what was wrong with it."""
    tree, faults = delinearise(output, THREE)
    return str(tree), {name: count for name, count in faults._asdict().items() if count}


def test_a_tree_is_written_with_labels_at_both_ends_and_parts_of_speech_for_words():
    tree = single_tree("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")

    assert linearise(tree) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"


@pytest.mark.parametrize("tags", [False, True])
@quick
@given(tree=TREES)
def test_a_written_tree_is_read_as_the_same_tree(tree: Tree, tags: bool):
    result = delinearise(linearise(tree), tree.leaves, tags=tags)

    assert result.tree == tree
    assert result.well_formed


@quick
@given(output=SOUP | st.text(max_size=30), leaves=SENTENCES)
def test_any_output_becomes_a_tree_over_all_the_words(output: str, leaves: list[Leaf]):
    result = delinearise(output, leaves)

    assert result.tree.leaves == tuple(leaves)
    assert single_tree(str(result.tree)) == result.tree


@quick
@given(output=SOUP, leaves=SENTENCES)
def test_a_mended_tree_needs_no_mending(output: str, leaves: list[Leaf]):
    tree = delinearise(output, leaves).tree

    assert delinearise(linearise(tree), leaves).well_formed


@pytest.mark.parametrize(
    ("output", "tree", "faults"),
    [
        (
            "(S (NP XX XX (VP XX )VP )S",
            "(S (NP (DT the) (NN rain) (VP (VBD fell))))",
            "never_closed",
        ),
        ("(S (NP XX XX )NP XX", "(S (NP (DT the) (NN rain)) (VBD fell))", "never_closed"),
        ("(S XX XX )NP XX )S", "(S (DT the) (NN rain) (VBD fell))", "never_opened"),
        ("(S XX (NP )NP XX XX )S", "(S (DT the) (NN rain) (VBD fell))", "empty"),
        ("(S XX ( XX XX )S", "(S (DT the) (NN rain) (VBD fell))", "nonsense"),
        ("(S (NP XX XX )NP )S", "(S (NP (DT the) (NN rain)) (VBD fell))", "missing_words"),
        ("(S XX XX XX XX )S", "(S (DT the) (NN rain) (VBD fell))", "surplus_words"),
        ("(S XX )S XX XX", "(S (DT the) (NN rain) (VBD fell))", "roots"),
        ("XX (S XX XX )S", "(S (DT the) (NN rain) (VBD fell))", "roots"),
        ("(S XX )S (X XX XX )X", "(TOP (S (DT the)) (X (NN rain) (VBD fell)))", "roots"),
        ("XX XX XX", "(TOP (DT the) (NN rain) (VBD fell))", "roots"),
        ("", "(TOP (DT the) (NN rain) (VBD fell))", "missing_words"),
    ],
)
def test_each_rule_of_mending(output: str, tree: str, faults: str):
    result, wrong = mended(output)

    assert result == tree
    assert list(wrong) == [faults]


def test_what_was_wrong_is_counted_as_often_as_it_was():
    _, wrong = mended("(S XX (NP )NP (NP )NP )X )Y )Z XX XX XX XX XX")

    assert wrong == {"never_closed": 1, "never_opened": 3, "empty": 2, "surplus_words": 3}


def test_brackets_without_end_do_not_break_the_reader():
    result = delinearise("(NP " * 5000, THREE)

    assert result.faults.nonsense == 5000 - 100
    assert result.tree.leaves == THREE


def test_tags_are_the_sentences_unless_the_outputs_are_asked_for():
    output = "(S VB NN"

    assert delinearise(output, THREE).tree.leaves == THREE
    output_tags = delinearise(output, THREE, tags=True).tree.leaves
    assert [leaf.tag for leaf in output_tags] == ["VB", "NN", "VBD"]


def test_an_output_without_fault_is_well_formed():
    assert delinearise("(S XX XX XX )S", THREE).faults == Faults()
