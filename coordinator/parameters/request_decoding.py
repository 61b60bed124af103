"""Raw parameters: query strings and bodies, decoded but not interpreted (pure).

A query string yields texts (`QueryText`, or lists of them if repeated), a body yields JSON values.
Decoding is strict: UTF-8 only, and JSON as the item scanner accepts it. So whatever passes here can
be encoded again anywhere downstream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

import orjson

from common.errors import InvalidRequest
from common.json.depth_and_size import shape_of
from common.limits import Limits
from common.value_kinds_and_facet_keys import INTEGER_MAX, INTEGER_MIN


class QueryText(str):
    """A value from a query string: a text that may represent another type."""

    __slots__ = ()


RawParameters: TypeAlias = dict[str, Any]
"""By name: a `QueryText`, a list of them (repeated), or a decoded JSON value (from a body); a name
in a query string without `=` has None."""

DECODED_CHARS_MAX: Final = 512
"""Longer parts of a request target are not cached in decoded form."""
_GZIP: Final = b"\x1f\x8b"
_LONG_INTEGER: Final = re.compile(rb"(?<=[:\[,\s])(?:-[0-9]{19}|[0-9]{20})[0-9]*(?=[\s,\]}])")
"""What looks like an integer beyond 64 bits."""
_PERCENT_OR_PLUS: Final = re.compile(r"[^\x00-$&-*,-\x7f]")
"""Or beyond ASCII. As a set of all others, it is compiled in a hundredth of the time."""


def query_parameters(query_string: str) -> RawParameters:
    """Decode a raw query string (the part after the `?`).

    Args:
        query_string: from the HTTP parser: UTF-8 with surrogate escapes for other bytes.

    Returns:
        Values by name; empty ones (`year=`) are dropped, repeated ones become lists in order. A
        name without `=` has None: it may be the end of a value with a bare &, as in `query=H&M`.

    Raises:
        InvalidRequest: code invalid_encoding; percent-encoded bytes are not UTF-8.
    """
    raw: RawParameters = {}
    for pair in query_string.split("&"):
        name, equals, value = pair.partition("=")
        if not value:
            if pair and not equals:
                raw.setdefault(decode_component(name), None)
            continue
        if _PERCENT_OR_PLUS.search(pair):
            name, value = decode_component(name), decode_component(value)
        if not value:
            continue
        text = QueryText(value)
        if raw.get(name) is None:
            raw[name] = text
        elif isinstance(raw[name], list):
            raw[name].append(text)
        else:
            raw[name] = [raw[name], text]
    return raw


def refuse_unknown(
    raw: RawParameters, known: Sequence[str], instead: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse parameters that a page does not have.

    Args:
        raw: by name.
        known: names that it has.
        instead: what to use in place of others, by name.

    Raises:
        InvalidRequest: code unknown_parameter.
    """
    for name in raw:
        if name not in known:
            hint = f"here, {instead[name]}; " if name in instead else ""
            raise InvalidRequest(
                f"unknown parameter {name[:100]!r}; {hint}known are {', '.join(known)}",
                code="unknown_parameter",
                param=name[:100],
            )


@lru_cache(maxsize=4_096)
def _decode_short(text: str, plus_is_space: bool) -> str:
    """Percent-decode; cached, since names recur, and filters do while a user types."""
    return _decode(text, plus_is_space)


def _decode(text: str, plus_is_space: bool) -> str:
    encoded = text.encode("utf-8", "surrogateescape")
    if plus_is_space:
        encoded = encoded.replace(b"+", b" ")
    try:
        return unquote_to_bytes(encoded).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(
            "the request target is not UTF-8; percent-encode every other byte",
            code="invalid_encoding",
        ) from None


def decode_component(text: str, *, plus_is_space: bool = True) -> str:
    """Percent-decode a part of a request target, strictly.

    Raises:
        InvalidRequest: code invalid_encoding; the bytes are not UTF-8, or an escape is malformed.
    """
    if len(text) <= DECODED_CHARS_MAX:
        return _decode_short(text, plus_is_space)
    return _decode(text, plus_is_space)


def decode_object(body: bytes, limits: Limits) -> RawParameters:
    """Decode a JSON body that must be an object; an empty body is an empty object.

    Raises:
        InvalidRequest: code invalid_json (with the position), too_deep or invalid_body.
    """
    if not body:
        return {}
    decoded = decode_json(body, limits)
    if not isinstance(decoded, dict):
        instead = ", {} rather than []" if decoded == [] else ""
        raise InvalidRequest(f"the body must be a JSON object{instead}", code="invalid_body")
    return decoded


def decode_stored(body: bytes, limits: Limits) -> RawParameters:
    """Decode a body with values to store, as `decode_object`: integers are exact, or refused.

    Raises:
        InvalidRequest: also invalid_number.
    """
    decoded = decode_object(body, limits)
    if _LONG_INTEGER.search(body):  # or a text that looks like one: the decoder knows
        json.loads(body, parse_int=_check_integer)
    return decoded


def _check_integer(digits: str) -> None:
    """Reject an integer that would become a double, and thereby another number."""
    if len(digits) > 20 or not INTEGER_MIN <= int(digits) <= INTEGER_MAX:
        raise InvalidRequest(
            f"integers must be from -2^63 to 2^64-1, not {digits[:40]}", code="invalid_number"
        )


def decode_search(body: bytes, limits: Limits) -> RawParameters:
    """Decode the body of one or more searches, as `decode_object`.

    Raises:
        InvalidRequest: also too_many_values.
    """
    values_max = limits.search_body_values_max
    if len(body) > values_max and shape_of(body, limits.json_depth_max).num_values > values_max:
        raise InvalidRequest(
            f"the body may have {limits.shown('search_body_values_max')} values",
            code="too_many_values",
        )
    return decode_object(body, limits)


def check_depth(body: bytes, limits: Limits, *, num_around: int = 0) -> None:
    """Check how deep a JSON text is nested, before a decoder that recurses sees it.

    Args:
        body: the text.
        limits: on values.
        num_around: levels around the values, which do not count.

    Raises:
        InvalidRequest: code too_deep.
    """
    depth_max = limits.json_depth_max + num_around
    # Fast path: most bodies have fewer brackets than the allowed depth.
    if (
        body.count(b"{") + body.count(b"[") > depth_max
        and shape_of(body, depth_max).depth > depth_max
    ):
        raise InvalidRequest(
            f"values may be nested {limits.shown('json_depth_max')} deep", code="too_deep"
        )


def decode_json(body: bytes, limits: Limits) -> Any:
    """Decode JSON as strictly as the item scanner: UTF-8, no NaN, no lone surrogates, not too deep.

    Raises:
        InvalidRequest: code invalid_json (the message gives line and column) or too_deep.
    """
    check_depth(body, limits)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        check_uncompressed(body)
        fault = _wrong_byte(body) or str(error)
        raise InvalidRequest(f"the body is not valid JSON: {fault}", code="invalid_json") from None


def check_uncompressed(body: bytes) -> None:
    """Refuse a body that is compressed although no header says so; no JSON begins as gzip does.

    Raises:
        InvalidRequest: code invalid_encoding.
    """
    if body.startswith(_GZIP):
        raise InvalidRequest(
            "the body is a gzip stream; send it with Content-Encoding: gzip, or decompressed",
            code="invalid_encoding",
        )


def _wrong_byte(body: bytes) -> str | None:
    """Say where a body is not UTF-8; None if it is."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} is not UTF-8"
    return None
