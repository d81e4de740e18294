"""Checks of settings that are constructed in Python; recipes are checked as they are read."""

from typing import Literal, get_args, get_origin, get_type_hints


def check_choices(section: str, settings: object) -> None:
    """Refuse settings of a section whose type is a `Literal`, but whose value is none of it."""
    for name, hint in get_type_hints(type(settings)).items():
        value, choices = getattr(settings, name), get_args(hint)
        if get_origin(hint) is Literal and value not in choices:
            *others, last = (f'"{choice}"' for choice in choices)
            raise ValueError(
                f"{section}.{name} must be {', '.join(others)} or {last}, not {value!r}"
            )
