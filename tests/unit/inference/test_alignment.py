"""Words are put together from pieces, and linked by what attention says of them."""

import numpy as np
import pytest
from jaxtyping import Float

from transduce.data.tokenizer import Tokenizer
from transduce.inference.alignment import Link, align, combined_attention, group_pieces, to_pharaoh
from transduce.model.trace import cross_attention
from transduce.model.transformer import Transformer

SOURCE = ("▁the", "▁sun", "flower", "</s>")
TARGET = ("▁die", "▁Son", "nen", "blume", "</s>")


def looking(places: list[int], source: int) -> Float[np.ndarray, "target source"]:
    """Each piece looks at one place, and a little at all."""
    look = np.full((len(places), source), 0.1 / source)
    look[range(len(places)), places] += 0.9
    return look


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (SOURCE, ((0,), (1, 2))),
        (("▁", "a", "▁b"), ((0, 1), (2,))),
        (("▁a", "▁", "▁b", "▁", "</s>"), ((0,), (2,))),  # blanks twice, and at the end
        (("a", "b", "▁c"), ((0, 1), (2,))),  # pieces drawn so that no blank stands before
        (("▁a", "</s>", "▁b", "c", "</s>"), ((0,), (2, 3))),  # a line in two parts
        (("▁a", "</s>", "b"), ((0,), (2,))),
        (("</s>",), ()),
        ((), ()),
    ],
)
def test_pieces_make_words(pieces: tuple[str, ...], expected: tuple[tuple[int, ...], ...]):
    assert group_pieces(pieces) == expected


def test_words_are_those_that_blanks_part(tokenizer: Tokenizer):
    text = "der  alte Mann liest ein Buch"

    pieces = tokenizer.pieces([*tokenizer.encode(text), Tokenizer.EOS])

    words = ["".join(pieces[place] for place in word) for word in group_pieces(pieces)]
    assert [word.strip("▁") for word in words] == text.split()


def test_a_word_is_linked_to_the_word_it_looks_at():
    cross = looking([0, 1, 2, 1, 3], 4)[None, None]

    assert align(cross, SOURCE, TARGET) == (Link(0, 0), Link(1, 1))


def test_a_words_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    look = np.array(  # the first piece alone would choose "the", and so would single pieces
        [
            [1.0, 0.0, 0.0, 0.0],
            [0.5, 0.3, 0.1, 0.1],
            [0.3, 0.3, 0.3, 0.1],
            [0.3, 0.3, 0.3, 0.1],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )

    assert align(look[None, None], SOURCE, TARGET) == (Link(0, 0), Link(1, 1))


def test_a_head_that_looks_a_step_later_is_read_a_step_later():
    due = looking([0, 1, 2, 1, 3], 4)
    late = np.concatenate([looking([3], 4), due[:-1]])

    result = combined_attention(np.stack([late, due])[:, None])

    assert (result[:3].argmax(1) == due[:3].argmax(1)).all()
    assert result[1, 1] > 0.9


def test_a_head_that_agrees_with_none_weighs_little():
    due = looking([0, 1, 2, 1, 3], 4)
    away = looking([3, 3, 3, 0, 0], 4)

    result = combined_attention(np.stack([np.stack([away, away]), np.stack([due, due])]))

    assert result[0, 0] > 0.85


def test_a_look_is_shared_out_whole():
    result = combined_attention(np.random.default_rng(1).dirichlet(np.ones(7), (3, 2, 5)))

    assert np.allclose(result.sum(1), 1.0)


def test_a_blank_side_has_no_links():
    cross = np.ones((1, 1, 2, 1))

    assert align(cross, ("</s>",), ("▁a", "</s>")) == ()


def test_a_cut_translation_is_aligned_to_its_end():
    cross = looking([0, 1], 3)[None, None]

    assert align(cross, ("▁a", "▁b", "</s>"), ("▁x", "▁y")) == (Link(0, 0), Link(1, 1))


def test_a_models_attention_is_aligned(untrained: Transformer, tokenizer: Tokenizer):
    read, result = (
        [*tokenizer.encode(text), Tokenizer.EOS] for text in ("the old man", "der Mann liest ein")
    )

    cross = cross_attention(untrained, read, result)
    links = align(cross, tokenizer.pieces(read), tokenizer.pieces(result))

    assert [link.target for link in links] == [0, 1, 2, 3]
    assert all(0 <= link.source < 3 for link in links)


def test_pharaohs_format_puts_the_source_first():
    assert to_pharaoh([Link(source=5, target=0), Link(0, 1)]) == "5-0 0-1"
    assert to_pharaoh([]) == ""
