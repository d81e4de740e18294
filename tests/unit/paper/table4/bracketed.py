"""Trees to test with: any trees, and one written in brackets."""

from hypothesis import strategies as st

from transduce.paper.table4.trees import Leaf, Tree, parse_trees

LABELS = st.sampled_from(["S", "NP", "VP", "SBAR", "PRT", "WHNP", "X"])
TAGS = st.sampled_from(["DT", "NN", "PRP$", ",", "``", "-LRB-", "$"])
WORDS = st.text(st.sampled_from("ab()[]{}/\\*'$é|=-"), min_size=1, max_size=6).filter(
    lambda word: not word.startswith("-")
)
LEAVES = st.builds(Leaf, TAGS, WORDS)
TREES = st.recursive(
    st.builds(Tree, LABELS, st.lists(LEAVES, min_size=1, max_size=3).map(tuple)),
    lambda inner: st.builds(
        Tree, LABELS, st.lists(inner | LEAVES, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=7,
)
"""Trees without traces and functions."""


def single_tree(text: str) -> Tree:
    """The one tree of a text."""
    (tree,) = parse_trees(text.split("\n"), name="some.mrg")
    return tree
