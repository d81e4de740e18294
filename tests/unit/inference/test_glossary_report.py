"""What became of a glossary is counted on whole words, line by line."""

from collections.abc import Sequence

from transduce.inference.glossary import GlossaryReport, Term, TermCount

DOG, HOUND, CAT = Term("dog", "Hund"), Term("hound", "Hund"), Term("cat", "Katze")
ICE = Term("ice cream", "Eis am Stiel")


def reported(
    pairs: Sequence[tuple[str, str]], terms: tuple[Term, ...], *, first_line: int = 1
) -> GlossaryReport:
    report = GlossaryReport(terms)
    for line, (source, translation) in enumerate(pairs, first_line):
        report.add(source, translation, line=line)
    return report


def counted(
    pairs: Sequence[tuple[str, str]], terms: tuple[Term, ...], *, first_line: int = 1
) -> list[TermCount]:
    return [*reported(pairs, terms, first_line=first_line).counts.values()]


def test_a_term_is_honoured_where_its_target_stands():
    counts = counted([("a dog", "ein Hund"), ("no cat", "nichts"), ("dog", "Hund")], (DOG, CAT))

    assert counts == [TermCount(DOG, 2, 2, 0, 0), TermCount(CAT, 1, 0, 0, 2)]


def test_a_target_where_no_term_applied_counts_nothing():
    assert counted([("a horse", "ein Hund")], (DOG,)) == []


def test_a_longer_word_is_told_from_the_term_itself():
    (count,) = counted([("a dog, a dog", "Hunde und ein Hund")], (DOG,))

    assert (count.applied, count.inflected) == (1, 1)


def test_a_longer_end_is_seen_behind_several_words():
    (count,) = counted([("ice cream", "Eis am Stiele")], (ICE,))

    assert (count.applied, count.inflected) == (0, 1)


def test_a_word_that_only_ends_like_the_target_is_neither():
    (count,) = counted([("a dog", "ein Windhund, ein Wind-hund")], (DOG,))

    assert (count.applied, count.inflected) == (0, 0)


def test_one_word_answers_for_one_term():
    counts = counted([("a dog and a hound", "ein Hund")], (DOG, HOUND))

    assert [count.applied for count in counts] == [1, 0]


def test_one_longer_word_answers_for_one_term():
    counts = counted([("a dog and a hound", "zwei Hunde")], (DOG, HOUND))

    assert [count.inflected for count in counts] == [1, 0]


def test_all_words_of_a_target_must_stand_there():
    (count,) = counted([("ice cream", "Eis mit Stiel")], (ICE,))

    assert (count.applied, count.inflected) == (0, 0)


def test_one_word_is_no_part_of_two_targets():
    (count,) = counted([("bye and bye", "na na na")], (Term("bye", "na na"),))

    assert count.applied == 1


def test_two_targets_on_one_line_do_not_answer_for_another_line():
    (count,) = counted([("dog", "Hund Hund"), ("dog", "")], (DOG,), first_line=7)

    assert (count.occurrences, count.applied, count.first_missed_line) == (2, 1, 8)


def test_a_target_may_have_the_capital_of_the_first_word():
    term = Term("Hund", "dog")

    (count,) = counted([("Hund da", "Dog here, a Dog")], (term,))

    assert count.applied == 1


def test_counts_of_all_lines_add_up():
    counts = counted([("dog cat", "Hund Katze"), ("dog", "Hunde"), ("dog", "")], (DOG, CAT))

    assert counts == [TermCount(DOG, 3, 1, 1, 2), TermCount(CAT, 1, 1, 0, 0)]


def test_the_summary_names_what_was_not_honoured():
    result = reported([("dog dog cat", "Hund Hunde Katze")], (DOG, CAT))

    assert result.summary() == (
        "glossary: 2 of 3 terms applied\n  dog → Hund: 1 of 2, 1 more inflected; see line 1"
    )


def test_the_summary_of_many_terms_is_cut():
    terms = tuple(Term(f"a{place}", "b") for place in range(23))

    summary = reported([(" ".join(term.source for term in terms), "")], terms).summary()

    assert summary.count("\n") == 21
    assert summary.endswith("and 3 more terms")


def test_a_summary_of_nothing_says_so():
    assert GlossaryReport(()).summary() == "glossary: no term occurs in the source"
