"""Checks of settings that are constructed in Python; recipes are checked as they are read."""

from collections.abc import Mapping
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints


def check_choices(section: str, settings: object) -> None:
    """Refuse settings of a section whose type is a `Literal`, but whose value is none of it."""
    for name, choices in _choices(type(settings)).items():
        value = getattr(settings, name)
        if value not in choices:
            *others, last = (f'"{choice}"' for choice in choices)
            raise ValueError(
                f"{section}.{name} must be {', '.join(others)} or {last}, not {value!r}"
            )


@cache  # resolving annotations takes longer than a short sentence's share of a search
def _choices(settings: type) -> Mapping[str, tuple[object, ...]]:
    """The values of each field whose type is a `Literal`."""
    hints = get_type_hints(settings).items()
    return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}
