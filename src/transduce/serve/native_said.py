"""Models and sentences as this server's own API tells of them."""

from transduce.bundle.bundle import Bundle
from transduce.serve import native_models as models
from transduce.serve.directions import Direction, Language
from transduce.serve.job import Answer
from transduce.serve.libretranslate_models import Named
from transduce.serve.settings import Settings

_DEMO = "The animal didn't cross the street because it was too tired."
_EXAMPLES = {
    "en": "A young woman with a red hat is reading a book in the park.",
    "de": "Eine junge Frau mit einem roten Hut liest im Park ein Buch.",
    "fr": "Une jeune femme au chapeau rouge lit un livre dans le parc.",
}


def _named(language: Language) -> Named:
    return Named(code=language.code, name=language.name)


def described(direction: Direction, settings: Settings) -> models.Model:
    """Describe a loaded model."""
    return models.Model(
        name=direction.name,
        source=_named(direction.source),
        target=_named(direction.target),
        parameters=direction.bundle.model.size,
        engine=direction.translator.why.removeprefix("engine: "),
        beam=direction.translator.search.beam if settings.beam is None else settings.beam,
        example=_example(direction.bundle),
        calibrated=direction.bundle.confidence is not None,
        limits=models.Limits(characters=settings.char_limit),
    )


def _example(bundle: Bundle) -> str:
    if any(line.strip() == 'name = "demo"' for line in bundle.provenance.recipe.splitlines()):
        return _DEMO
    return _EXAMPLES.get(bundle.languages.source.partition("-")[0].lower(), "")


def sentence(answer: Answer) -> models.Sentence:
    """Tell all that is known of a translated sentence."""
    one = answer.translation
    log_probs = one.log_probs or (None,) * len(one.pieces)
    pairs = [link.partition("-") for link in answer.alignment.split()]
    return models.Sentence(
        source=one.source,
        text=one.text,
        score=one.score,
        flag=one.flag,
        mended=one.mended,
        parts=one.parts,
        confidence=one.confidence,
        pieces=[
            models.Piece(piece=piece, log_prob=log_prob)
            for piece, log_prob in zip(one.pieces, log_probs, strict=True)
        ],
        words=[models.Word(text=text, confidence=sure) for text, sure in one.words],
        others=[models.Other(text=other.text, score=other.score) for other in one.others],
        alignment=[(int(source), int(target)) for source, _, target in pairs],
    )
