"""What must come out whole does, and text of a model is never markup."""

import time
from collections import Counter
from html.parser import HTMLParser
from itertools import cycle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transduce.data.segmentation import MAX_SENTENCE_LENGTH
from transduce.documents import placeholders
from transduce.documents.html import HTML_RULES, TagRules, tokenize_html, visible_text
from transduce.documents.markup import (
    MarkedSentence,
    Markup,
    ProtectedSpan,
    RestoredText,
    SegmentedText,
    UnitTranslation,
    restore_text,
    segment_text,
)

HOSTILE = ["<script>", "</p>", "<b>", "&lt;", "&", "{name}", "a\nb", "<!--", '">', "", "%s", "犬"]


def segment_texts(text: str, markup: Markup) -> list[str]:
    return [ask.text for ask in segment_text(text, markup).units]


def restore(text: str, markup: Markup, **translations: str) -> RestoredText:
    """Put together from what a sentence becomes: by its first word, the others in capitals."""
    apart = segment_text(text, markup)
    return restore_text(apart, [UnitTranslation(ask.text.upper()) for ask in apart.units])


def aligned(page: str, translation: str, alignment: str, *, rules: TagRules = HTML_RULES) -> str:
    """The page whose one sentence becomes `translation`; a run becomes a question mark."""
    apart = segment_text(page, "html", rules=rules)
    unit, *runs = apart.units
    assert unit.align
    return restore_text(
        apart, [UnitTranslation(translation, alignment), *(UnitTranslation("?") for _ in runs)]
    ).text


def same(apart: SegmentedText) -> list[UnitTranslation]:
    return [UnitTranslation(ask.text) for ask in apart.units]


# What is minded in text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{name}",
            "{0}",
            "{}",
            "{0:.2f}",
            "{{ user.name }}",
            "{% if x %}",
            "${x}",
            "%{x}",
            "$HOME",
        ),
        *("%s", "%d", "%(name)s", "%1$s", "%.2f", "%03d", "%%", "%@", "<b>", "</b>", "<br/>"),
        *("%1$,d", "%,d", "%+,.2f", "%<name>s", "%<count>d"),
        *("{count, number}", "{d, date, short}", "{ n , number , ::percent }"),
        *("<00:01.500>", "<00:00:00.480>", "<c.yellow>", "<v.loud Ann>", "<c.a.b>", "</c.a>"),
        *('<a href="x y">', "&nbsp;", "&#39;", "&#x27;", "https://a.b/c?d=1&e", "www.a.org/b"),
        *("a.b+c@d-e.org", ":smile:", "🎉", "👩‍👩‍👧", "❤️", "🇩🇪"),
    ],
)
def test_a_placeholder_is_found(text: str):
    sentence = f"One {text} two"

    assert [sentence[start:end] for start, end in placeholders.find(sentence)] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "100 % der",
        "100%ige Sicherheit",
        "$5",
        "@anna #tag",
        "a < b > c",
        "AT&T",
        "12:30:45",
        "{a b}",
        "{a, numbered}",
    ],
)
def test_what_people_write_is_no_placeholder(text: str):
    assert placeholders.find(text) == []


def test_marks_behind_an_address_are_not_of_it():
    text = "See https://a.b/c, (http://d.e) or f@g.org."

    result = [text[start:end] for start, end in placeholders.find(text)]

    assert result == ["https://a.b/c", "http://d.e", "f@g.org"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("请访问https://a.org了解更多。然后点击确定。", "https://a.org"),
        ("联系我们a@b.org", "a@b.org"),
        ("$HOME目录下的文件", "$HOME"),
    ],
)
def test_a_script_without_spaces_ends_a_placeholder(text: str, kept: str):
    assert [text[start:end] for start, end in placeholders.find(text)] == [kept]


# Text


def test_plain_text_minds_white_space_alone():
    assert segment_texts(" Hi {name}.\n\nBye. ", "none") == ["Hi {name}.", "Bye."]
    assert restore(" Hi {name}.\r\n\r\nBye.  ", "none") == RestoredText(
        " HI {NAME}.\r\n\r\nBYE.  ", ()
    )


def test_a_sentence_with_placeholders_is_asked_for_whole_and_in_runs():
    asks = segment_text("Hi {name}, go. Ok.", "placeholders").units

    assert [ask.text for ask in asks] == ["Hi {name}, go.", "Hi", "go.", "Ok."]
    assert [ask.run for ask in asks] == [False, True, True, False]


def test_the_whole_is_taken_if_all_placeholders_are_in_it():
    apart = segment_text("Hi {name}, go.", "placeholders")

    together = restore_text(
        apart, [UnitTranslation("Geh, {name}."), UnitTranslation("x"), UnitTranslation("y")]
    )

    assert together == RestoredText("Geh, {name}.", ())


@pytest.mark.parametrize(
    "markup_text", ["Geh, Name.", "{name}, geh, {name}", "{name} {x}", "{ name }"]
)
def test_else_the_runs_are_joined(markup_text: str):
    apart = segment_text("Hi {name}, go.", "placeholders")

    together = restore_text(
        apart, [UnitTranslation(markup_text), UnitTranslation("Hallo"), UnitTranslation("geh.")]
    )

    assert together == RestoredText("Hallo {name}, geh.", ())


def test_a_run_that_says_a_placeholder_is_reported():
    apart = segment_text("Hi {name}, go.", "placeholders")

    together = restore_text(
        apart, [UnitTranslation("x"), UnitTranslation("Hallo {name}"), UnitTranslation("geh.")]
    )

    assert together == RestoredText("Hallo {name} {name}, geh.", ("{name}",))


def test_a_placeholder_out_of_nothing_is_reported():
    apart = segment_text("Go.", "placeholders")

    assert restore_text(apart, [UnitTranslation("Geh %s")]) == RestoredText("Geh %s", ("%s",))


def test_a_sentence_is_not_cut_within_a_placeholder():
    assert segment_texts("Go {% if A. B %} now.", "placeholders")[0] == "Go {% if A. B %} now."


@pytest.mark.parametrize("text", ["", " \n ", "...", "🎉 !", "{name}", "https://a.b", "—\n\n***"])
def test_what_has_no_words_is_not_asked_for(text: str):
    assert segment_text(text, "placeholders").units == ()
    assert restore_text(segment_text(text, "placeholders"), []) == RestoredText(text, ())


def test_line_ends_of_a_translation_become_blanks():
    apart = segment_text("Go.\nRun.", "none")

    assert (
        restore_text(apart, [UnitTranslation(" Geh\r\nweg "), UnitTranslation("Lauf")]).text
        == "Geh  weg\nLauf"
    )


def test_a_wrong_number_of_translations_is_our_own_mistake():
    with pytest.raises(AssertionError, match="1 translations for 2"):
        restore_text(segment_text("A dog. A cat."), [UnitTranslation("x")])


# Pages


def test_tags_are_taken_out_and_entities_decoded():
    page = "<p>Tom &amp; <b>his\n   dog</b>.</p>"

    assert segment_texts(page, "html") == ["Tom & his dog.", "Tom", "his dog"]


def test_only_tags_within_a_sentence_need_an_alignment():
    page = "<p><i>A dog.</i> <b>A</b> cat.</p>"

    assert [(ask.text, ask.align) for ask in segment_text(page, "html").units[:3]] == [
        ("A dog.", False),
        ("A cat.", True),
        ("A", False),
    ]


@pytest.mark.parametrize("tag", ["p", "li", "td", "h2", "div", "br", "option", "title"])
def test_blocks_bound_sentences(tag: str):
    assert segment_texts(f"one<{tag}>two</{tag}>three", "html") == ["one", "two", "three"]


def test_a_line_end_of_a_page_bounds_nothing():
    assert segment_texts("<p>one\ntwo\n\nthree</p>", "html") == ["one two three"]


@pytest.mark.parametrize(
    "kept",
    [
        "<script>let a = '<p>x</p>'</script>",
        "<style>p { color: red }</style>",
        "<pre>one <b>two</b></pre>",
        "<textarea>one <b>two</textarea>",
        '<p translate="no">one <p>two</p></p>',
        "<div class='a notranslate'>one</div>",
        "<li translate=no>one <div><li>two</div>",
        "<!-- one <p> two -->",
        "<!doctype html>",
        '<img alt="a dog" title="a cat">',
        "<SCRIPT>one</Script >",
        "<svg><text>one</text></svg>",
        "<pre>one",
    ],
)
def test_what_is_not_to_be_read_is_kept(kept: str):
    assert segment_text(kept, "html").units == ()
    assert restore_text(segment_text(kept, "html"), []).text == kept


def test_white_space_between_sentences_of_a_page_stays():
    page = "<p>\n Ox.  <span> Cow </span>\n</p> Elk.\t<img> <i>Hen.</i>&nbsp; Dog\n"
    apart = segment_text(page, "html")

    together = restore_text(apart, [UnitTranslation(f"{ask.text}!") for ask in apart.units])

    assert together.text == (
        "<p>\n Ox.!  <span> Cow! </span>\n</p> Elk.!\t<img> <i>Hen.!</i>&nbsp; Dog!\n"
    )


def test_tags_go_round_the_words_that_come_from_theirs():
    page = "<p>I have <b>seen the dog</b> today.</p>"

    result = aligned(page, "Heute habe ich den Hund gesehen.", "3-3 4-4 2-5 5-0 0-2 1-1")

    assert result == "<p>Heute habe ich <b>den Hund gesehen</b>.</p>"


def test_tags_in_tags_stay_so():
    page = "a <i><b>red</b> dog</i> runs"

    result = aligned(page, "rot Hund läuft ein", "1-0 2-1 3-2 0-3")

    assert result == "<i><b>rot</b> Hund</i> läuft ein"


def test_marks_stay_outside_of_tags_unless_they_were_inside():
    assert aligned("the <b>dog</b> runs", "läuft Hund.", "1-1 2-0") == "läuft <b>Hund</b>."
    assert aligned("See <b>a dog!</b> ok", "ok (Hund!)", "2-1 3-0") == "ok (<b>Hund!)</b>"


def test_one_wrong_link_does_not_stretch_a_tag():
    page = "the <b>old dog</b> runs in my house"

    result = aligned(page, "der alte Hund läuft bei mir im Haus", "1-1 2-2 1-7 0-0 3-3 5-5 6-6")

    assert result == "der <b>alte Hund</b> läuft bei mir im Haus"


def test_what_stands_alone_goes_before_its_word():
    page = "one <img src=x> two three"

    assert aligned(page, "drei zwei eins", "0-2 1-1 2-0") == "drei <img src=x> zwei eins"


def test_a_tag_of_xml_that_closes_itself_stands_alone():
    page = 'Press <x id="1"/> to go.'

    result = aligned(page, "Zum Gehen drücken.", "0-2 1-0 2-1", rules=TagRules(xml=True))

    assert result == '<x id="1"/> Zum Gehen drücken.'


def test_what_is_glued_to_a_word_stays_so():
    page = 'a dog<a id="1"></a>, two'

    assert aligned(page, "zwei, Hund!", "1-1 2-0") == 'zwei, Hund<a id="1"></a>!'


@pytest.mark.parametrize(
    ("page", "alignment", "joined"),
    [
        ("one <b>two</b> x", "0-0 2-2", "? <b>?</b> ?"),  # a word without a counterpart
        ("one <b>two</b> x", "", "? <b>?</b> ?"),  # translated in parts
        ("one <b>two</b> x", "0-0 1-1 2-7", "? <b>?</b> ?"),  # another text's
        ("<b>one</b> <i>two</i> x", "0-0 0-2 1-1", "<b>?</b> <i>?</i> ?"),  # tags would cross
        ("a <b>b <i>c</b> d</i> e", "0-0 1-1 2-2", "? <b>? <i>?</b> ?</i> ?"),  # they cross already
        ("one <b>two x", "0-0 1-1 2-2", "? <b>?"),
        ("one two</b> x", "0-0 1-1 2-2", "?</b> ?"),
        ("one <b>!</b> x", "0-0 1-1 2-2", "? <b>!</b> ?"),
    ],
)
def test_without_a_sensible_place_the_runs_are_joined(page: str, alignment: str, joined: str):
    assert aligned(page, "eins zwei drei", alignment) == joined


def test_scripts_without_blanks_have_their_runs_joined():
    assert aligned("<b>犬</b>が走る", "dog runs", "0-0 0-1") == "<b>?</b>?"
    assert aligned("the <b>dog</b>", "犬", "0-0 1-0") == "? <b>?</b>"


@pytest.mark.parametrize(
    ("text", "markup", "translations", "written"),
    [
        ("我来了。他走了。", "none", ["I came.", "He left."], "I came. He left."),
        ("我来了。他走了。", "none", ["私が来た。", "彼は去った。"], "私が来た。彼は去った。"),
        ("<p>我来。<p>他走。", "html", ["I came.", "He left."], "<p>I came.<p>He left."),
        ("<b>犬。猫。</b>鸟。", "html", ["Ox.", "Elk.", "Hen."], "<b>Ox. Elk.</b> Hen."),
        ("点击<b>确定</b>按钮", "html", ["", "Click", "OK", "it"], "Click <b>OK</b> it"),
        ("点击<b>确定</b>按钮", "placeholders", ["", "Click", "OK", "it"], "Click <b>OK</b> it"),
        ("点击<b>确定</b>按钮", "html", ["", "单击", "OK", "它"], "单击<b>OK</b>它"),
        ("共%s个，{x}的", "placeholders", ["", "All", "files,", "of"], "All %s files, {x} of"),
        ("在<b>12</b>:<b>30</b>", "html", ["", "At", "12", "30"], "At <b>12</b>:<b>30</b>"),
    ],
)
def test_a_translation_gets_the_spaces_that_its_script_has(
    text: str, markup: Markup, translations: list[str], written: str
):
    restored = restore_text(segment_text(text, markup), list(map(UnitTranslation, translations)))

    assert restored == RestoredText(written, ())


def test_code_is_shown_to_the_model_and_kept():
    page = "Call <code>f(x)</code> &amp; wait"
    apart = segment_text(page, "html")
    sentence, *runs = (ask.text for ask in apart.units)

    kept = restore_text(apart, [UnitTranslation("Warte & rufe f(x)"), *map(UnitTranslation, runs)])
    lost = restore_text(
        apart, [UnitTranslation("Warte & rufe F(X)"), *map(UnitTranslation, ["Rufe", "warte"])]
    )

    assert (sentence, runs) == ("Call f(x) & wait", ["Call", "wait"])
    assert kept == RestoredText("Warte &amp; rufe <code>f(x)</code>", ())
    assert lost == RestoredText("Rufe <code>f(x)</code> &amp; warte", ())


@pytest.mark.parametrize("deep", [50, 2003])
def test_tags_in_tags_come_back_however_deep_they_are(deep: int):
    page = f"{'<i>' * deep}Dog{'</i>' * deep} runs."

    assert aligned(f"A {page}", "Ein Hund", "0-0 1-1 2-1").count("</i>") == deep


def test_code_without_end_takes_no_time():
    page = "A <b>dog</b> " + " ".join(f"<code>x{n}</code>" for n in range(10_007))

    begun = time.process_time()
    aligned(page, visible_text(f"The{page[1:]}"), "0-0 1-1")

    assert time.process_time() - begun < 2


def test_adjacent_code_takes_no_time():
    spans = tuple(ProtectedSpan(n, n + 1, "<code>x</code>") for n in range(150_001))
    sentence = MarkedSentence(
        raw="", text=f"{'x' * len(spans)} dog", markup="html", protected=spans
    )

    begun = time.process_time()
    units = sentence.units()

    assert [unit.text for unit in units[1:]] == ["dog"]
    assert time.process_time() - begun < 2


def test_what_stands_alone_stays_in_a_parent_that_a_wrong_link_would_stretch():
    page = aligned("A <i><img>x y z</i>", "u v w a b c d", "1-6 2-0 3-1")

    assert page == "<i>u v<img></i> w a b c d"


def test_tags_go_round_a_word_that_becomes_a_mark():
    assert aligned("<i>Dog</i> runs", "— läuft", "0-0 1-1") == "<i>—</i> läuft"


def test_white_space_before_a_closing_tag_goes_behind_it():
    assert aligned("A <b>dog </b>", "Ein Hund", "0-0 1-1") == "Ein <b>Hund</b> "


def test_an_entity_of_two_letters_is_not_cut():
    page = "a" * (MAX_SENTENCE_LENGTH - 1) + "&fjlig;aa"
    apart = segment_text(page, "html")

    assert restore_text(apart, same(apart)).text == page
    assert len(apart.units) == 2


@pytest.mark.parametrize(
    ("page", "translation"),
    [
        ("<b>See</b> <code>a b</code> or <code>b c</code>.", "Siehe a b c."),
        ("<b>Go</b> run <code>run</code>.", "Los run."),
    ],
)
def test_code_that_is_not_told_from_other_words_has_the_runs_joined(page: str, translation: str):
    assert "?" in aligned(page, translation, "0-0")


def test_a_tag_in_the_midst_of_a_placeholder_comes_behind_it():
    assert aligned("Go {na<b>me} up</b>!", "Geh.", "0-0") == "? {name}<b> ?</b>!"


def test_in_a_script_a_tag_is_text():
    assert segment_texts('<script>x = "<script><!--"</script>A dog.', "html") == ["A dog."]


def test_text_of_a_model_is_never_markup():
    apart = segment_text("<p>A dog.</p>", "html")

    together = restore_text(apart, [UnitTranslation("<script>alert(1)</script> & &lt;")])

    assert together.text == "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &amp;lt;</p>"


def test_a_tag_is_not_put_into_code():
    page = "x <code>a b</code> <i>y</i> z"

    assert aligned(page, "X a b Y Z", "0-0 1-1 3-2 4-4") == "? <code>a b</code> <i>?</i> ?"
    assert aligned(page, "X a b Y Z", "0-0 1-1 3-3 4-4") == "X <code>a b</code> <i>Y</i> Z"


def test_what_stands_alone_stays_in_its_parent():
    page = "one <b>two <img> three</b> x"

    assert aligned(page, "zwei drei eins", "0-2 1-0 2-1") == "<b>zwei <img> drei</b> eins"
    assert aligned(page, "drei eins zwei", "0-1 1-2 2-0 3-1").count("<img> ") == 1


def test_what_stands_alone_stays_out_of_its_neighbours():
    page = "one <img> two <b>three four</b> x"

    assert aligned(page, "drei zwei vier", "1-1 2-0 3-2") == "<img> <b>drei zwei vier</b>"


def test_a_parent_goes_round_its_children():
    page = "one <i>two three four <b>x</b> five</i> six"
    links = "0-0 1-1 2-2 3-3 4-6 5-1"

    result = aligned(page, "a b c d e f g", links)

    assert result == "a <i>b c d e f <b>g</b></i>"


def test_white_space_within_a_tag_at_the_edge_of_a_sentence_is_kept():
    apart = segment_text("<p><b> One</b> two <i>six </i></p>", "html")

    together = restore_text(apart, [UnitTranslation(ask.text.upper()) for ask in apart.units])

    assert together.text == "<p> <b>ONE</b> TWO <i>SIX</i> </p>"


def test_elements_end_where_theirs_ends():
    assert segment_texts("<pre>a <pre>b</pre> c</pre> d", "html") == ["d"]
    assert segment_texts("<div translate=no>a <div>b</div> c</div> d", "html") == ["d"]
    assert segment_texts("<svg/> a <svg>b</svg> c", "html")[0] == "a c"
    assert segment_texts("<code>a <code/> b</code> c", "html")[0] == "a b c"


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<ul><li translate=no>Acme<li>A dog</ul><p>More text.", ["A dog", "More text."]),
        ("<ul><li translate=no>Acme <ul><li>b</ul><li>A dog</li></ul>", ["A dog"]),
        ("<p class=notranslate>Acme<br>Inc.<p>A dog.", ["A dog."]),
        ("<div><p translate=no>Acme</div>A dog.", ["A dog."]),
        ("<dl><dt translate=no>Acme<dd>A dog</dl>", ["A dog"]),
        ("<table><tr><td translate=no>Acme<tr><td>A dog</table>", ["A dog"]),
        ("<table><tr><th translate=no><table><td>b</table><td>A dog</table>", ["A dog"]),
        ("<select><option translate=no>Acme<option>A dog</select>", ["A dog"]),
    ],
)
def test_an_element_without_end_tag_ends_where_browsers_end_it(page: str, texts: list[str]):
    assert segment_texts(page, "html") == texts
    assert restore_text(segment_text(page, "html"), same(segment_text(page, "html"))).text == page


TAGS = ["<b>", "</b>", "<i class='x'>", "</i>", "<p>", "</p>", "<br>", "<img src=x>", "<code>"]
TAGS += ["</code>", "<!-- c -->", "<script>", "</script>", "<a href='>'>", "</a>", "<", ">", "<b"]
WORDS = [
    "dog",
    " ",
    "cat.",
    "A",
    "&amp;",
    "&lt;",
    "&nbsp;",
    "{x}",
    "\n",
    "犬",
    "!",
    "%s",
    "f@g.de",
    "&",
]
pages = st.lists(st.sampled_from(TAGS + WORDS), max_size=24).map("".join) | st.text()
texts = st.lists(st.sampled_from(WORDS + TAGS), max_size=16).map("".join) | st.text()


def some_said(data: st.DataObject, apart: SegmentedText) -> list[UnitTranslation]:
    """Whatever a translator could say: other words, the same, nothing, markup, with any links."""
    links = st.lists(st.tuples(*[st.integers(0, 5)] * 2), max_size=7)
    words = st.lists(st.sampled_from([*HOSTILE, "Hund", "dog", "{x}"]), max_size=5).map(" ".join)
    return [
        UnitTranslation(
            data.draw(words | st.just(ask.text) | st.just(ask.text.swapcase())),
            " ".join(f"{a}-{b}" for a, b in data.draw(links)) if ask.align else "",
        )
        for ask in apart.units
    ]


@given(st.data(), pages)
@settings(max_examples=150, deadline=None)
def test_the_tags_of_a_page_are_those_it_had(data: st.DataObject, page: str):
    apart = segment_text(page, "html")

    together = restore_text(apart, some_said(data, apart))

    before, after = (
        Counter(token.raw.strip() for token in tokenize_html(item) if token.kind != "text")
        for item in (page, together.text)
    )
    assert before == after


ANSWERS = st.lists(
    st.tuples(
        st.none() | st.lists(st.sampled_from([*HOSTILE, "Hund", "{x}"]), max_size=5).map(" ".join),
        st.lists(st.tuples(*[st.integers(0, 5)] * 2), max_size=7),
    ),
    min_size=1,
    max_size=7,
)
"""Translations (None for the source) and alignment links, repeated for as many units as needed."""


def placeholder_counts(text: str, markup: Markup) -> Counter[str]:
    """The placeholders that a reader of a text sees, as the program delimits them."""
    return placeholders.count(visible_text(text) if markup == "html" else text)


@given(texts, st.sampled_from(["placeholders", "html"]), ANSWERS)
@example("f@g.def@g.de", "placeholders", [("Hund", [])])  # one address, which ends in "def"
@example("%sf@g.de", "placeholders", [("Hund", [])])  # an address that begins with "s"
@settings(max_examples=150, deadline=None)
def test_placeholders_are_whole_or_named(
    text: str, markup: Markup, answers: list[tuple[str | None, list[tuple[int, int]]]]
):
    following = cycle(answers)
    for sentence in segment_text(text, markup).parts:
        if isinstance(sentence, str):
            continue
        translations: list[UnitTranslation] = []
        for unit in sentence.units():
            translation, links = next(following)
            alignment = " ".join(f"{a}-{b}" for a, b in links) if unit.align else ""
            translations.append(UnitTranslation(translation or unit.text, alignment))

        restored = sentence.restore(translations)

        before = placeholder_counts(sentence.raw, markup)
        after = placeholder_counts(restored.text, markup)
        assert set(restored.lost) == set(placeholders.mismatched(before, after))


@given(texts, st.sampled_from(["none", "placeholders"]))
def test_white_space_round_a_text_is_kept(text: str, markup: Markup):
    together = restore(text, markup).text

    assert (
        together[: len(together) - len(together.lstrip())] == text[: len(text) - len(text.lstrip())]
    )
    assert together[len(together.rstrip()) :] == text[len(text.rstrip()) :]


@given(pages, st.sampled_from(["none", "placeholders", "html"]))
@settings(deadline=None)
def test_what_is_said_again_gives_the_text_again(page: str, markup: Markup):
    apart = segment_text(page, markup)

    assert restore_text(apart, same(apart)) == RestoredText(page, ())


@given(pages)
def test_tokens_joined_are_the_page(page: str):
    assert "".join(token.raw for token in tokenize_html(page)) == page


class Starts(HTMLParser):
    """The standard library's idea of a page's tags and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(self.get_starttag_text() or "")

    def handle_data(self, data: str) -> None:
        self.text += data


@given(
    st.lists(
        st.sampled_from(["<b>", "</b>", '<p id="a>b">', "<i title='<x>'>", "<br/>", "dog", "&amp;"])
        | st.sampled_from([" ", "&uuml;", "&#228;", "<!-- <b> -->", "1 < 2 ", "&lt;"])
    ).map("".join)
)
def test_the_standard_librarys_parser_finds_the_same_tags_and_text(page: str):
    parser = Starts()
    parser.feed(page)
    parser.close()

    tokens = list(tokenize_html(page))

    assert [
        item.raw for item in tokens if item.name and not item.raw.startswith("</")
    ] == parser.tags
    assert "".join(item.shown for item in tokens if item.kind == "text") == parser.text


ONE = ["<a b='", "{{", "a@", "<code>"]
MANY = ["<a ", '<a b="', "<!--", "<![x[", "</", "<b>", "{", "%", "http://", "&", "&aaaa", "<pre>"]
MANY += ["<script>", ":a", "🎉", "<b>a</b> ", "<i>", "www.", "a.a@", "<code>a</code> {x} ", "$a"]
MANY += ["<a.b", "{a, date", "{ ", "%<a", "<li translate=no>", "<p translate=no><div>"]


@pytest.mark.parametrize(
    "text", [*ONE, *(pytest.param(text, marks=pytest.mark.slow) for text in MANY)]
)
@pytest.mark.parametrize("markup", ["placeholders", "html"])
def test_the_time_is_linear(text: str, markup: Markup):
    def seconds(length: int) -> float:
        begun = time.process_time()
        restore(text * (length // len(text)), markup)
        return time.process_time() - begun

    seconds(100)

    assert seconds(20_000) < 10 * seconds(5_000) + 0.2
