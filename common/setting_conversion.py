"""Converts given values of settings to their types, and checks that they are valid."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from common.errors import CommandError

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


class SettingError(CommandError):
    """A setting has an invalid value."""

    exit_status = 2


def converted(name: str, field: dataclasses.Field[Any], kind: Any, value: Any, origin: str) -> Any:
    """Convert a given value to the setting's type and check its range.

    Args:
        name: of the setting.
        field: its declaration.
        kind: its type.
        value: as given: text, or what the settings file has.
        origin: where it was given.

    Raises:
        SettingError: it is not valid; says what would be.
    """
    try:
        result = _CONVERTERS[kind](value)
    except (ValueError, TypeError) as error:
        raise SettingError(
            f"{origin}: {name} must be {_wanted(field, kind)}, not {value!r}"
        ) from error
    except RuntimeError as error:  # of `expanduser`
        raise SettingError(f"{origin}: there is no home directory for {value}") from error
    low, high = field.metadata["at_least"], field.metadata["at_most"]
    choices = field.metadata["choices"]
    if (
        (low is not None and result < low)
        or (high is not None and result > high)
        or (choices and result not in choices)
    ):
        raise SettingError(f"{origin}: {name} must be {_wanted(field, kind)}, not {result!r}")
    return result


def _wanted(field: dataclasses.Field[Any], kind: Any) -> str:
    """Describe the valid values of a setting."""
    low, high = field.metadata["at_least"], field.metadata["at_most"]
    if field.metadata["choices"]:
        return "one of " + ", ".join(field.metadata["choices"])
    if kind is bool:
        return "true or false"
    if kind is Path:
        return f"a path ({field.metadata['unit']})"
    if kind not in (int, float):
        return f"a text ({field.metadata['unit']})"
    what = "an integer" if kind is int else "a number"
    if low is not None and high is not None:
        what += f" from {low} to {high}"
    elif low is not None:
        what += f" of at least {low}"
    return f"{what} ({field.metadata['unit']})"


def integer(value: Any) -> int:
    """Return an integer that was given as a number or a text.

    Raises:
        ValueError, TypeError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdigit()):
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError


def _text(value: Any) -> str:
    """Refuse what no variable of the environment and no path can have: a null character."""
    if not isinstance(value, str):
        raise TypeError
    if "\0" in value:
        raise ValueError
    return value


def _path(value: Any) -> Path:
    """Convert a path; an empty one is a mistake, and not the working directory."""
    if not value:
        raise ValueError
    return Path(_text(value) if isinstance(value, str) else value).expanduser()


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(_text(part) for part in value)


_CONVERTERS: dict[Any, Any] = {
    int: integer,
    float: _number,
    bool: _boolean,
    str: _text,
    Path: _path,
    tuple[str, ...]: _texts,
}
