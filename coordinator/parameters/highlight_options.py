"""Highlighting and snippets: the values of `highlight` and `snippet` → one `HighlightRequest`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from common.limits import Limits
from common.protocol.messages import HighlightRequest
from common.search_option_parsers import ALL_FIELDS
from coordinator.parameters.request_decoding import QueryText
from coordinator.parameters.value_parsers import (
    DIGITS,
    Mistake,
    check_members,
    integer,
    json_of_text,
    paths,
)

SNIPPET_WORDS_DEFAULT: Final = 30
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "highlight_fields": None,
        "snippet_fields": (),
        "pre": "<em>",
        "post": "</em>",
        "ellipsis": "…",
    }
)


def read_highlight(value: Any, limits: Limits) -> dict[str, Any]:
    """Read `highlight`: options, or just the fields, or whether all fields are.

    Returns:
        Members of `HighlightRequest`; none if nothing is to be marked.
    """
    options = _options(value, ("fields", "pre", "post"), limits)
    if options is None:
        return {}
    return {"highlight_fields": options.pop("fields", None) or (ALL_FIELDS,), **options}


def read_snippet(value: Any, limits: Limits) -> dict[str, Any]:
    """Read `snippet`, as `read_highlight`; a field may name its words: "description:20"."""
    options = _options(value, ("fields", "pre", "post", "ellipsis"), limits)
    if options is None:
        return {}
    fields = []
    for name in options.pop("fields", None) or (ALL_FIELDS,):
        path, colon, num_words = name.rpartition(":")
        if colon and DIGITS.fullmatch(num_words):
            fields.append((path, integer(num_words, 1, "snippet_words_max", limits, ".fields")))
        else:
            fields.append((name, SNIPPET_WORDS_DEFAULT))
    return {"snippet_fields": tuple(fields), **options}


def highlight_request(marks: Mapping[str, Any], per_page: int, limits: Limits) -> HighlightRequest:
    """Return what shards are to mark on a page of `per_page` items."""
    return HighlightRequest(
        **{**_DEFAULTS, **marks},
        text_bytes_max=limits.marked_text_bytes_max,
        item_bytes_max=limits.marked_page_bytes_max // max(1, per_page),
    )


def _fields(value: Any, limits: Limits) -> tuple[str, ...]:
    """Read the member `fields`, which other engines have as an object."""
    try:
        return paths(value, limits)
    except Mistake as mistake:
        raise Mistake(f'{mistake.message}, such as ["name"]', path=".fields") from None


def _options(value: Any, known: tuple[str, ...], limits: Limits) -> dict[str, Any] | None:
    """Return the given options; None for `false`."""
    if value.__class__ is QueryText and (value[:1] in "{[" or value in ("true", "false")):
        value = json_of_text(value)
    if value is False:
        return None
    if value is True:
        return {}
    if not isinstance(value, dict):
        return {"fields": paths(value, limits)}
    check_members(value, known)
    options: dict[str, Any] = {}
    for name, option in value.items():
        if option is None:
            continue
        if name == "fields":
            options["fields"] = _fields(option, limits)
        elif isinstance(option, str) and len(option) <= limits.mark_chars_max:
            options[name] = option
        else:
            raise Mistake(
                f"must be a text of up to {limits.shown('mark_chars_max')} characters",
                path=f".{name}",
            )
    return options
