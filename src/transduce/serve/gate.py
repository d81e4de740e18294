"""Who may ask, and for how much: keys and limits, in LibreTranslate's words."""

from collections.abc import Sequence

from transduce.serve.bodies import clean
from transduce.serve.call import Call
from transduce.serve.refusal import Refusal
from transduce.serve.settings import NO_LIMIT, Settings


def char_limit(settings: Settings, call: Call, key: object, *, missing: int = 400) -> int:
    """Most characters of a text for whoever sent this; -1 is no limit.

    Args:
        settings: the server's.
        call: its Authorization header may hold a key, behind `Bearer` or `DeepL-Auth-Key`.
        key: of the request itself, which counts first.
        missing: the status where there is none.

    Raises:
        Refusal: where a key is wanted, `missing` without one, 403 with a wrong one.
    """
    if not settings.keys:
        return settings.char_limit
    said = key if isinstance(key, str) and key else _of_header(call)
    if not said:
        link = settings.get_api_key_link
        where = f"Visit {link}" if link else "Please contact the server operator"
        raise Refusal(missing, f"{where} to get an API key")
    found = settings.key(said)
    if found is None:
        raise Refusal(403, "Invalid API key")
    return settings.char_limit if found.char_limit is None else found.char_limit


def checked(call: Call, texts: Sequence[str], settings: Settings, *, characters: int) -> list[str]:
    """The texts of a request, cleaned, if they are neither too many nor too long.

    Raises:
        Refusal: 400, naming the number and the limit.
    """
    call.note(texts)
    if settings.batch_limit != NO_LIMIT and len(texts) > settings.batch_limit:
        _exceeds(len(texts), settings.batch_limit)
    fit(texts, characters=characters)
    return [clean(text) for text in texts]


def fit(texts: Sequence[str], *, characters: int) -> None:
    """Refuse texts that are too long; -1 is no limit.

    Raises:
        Refusal: 400, naming the length of the first such text, and the limit.
    """
    if characters != NO_LIMIT:
        for text in texts:
            if len(text) > characters:
                _exceeds(len(text), characters)


def _exceeds(number: int, limit: int) -> None:
    raise Refusal(400, f"Invalid request: request ({number}) exceeds text limit ({limit})")


def _of_header(call: Call) -> str:
    scheme, _, key = call.header(b"authorization").partition(" ")
    return key.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else ""
