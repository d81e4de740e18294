import sys

import pytest

from transduce.evaluation.metrics import bleu
from transduce.paper.table2.report import paper_bleu, split_compounds

REFERENCES = [
    "Das Rich-Text-Format ist ein Datei-Format für alte Programme .",
    "Der Zug fährt heute um acht Uhr nach Berlin .",
]
HYPOTHESES = [
    "Das Rich-Media-Format ist ein Text-Format für alte Programme .",
    "Der Zug fährt heute um acht Uhr nach Hamburg .",
]


def test_a_compound_is_split_at_its_hyphen():
    assert split_compounds("rich-text format") == "rich ##AT##-##AT## text format"


def test_a_hyphen_beside_a_blank_stays():
    assert split_compounds("ein - zwei -drei vier-") == "ein - zwei -drei vier-"


def test_hyphens_around_one_letter_are_split_every_other_time_as_the_script_did():
    assert split_compounds("a-b-c") == "a ##AT##-##AT## b-c"


def test_half_right_compounds_score_in_the_papers_way_alone():
    """Two words of three are right in one compound, one of two in the other."""
    score = bleu(HYPOTHESES, REFERENCES, tokenize="none")
    papers = paper_bleu(HYPOTHESES, REFERENCES, tokenise=str)

    assert papers.value > score.value + 5


def test_german_alone_has_its_compounds_split():
    german = paper_bleu(HYPOTHESES, REFERENCES, tokenise=str)
    french = paper_bleu(HYPOTHESES, REFERENCES, language="fr", tokenise=str)

    assert french.value == pytest.approx(bleu(HYPOTHESES, REFERENCES, tokenize="none").value)
    assert german.value > french.value


def test_a_score_says_how_it_was_measured():
    result = paper_bleu(HYPOTHESES, REFERENCES, tokenise=str)

    assert result.name == "tokenised BLEU"
    assert result.signature.startswith("Moses tokens, compounds split; nrefs:1")
    assert "tok:none|smooth:none" in result.signature


def test_nothing_is_smoothed():
    assert paper_bleu(["ja"], ["ja"], tokenise=str).value == 0.0


@pytest.mark.parametrize("lines", [[], ["eins"]])
def test_unequal_lines_and_no_lines_are_refused(lines: list[str]):
    with pytest.raises(ValueError, match=r"line n must translate line n|nothing to score"):
        paper_bleu(lines, [], tokenise=str)


def test_without_sacremoses_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)

    with pytest.raises(ValueError, match="the tokeniser of Moses: pip install"):
        paper_bleu(HYPOTHESES, REFERENCES)


def test_the_tokeniser_of_moses_cuts_punctuation_off():
    pytest.importorskip("sacremoses")
    glued, apart = ["Gut, der Zug fährt ab."], ["Gut , der Zug fährt ab ."]

    assert paper_bleu(glued, apart).value == pytest.approx(100.0)
