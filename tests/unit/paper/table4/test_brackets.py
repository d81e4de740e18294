"""Brackets counted by hand, by the published rules of EVALB and its COLLINS.prm.

`PARSES` repeats the cases of EVALB's published sample over a sentence of ours: the counts beside
them are those that its authors publish (`sample.rsl`).
"""

import pytest
from tests.unit.paper.table4.bracketed import single_tree

from transduce.paper.table4.run import Sums, brackets_of, score_tree, score_trees
from transduce.paper.table4.trees import Tree

GOLD = "(S (NP (PRP we)) (VP (VBP are) (NP (DT the) (NN rain))))"
PARSES = [
    # parse, matched, gold, test
    ("(S (NP (PRP we)) (VP (VBP are) (NP (DT the) (NN rain))))", 4, 4, 4),
    ("(S (NP (PRP we)) (VP (VBP are) (QP (DT the) (NN rain))))", 3, 4, 4),
    ("(S (NP (PRP we)) (VP (VBP are) (NP (DT the) (VB rain))))", 4, 4, 4),
    ("(S (QP (PRP we)) (VP (VBP are) (NP (DT the) (VB rain))))", 3, 4, 4),
    ("(S (NP (PRP we)) (VP (VBP are) (DT the) (NP (NN rain))))", 3, 4, 4),
    ("(S (NP (PRP we) (VBP are)) (NP (DT the) (NN rain)))", 2, 4, 3),
    ("(S (PRP we) (VBP are) (DT the) (NN rain))", 1, 4, 1),
    ("(TOP (PRP we) (VBP are) (DT the) (NN rain))", 0, 4, 0),
    ("(S (NP (PRP we)) (VP (VBP are) (NP (NP (DT the) (NN rain)))))", 4, 4, 5),
    ("(S (NP (PRP we)) (VP (VBP are) (NP (NP (NP (NP (NP (DT the) (NN rain))))))))", 4, 4, 8),
    ("(TOP (S (NP (PRP we)) (VP (VBP are) (NP (DT the) (NN rain)))))", 4, 4, 4),
    ("(S (NP-SBJ-1 (PRP we)) (VP-X (VBP are) (NP=2 (DT the) (NN rain))))", 4, 4, 4),
]


def counts(gold: Tree, test: Tree) -> tuple[int, ...]:
    return tuple(counter.total() for counter in score_tree(gold, test))


@pytest.mark.parametrize(("parse", "matched", "gold", "test"), PARSES)
def test_brackets_are_counted_as_evalb_counts_them(parse: str, matched: int, gold: int, test: int):
    assert counts(single_tree(GOLD), single_tree(parse)) == (gold, test, matched)


def test_sums_are_taken_before_they_are_divided():
    tests = [single_tree(parse) for parse, *_ in PARSES]

    result = score_trees([single_tree(GOLD)] * len(tests), tests)

    matched, gold, test = (sum(row[column] for row in PARSES) for column in (1, 2, 3))
    assert result.sums == Sums(gold=gold, test=test, matched=matched)
    assert (matched, gold, test) == (36, 48, 45)
    assert result.sums.precision == pytest.approx(100 * 36 / 45)
    assert result.sums.recall == pytest.approx(100 * 36 / 48)
    assert result.sums.f1 == pytest.approx(2 * 100 * 36 / (45 + 48))
    assert result.exact == pytest.approx(100 * 4 / 12)


@pytest.mark.parametrize("mark", [",", ":", "``", "''", "."])
def test_punctuation_is_taken_out_before_brackets_are_measured(mark: str):
    gold = single_tree(f"(S (NP (PRP we)) ({mark} x) (VP (VBD fell)))")
    within = single_tree(f"(S (NP (PRP we) ({mark} x)) (VP (VBD fell)))")

    assert counts(gold, within) == (3, 3, 3)
    assert brackets_of(gold).keys() == {("S", 0, 2), ("NP", 0, 1), ("VP", 1, 2)}


@pytest.mark.parametrize("mark", ["$", "#", "-LRB-"])
def test_other_marks_are_words(mark: str):
    assert brackets_of(single_tree(f"(S (NN a) ({mark} x))")).keys() == {("S", 0, 2)}


def test_a_bracket_of_nothing_but_punctuation_and_traces_is_none():
    tree = single_tree("(S (X (. .)) (NP (-NONE- *T*)) (NN a))")

    assert brackets_of(tree).keys() == {("S", 0, 1)}


def test_a_label_that_begins_with_a_hyphen_is_a_label():
    assert brackets_of(single_tree("(-X- (NN a))")).keys() == {("-X-", 0, 1)}


def test_particles_and_adverbs_are_one_label():
    gold = single_tree("(VP (VBD put) (PRT (RP down)))")
    test = single_tree("(VP (VBD put) (ADVP (RB down)))")

    assert counts(gold, test) == (2, 2, 2)


@pytest.mark.parametrize("label", ["TOP", "ROOT", "S1", ""])
def test_the_outermost_bracket_is_not_counted(label: str):
    assert brackets_of(single_tree(f"({label} (S (NN a)))")).keys() == {("S", 0, 1)}


@pytest.mark.parametrize(("golds", "tests", "matched"), [(1, 3, 1), (3, 1, 1), (2, 2, 2)])
def test_a_bracket_over_itself_counts_as_often_as_it_stands_in_both(
    golds: int, tests: int, matched: int
):
    trees = [single_tree("(NP " * count + "(NN a)" + ")" * count) for count in (golds, tests)]

    assert counts(*trees) == (golds, tests, matched)


def test_a_sentence_of_punctuation_alone_is_skipped():
    gold, dots = single_tree("(S (NN rain))"), single_tree("(S (. .) (. .))")

    result = score_trees([dots, gold], [dots, gold])

    assert (result.sentences, result.skipped) == (2, 1)
    assert result.sums == Sums(gold=1, test=1, matched=1)
    assert result.exact == 100.0


def test_all_sentences_left_out_is_a_score_of_zero():
    dots = single_tree("(S (. .))")

    result = score_trees([dots], [dots])

    assert (result.sums.f1, result.low, result.high, result.exact) == (0.0, 0.0, 0.0, 0.0)


def test_labels_have_sums_of_their_own_the_commonest_first():
    result = score_trees([single_tree(GOLD)], [single_tree(PARSES[1][0])])

    assert list(result.labels) == ["NP", "S", "VP", "QP"]
    assert result.labels["NP"] == Sums(gold=2, test=1, matched=1)
    assert result.labels["QP"] == Sums(gold=0, test=1, matched=0)


def test_the_interval_holds_the_score_and_is_the_same_every_time():
    tests = [single_tree(parse) for parse, *_ in PARSES]
    golds = [single_tree(GOLD)] * len(tests)

    result = score_trees(golds, tests)

    assert result.low < result.sums.f1 < result.high
    assert score_trees(golds, tests) == result


def test_equal_sentences_leave_nothing_to_chance():
    result = score_trees([single_tree(GOLD)] * 3, [single_tree(PARSES[1][0])] * 3)

    assert result.low == result.high == pytest.approx(result.sums.f1)
