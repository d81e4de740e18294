"""Languages guessed from text: right, or none."""

import pytest

from transduce.corpus_check.language import guess_language

SENTENCES = {
    "en": "The man who lives in the old house said that he was not at home with you.",
    "de": "Der Mann, der in dem alten Haus wohnt, sagte, dass er nicht zu Hause ist und die Tür.",
    "fr": "Il dit que les enfants ne sont pas dans la maison et que le chat est dans une boîte.",
    "es": "El niño no está en la casa y los perros que se ven por la calle son de su tío.",
    "sv": "Han sa att det inte är en bok som jag har och att den är för dig.",
    "da": "Han sagde, at det ikke er en bog, som jeg har, og at den er af mig og til dig.",
    "ja": "私は昨日、友達と一緒に映画を見ました。",
    "zh": "我昨天和朋友一起去看了电影。",
    "ko": "나는 어제 친구와 함께 영화를 보았다.",
    "ru": "Он сказал, что это не так, но мне это только как все он и мы, что это был он.",
    "pt": "Ele disse que não é uma casa para os homens e que eu não vou com as crianças em um dia.",
    "it": "Il cane che è nella casa non è una cosa per gli uomini, e mi sono detto di no con le.",
    "nl": "Het is niet een huis van de man dat ik op zijn weg zie, en hij is te groot voor mij.",
    "el": "Ο σκύλος είναι στον κήπο.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_language_is_guessed(code: str) -> None:
    assert guess_language([SENTENCES[code]] * 20) == code


@pytest.mark.parametrize(
    "text",
    [
        "1 2 3",
        "",
        "aspirin ibuprofen paracetamol",
        "def main(): return os.path.join(folder, name)",
        "Tõde tuleb päevavalgele ja keegi ei saa seda muuta.",  # Estonian: not listed
        "שלום مرحبا hello",
        "Šta je to? Ja sam rekao da on nije tu.",  # Serbian, akin to listed ones
    ],
)
def test_nothing_is_guessed_from_what_does_not_tell(text: str) -> None:
    assert guess_language([text] * 20) == ""
