"""What became of a glossary is counted on whole words, line by line."""

from transduce.inference.glossary import GlossaryReport, Term, TermCount, glossary_report

DOG, HOUND, CAT = Term("dog", "Hund"), Term("hound", "Hund"), Term("cat", "Katze")
ICE = Term("ice cream", "Eis am Stiel")


def test_a_term_is_honoured_where_its_target_stands():
    result = glossary_report(
        [("a dog", "ein Hund"), ("no cat", "nichts"), ("dog", "Hund")], (DOG, CAT)
    )

    assert result.counts == (TermCount(DOG, 2, 2, 0, 0), TermCount(CAT, 1, 0, 0, 2))


def test_a_target_where_no_term_applied_counts_nothing():
    assert glossary_report([("a horse", "ein Hund")], (DOG,)).counts == ()


def test_a_longer_word_is_told_from_the_term_itself():
    (count,) = glossary_report([("a dog, a dog", "Hunde und ein Hund")], (DOG,)).counts

    assert (count.applied, count.inflected) == (1, 1)


def test_a_longer_end_is_seen_behind_several_words():
    (count,) = glossary_report([("ice cream", "Eis am Stiele")], (ICE,)).counts

    assert (count.applied, count.inflected) == (0, 1)


def test_a_word_that_only_ends_like_the_target_is_neither():
    (count,) = glossary_report([("a dog", "ein Windhund, ein Wind-hund")], (DOG,)).counts

    assert (count.applied, count.inflected) == (0, 0)


def test_one_word_answers_for_one_term():
    result = glossary_report([("a dog and a hound", "ein Hund")], (DOG, HOUND))

    assert [count.applied for count in result.counts] == [1, 0]


def test_one_longer_word_answers_for_one_term():
    result = glossary_report([("a dog and a hound", "zwei Hunde")], (DOG, HOUND))

    assert [count.inflected for count in result.counts] == [1, 0]


def test_all_words_of_a_target_must_stand_there():
    (count,) = glossary_report([("ice cream", "Eis mit Stiel")], (ICE,)).counts

    assert (count.applied, count.inflected) == (0, 0)


def test_one_word_is_no_part_of_two_targets():
    (count,) = glossary_report([("bye and bye", "na na na")], (Term("bye", "na na"),)).counts

    assert count.applied == 1


def test_two_targets_on_one_line_do_not_answer_for_another_line():
    (count,) = glossary_report([("dog", "Hund Hund"), ("dog", "")], (DOG,), first_line=7).counts

    assert (count.occurrences, count.applied, count.first_missed_line) == (2, 1, 8)


def test_a_target_may_have_the_capital_of_the_first_word():
    term = Term("Hund", "dog")

    (count,) = glossary_report([("Hund da", "Dog here, a Dog")], (term,)).counts

    assert count.applied == 1


def test_counts_of_two_batches_are_one():
    first = glossary_report([("dog cat", "Hund Katze")], (DOG, CAT))
    second = glossary_report([("dog", "Hunde"), ("dog", "")], (DOG, CAT), first_line=2)

    assert (first + second).counts == (TermCount(DOG, 3, 1, 1, 2), TermCount(CAT, 1, 1, 0, 0))


def test_the_summary_names_what_was_not_honoured():
    result = glossary_report([("dog dog cat", "Hund Hunde Katze")], (DOG, CAT))

    assert result.summary() == (
        "glossary: 2 of 3 terms applied\n  dog → Hund: 1 of 2, 1 more inflected; see line 1"
    )


def test_the_summary_of_many_terms_is_cut():
    terms = tuple(Term(f"a{place}", "b") for place in range(23))

    summary = glossary_report([(" ".join(term.source for term in terms), "")], terms).summary()

    assert summary.count("\n") == 21
    assert summary.endswith("and 3 more terms")


def test_a_summary_of_nothing_says_so():
    assert GlossaryReport().summary() == "glossary: no term occurs in the source"
