"""Requests: query string and body → frozen, typed parameters; every mistake is reported at once.

    target of the request line ─┐  query_parameters()   texts, repeated ones in a list
                                ├─▶ raw parameters ──▶ parse_search() ──▶ SearchParameters
    body (JSON object) ─────────┘  decode_object()      the body wins        or InvalidRequest

What a parameter is called, what it takes and how it is read stands once, in `PARAMETERS`: the
parser, the list of known names in an error, and the OpenAPI document come from that table.

Rules: a query string's objects and arrays are JSON; lists of names may also be comma lists or
repeated parameters. An empty text in a query string and `null` in a body count as absent. Integers
are one to nine ASCII digits; `int()` is no parser for what people send. Nothing here touches a
socket, a clock or a shard, and nothing but `ServiceError` comes out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

import orjson
from msgspec import Struct

from common.configuration import (
    MATCH_FORMS,
    PREFIX_FORMS,
    TYPO_FORMS,
    FacetConfiguration,
    IndexConfiguration,
    PrefixMode,
    SearchableField,
    TypoMode,
    parse_facet_sort,
    parse_match,
    parse_prefix,
    parse_typo,
    parse_weighted_field,
)
from common.errors import InvalidRequest, NotFound, ServiceError
from common.limits import Limits
from common.protocol.messages import (
    Distinct,
    FilterClause,
    HighlightRequest,
    RangeRequest,
    SortKey,
)
from common.query import (
    AllOf,
    And,
    AnyOf,
    Contains,
    Exists,
    Filter,
    Not,
    Or,
    Range,
    StartsWith,
)
from common.values import facet_key
from coordinator.filter_parser import parse_filter

# --- results of parsing -----------------------------------------------------------------------


class FacetWish(Struct, frozen=True):
    """One facet that an answer shall show."""

    configuration: FacetConfiguration
    """The index's settings with the request's own options applied."""
    key_query: str | None = None
    """Only buckets whose key has a word that begins like this (typos forgiven)."""
    offset: int = 0
    """Buckets to leave out before `configuration.size` are listed."""


class SearchParameters(Struct, frozen=True, kw_only=True):
    """One search, valid but for what only the data knows (see `filter_fields`, `sort`)."""

    query: str = ""
    """Full text as typed."""
    match: str = "all"
    """The request's, else the index's: "all", "any", "last", "75%"."""
    prefix: PrefixMode = "last"
    """The request's, else the index's."""
    typo: TypoMode = "auto"
    """The request's, else the index's."""
    search_fields: tuple[SearchableField, ...] | None = None
    """The request's, else the index's searchable fields; None: every string."""
    page: int = 1
    per_page: int = 10
    filters: tuple[FilterClause, ...] = ()
    """All restrictions, ANDed: of `filters`, `not_filters`, `filter` and the API key. A clause of a
    field of `filters` that is a disjunctive facet, or that `ranges` names, carries that field in
    `facet`. (A field that is no facet takes any of several values, as a disjunctive one.)"""
    filter_fields: Mapping[str, str] = MappingProxyType({})
    """Fields that are restricted and no facets, to the parameter that names them ("filters.year",
    "filter"): a field that has no scalar values either is the client's mistake."""
    selected: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Keys chosen in `filters`, by facet: their buckets are marked as selected."""
    facets: tuple[FacetWish, ...] = ()
    """What to count, in alphabetical order of the field."""
    is_strict: bool = False
    """Whether every facet counts within the hits, disjunctive ones and ranges too."""
    ranges: tuple[RangeRequest, ...] = ()
    """`leaves_out_own` is already set as `is_strict` says."""
    sort: tuple[SortKey, ...] = ()
    """Explicit keys (of `sort`, or `sort_field` and `order`); fields are not checked against the
    data; the parameter to name in an error is `sort_param`."""
    sort_param: str = "sort_field"
    is_place_descending: bool = False
    """`order=desc` without a sort key: newest first, where there is no query either."""
    cursor: str | None = None
    """Opaque; "*" asks for the first page of a snapshot that the answer's cursor goes on with."""
    distinct: Distinct | None = None
    fields: tuple[str, ...] | None = None
    """Projection: the only paths to return; None: the stored bytes as they are."""
    exclude_fields: tuple[str, ...] | None = None
    """Projection: paths to leave out."""
    marks: HighlightRequest | None = None
    """What to highlight and to cut snippets from."""
    show: frozenset[str] = frozenset()
    """Of "score", "score_details", "timings"."""
    allows_partial: bool = False
    """Whether an answer without the shards that are away is wanted rather than an error."""
    timeout_ms: int = 10_000

    @property
    def offset(self) -> int:
        """How many hits come before the page."""
        return (self.page - 1) * self.per_page


class FacetParameters(Struct, frozen=True, kw_only=True):
    """One page of one facet's buckets."""

    search: SearchParameters
    """Which items count: a search with `search_query` as its query, no hits (per_page 0), and
    `facet` as its only facet. Its `page` and `per_page` say nothing about buckets."""
    facet: FacetConfiguration
    """`size` does not apply; `sort` does."""
    page: int = 1
    per_page: int = 10
    key_pattern: str | None = None
    """Parameter `query`: matches the whole key, case and accents folded; `*` is any text."""
    key_query: str | None = None
    """Parameter `facet_query`: the start of any word of the key, typos forgiven."""

    @property
    def offset(self) -> int:
        """How many buckets come before the page."""
        return (self.page - 1) * self.per_page


class NamedSearch(Struct, frozen=True):
    """One search of `POST /_search`: the index that it names, and its raw parameters."""

    index: str
    raw: RawParameters


# --- raw parameters ---------------------------------------------------------------------------


class QueryText(str):
    """A value from a query string: a text that may stand for another type."""

    __slots__ = ()


RawParameters: TypeAlias = dict[str, Any]
"""By name: a `QueryText`, a list of these (repeated), or a decoded JSON value (from a body)."""

DECODED_CHARS_MAX: Final = 512
"""Longer parts of a request target are not remembered decoded."""
_PERCENT_OR_PLUS: Final = re.compile(r"[%+\x80-\U0010ffff]")


def query_parameters(query_string: str) -> RawParameters:
    """Decode a raw query string (behind the `?`).

    Args:
        query_string: as the HTTP parser gives it: UTF-8 with surrogate escapes for other bytes.

    Returns:
        Values by name; empty values are left out, repeated ones are lists in their order.

    Raises:
        InvalidRequest: code invalid_encoding; what is percent-encoded is no UTF-8.
    """
    raw: RawParameters = {}
    for pair in query_string.split("&"):
        name, _, value = pair.partition("=")
        if not value:
            continue
        if _PERCENT_OR_PLUS.search(pair):
            name, value = decode_component(name), decode_component(value)
        if not value:
            continue
        text = QueryText(value)
        if name not in raw:
            raw[name] = text
        elif isinstance(raw[name], list):
            raw[name].append(text)
        else:
            raw[name] = [raw[name], text]
    return raw


@lru_cache(maxsize=4_096)
def _decode_short(text: str, plus_is_space: bool) -> str:
    """Percent-decode; names, and filters that stay while a query is typed, come again and again."""
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
        InvalidRequest: code invalid_encoding; the bytes are no UTF-8, or an escape is none.
    """
    if len(text) <= DECODED_CHARS_MAX:
        return _decode_short(text, plus_is_space)
    return _decode(text, plus_is_space)


def decode_object(body: bytes | bytearray | memoryview) -> RawParameters:
    """Decode a JSON body that must be an object; an empty body is an empty object.

    Raises:
        InvalidRequest: code invalid_json (with the position) or invalid_body.
    """
    if not body:
        return {}
    decoded = decode_json(body)
    if not isinstance(decoded, dict):
        raise InvalidRequest("the body must be a JSON object", code="invalid_body")
    return decoded


def decode_json(body: bytes | bytearray | memoryview | str) -> Any:
    """Decode JSON as strictly as the item scanner: UTF-8, no NaN, no lone surrogates.

    Raises:
        InvalidRequest: code invalid_json; the message gives line and column.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is no valid JSON: {error}", code="invalid_json") from None


# --- the reader -------------------------------------------------------------------------------

_DIGITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_RANGE_KEYS: Final = frozenset(("gt", "gte", "lt", "lte"))
_CHOICE_KEYS: Final = frozenset(("any", "all", "none", "exists"))
_SHOWN: Final = frozenset(("score", "score_details", "timings"))
_CALENDARS: Final = frozenset(("year", "month", "day"))


class _Mistake(Exception):
    """Ends the reading of one parameter; the others go on."""

    def __init__(self, message: str, *, code: str | None = None, path: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.path = path


class _Reader:
    """Reads the parameters of one request into `values`, collecting mistakes."""

    def __init__(self, configuration: IndexConfiguration, limits: Limits) -> None:
        self.configuration = configuration
        self.limits = limits
        self.values: dict[str, Any] = {}
        self.errors: list[dict[str, str]] = []
        self.facet_options: dict[str, dict[str, Any]] = {}
        self.facets: dict[str, FacetConfiguration] = configuration.facets  # type: ignore[assignment]
        self.facet_fields: list[str] | None = None
        self.ranges: list[tuple[str, dict[str, Any]]] = []
        self.sort_field: str | None = None
        self.clauses: list[FilterClause] = []
        self.filter_fields: dict[str, str] = {}
        self.selected: dict[str, frozenset[str]] = {}
        self.num_filter_values = 0
        self.highlight: dict[str, Any] = {}

    def read(self, raw: RawParameters, parameters: Mapping[str, Parameter]) -> None:
        """Read what is given, in the order of the table where one depends on another."""
        late: list[tuple[int, Parameter, Any]] = []
        seen: dict[str, str] = {}
        for name, value in raw.items():
            if value is None:
                continue
            parameter = parameters.get(name)
            if parameter is None:
                self.note_unknown(name, parameters)
            elif seen.setdefault(parameter.name, name) is not name:
                self.note(name, f"means {parameter.name}, which is given too", None)
            elif parameter.stage:
                late.append((parameter.stage, parameter, value))
            else:
                self.read_one(parameter, value)
        if late:
            late.sort(key=_stage_of)
            for _, parameter, value in late:
                self.read_one(parameter, value)

    def read_one(self, parameter: Parameter, value: Any) -> None:
        """Read one parameter; a mistake is noted under its name."""
        try:
            if value.__class__ is list and value and value[0].__class__ is QueryText:
                if not parameter.is_list:
                    raise _Mistake("is given more than once")
            elif value.__class__ is QueryText and parameter.is_json:
                value = json_of_text(value)
            parameter.read(self, value)
        except _Mistake as mistake:
            self.note(
                parameter.name + (mistake.path or ""),
                mistake.message,
                mistake.code or parameter.code,
            )
        except ServiceError as error:
            self.errors.append(
                {
                    "code": error.code,
                    "param": error.param or parameter.name,
                    "message": error.message,
                    **error.details,
                }
            )

    def note(self, param: str, message: str, code: str | None) -> None:
        """Note a mistake."""
        self.errors.append(
            {"code": code or "invalid_request", "param": param, "message": f"{param} {message}"}
        )

    def note_unknown(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """Note a parameter that does not exist, with the nearest one that does."""
        shown = name[:100]
        near = difflib.get_close_matches(shown, parameters, n=1, cutoff=0.5)
        known = ", ".join(sorted({parameter.name for parameter in parameters.values()}))
        hint = f"; did you mean {near[0]}?" if near else f"; known are {known}"
        self.errors.append(
            {
                "code": "unknown_parameter",
                "param": shown,
                "message": f"unknown parameter {shown!r}{hint}",
            }
        )

    def raise_if_wrong(self) -> None:
        """Raise the first mistake; all of them are listed in the details."""
        if not self.errors:
            return
        first = self.errors[0]
        details: dict[str, Any] = {
            key: value for key, value in first.items() if key not in ("code", "param", "message")
        }
        if len(self.errors) > 1:
            details["errors"] = self.errors[: self.limits.errors_reported_max]
        raise InvalidRequest(
            first["message"], code=first["code"], param=first["param"], details=details
        )

    # --- kinds of values

    def integer(self, value: Any, low: int, high: int, what: str = "") -> int:
        """Read an integer within bounds; digits in a text will do."""
        if type(value) is int:
            number = value
        elif isinstance(value, str) and _DIGITS.fullmatch(value):
            number = int(value)
        else:
            raise _Mistake(f"must be an integer from {low} to {high}", path=what)
        if not low <= number <= high:
            raise _Mistake(f"must be an integer from {low} to {high}, not {number}", path=what)
        return number

    def text(self, value: Any, chars_max: int) -> str:
        """Read a text."""
        if not isinstance(value, str):
            raise _Mistake("must be a text")
        if len(value) > chars_max:
            raise _Mistake(f"has {len(value)} characters, more than {chars_max}")
        # A QueryText must not leave this module: encoders treat subclasses of str differently.
        return str(value)

    def names(self, value: Any, num_max: int) -> list[str]:
        """Read a list of names: a list, a JSON list in a text, or a comma list."""
        if value.__class__ is QueryText and value.startswith("["):
            value = json_of_text(value)
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
            value = [part for part in value if part]
        elif isinstance(value, list) and value and value[0].__class__ is QueryText:
            value = [str(name) for name in value]
        if not isinstance(value, list) or not all(type(name) is str for name in value):
            raise _Mistake("must be a list of names")
        if len(value) > num_max:
            raise _Mistake(f"has {len(value)} names, more than {num_max}")
        return value

    def paths(self, value: Any, num_max: int) -> tuple[str, ...]:
        """Read a list of field paths, each once."""
        names = dict.fromkeys(self.names(value, num_max))
        for name in names:
            self.check_field(name)
        return tuple(names)

    def check_field(self, name: Any, path: str = "") -> str:
        """Refuse what cannot be the name or dotted path of a field."""
        if not isinstance(name, str) or not name:
            raise _Mistake("must name a field", path=path)
        if len(name.encode()) > self.limits.field_name_bytes_max:
            raise _Mistake(
                f"names a field of more than {self.limits.field_name_bytes_max} bytes", path=path
            )
        return str(name)

    def object(self, value: Any, what: str) -> dict[str, Any]:
        """Read an object; an empty list is how some languages write an empty one."""
        if isinstance(value, dict):
            return value
        if isinstance(value, list) and not value:
            return {}
        raise _Mistake(f"must be an object, {what}")

    # --- text

    def read_query(self, value: Any) -> None:
        if not isinstance(value, str):
            raise _Mistake("must be a text")
        if len(value) > self.limits.query_chars_max:
            raise _Mistake(
                f"has {len(value)} characters, more than {self.limits.query_chars_max}",
                code="query_too_long",
            )
        self.values["query"] = str(value)

    def read_match(self, value: Any) -> None:
        self.values["match"] = self.mode(parse_match(value), MATCH_FORMS)

    def read_prefix(self, value: Any) -> None:
        self.values["prefix"] = self.mode(parse_prefix(value), PREFIX_FORMS)

    def read_typo(self, value: Any) -> None:
        self.values["typo"] = self.mode(parse_typo(value), TYPO_FORMS)

    def mode(self, mode: Any, forms: str) -> Any:
        if mode is None:
            raise _Mistake(forms)
        return str(mode) if isinstance(mode, str) else mode

    def read_search_fields(self, value: Any) -> None:
        names = self.names(value, self.limits.search_fields_max)
        fields = [parse_weighted_field(name) for name in names]
        if not names or None in fields:
            raise _Mistake('must name fields, with weights such as "name^3" (above 0, up to 1000)')
        for field in fields:
            self.check_field(field.path)  # type: ignore[union-attr]
        self.values["search_fields"] = tuple(fields)

    # --- page

    def read_page(self, value: Any) -> None:
        self.values["page"] = self.integer(value, 1, self.limits.page_max)

    def read_per_page(self, value: Any) -> None:
        self.values["per_page"] = self.integer(value, 0, self.limits.per_page_max)

    def read_facet_per_page(self, value: Any) -> None:
        self.values["per_page"] = self.integer(value, 0, self.limits.facet_per_page_max)

    def read_cursor(self, value: Any) -> None:
        cursor = self.text(value, self.limits.cursor_chars_max)
        if self.values.get("page", 1) != 1:
            raise _Mistake("and page exclude each other")
        self.values["cursor"] = cursor

    # --- order

    def read_sort_field(self, value: Any) -> None:
        self.sort_field = self.check_field(value)

    def read_order(self, value: Any) -> None:
        if not isinstance(value, str) or value.lower() not in ("asc", "desc"):
            raise _Mistake('must be "asc" or "desc"')
        is_descending = value.lower() == "desc"
        if self.sort_field is None:
            self.values["is_place_descending"] = is_descending
        elif is_descending:
            self.values["sort"] = (SortKey(self.sort_field, True),)

    def read_sort(self, value: Any) -> None:
        if self.sort_field is not None:
            raise _Mistake("and sort_field exclude each other")
        if isinstance(value, dict):
            value = [value]
        elif isinstance(value, str):
            value = self.names(value, self.limits.sort_keys_max)
        elif isinstance(value, list) and value and value[0].__class__ is QueryText:
            value = [str(one) for one in value]
        if not isinstance(value, list) or len(value) > self.limits.sort_keys_max:
            raise _Mistake(
                f'must be a list of up to {self.limits.sort_keys_max} keys such as "year:desc"'
            )
        keys = [self.sort_key(one, f"[{i}]") for i, one in enumerate(value)]
        self.values["sort"] = tuple(keys)
        self.values["sort_param"] = "sort"

    def sort_key(self, value: Any, path: str) -> SortKey:
        """Read "year:desc:missing=first" or {"field", "order", "missing"}."""
        if isinstance(value, dict):
            name, order, missing = value.get("field"), value.get("order"), value.get("missing")
            if not set(value) <= {"field", "order", "missing"}:
                raise _Mistake("must have the members field, order and missing", path=path)
        elif isinstance(value, str):
            name, order, missing = value, None, None
            while True:
                head, colon, tail = name.rpartition(":")
                if colon and tail in ("asc", "desc") and order is None:
                    name, order = head, tail
                elif colon and tail in ("missing=first", "missing=last") and missing is None:
                    name, missing = head, tail.removeprefix("missing=")
                else:
                    break
        else:
            raise _Mistake('must be a key such as "year:desc"', path=path)
        if order not in (None, "asc", "desc") or missing not in (None, "first", "last"):
            raise _Mistake("has an order asc or desc, and missing first or last", path=path)
        self.check_field(name, path)
        if name == "_score":
            return SortKey(None, order != "asc", missing == "first")
        return SortKey(str(name), order == "desc", missing == "first")

    def read_distinct(self, value: Any) -> None:
        if isinstance(value, str) and not value.startswith("{"):
            self.values["distinct"] = Distinct(self.check_field(value))
            return
        if isinstance(value, str):
            value = json_of_text(value)
        options = self.object(value, 'for example {"field": "brand", "limit": 1}')
        self.check_members(options, ("field", "limit"))
        limit = options.get("limit")
        self.values["distinct"] = Distinct(
            self.check_field(options.get("field"), ".field"),
            1 if limit is None else self.integer(limit, 1, self.limits.distinct_max, ".limit"),
        )

    def check_members(
        self, options: dict[str, Any], known: tuple[str, ...], path: str = ""
    ) -> None:
        """Refuse members that do not exist: a misspelt option must not be ignored silently."""
        for name in options:
            if name not in known:
                raise _Mistake(
                    f"is unknown; known are {', '.join(known)}", path=f"{path}.{name[:100]}"
                )

    # --- what comes back

    def read_fields(self, value: Any) -> None:
        self.values["fields"] = self.paths(value, self.limits.projected_fields_max)

    def read_exclude_fields(self, value: Any) -> None:
        self.values["exclude_fields"] = self.paths(value, self.limits.projected_fields_max)

    def read_show(self, value: Any) -> None:
        names = frozenset(self.names(value, 16))
        if not names <= _SHOWN:
            raise _Mistake(f"must be a list of {', '.join(sorted(_SHOWN))}")
        self.values["show"] = names

    def read_partial(self, value: Any) -> None:
        if value not in ("fail", "allow"):
            raise _Mistake('must be "fail" or "allow"')
        self.values["allows_partial"] = value == "allow"

    def read_timeout_ms(self, value: Any) -> None:
        self.values["timeout_ms"] = self.integer(value, 1, self.limits.request_timeout_ms_max)

    def read_highlight(self, value: Any) -> None:
        options = self.mark_options(value, ("fields", "pre", "post"))
        if options is None:
            return
        self.highlight["highlight_fields"] = options.pop("fields", None) or ("*",)
        self.highlight.update(options)

    def read_snippet(self, value: Any) -> None:
        options = self.mark_options(value, ("fields", "pre", "post", "ellipsis"))
        if options is None:
            return
        fields = []
        for name in options.pop("fields", None) or ("*",):
            path, colon, num_words = name.rpartition(":")
            if colon and _DIGITS.fullmatch(num_words):
                fields.append(
                    (path, self.integer(num_words, 1, self.limits.snippet_words_max, ".fields"))
                )
            else:
                fields.append((name, SNIPPET_WORDS_DEFAULT))
        self.highlight["snippet_fields"] = tuple(fields)
        self.highlight.update(options)

    def mark_options(self, value: Any, known: tuple[str, ...]) -> dict[str, Any] | None:
        """Read the options of highlight or snippet; also true, or just the fields."""
        if value.__class__ is QueryText and value[:1] in "{[tf":
            value = (
                json_of_text(value) if value[:1] in "{[" or value in ("true", "false") else value
            )
        if value is False:
            return None
        if value is True:
            return {}
        if not isinstance(value, dict):
            return {"fields": self.paths(value, self.limits.projected_fields_max)}
        self.check_members(value, known)
        options: dict[str, Any] = {}
        for name, option in value.items():
            if option is None:
                continue
            if name == "fields":
                options["fields"] = self.paths(option, self.limits.projected_fields_max)
            elif isinstance(option, str) and len(option) <= MARK_CHARS_MAX:
                options[name] = option
            else:
                raise _Mistake(
                    f"must be a text of up to {MARK_CHARS_MAX} characters", path=f".{name}"
                )
        return options

    # --- facets

    def read_facet_fields(self, value: Any) -> None:
        self.facet_fields = self.names(value, 10_000)

    def read_facet_mode(self, value: Any) -> None:
        if value not in ("auto", "strict"):
            raise _Mistake('must be "auto" or "strict"')
        self.values["is_strict"] = value == "strict"

    def read_facets(self, value: Any) -> None:
        facets = self.object(value, 'of options by facet, for example {"tags": {"size": 20}}')
        self.facets = dict(self.facets)
        for name, options in facets.items():
            path = f".{name[:100]}"
            base = self.facets.get(name)
            if base is None:
                known = ", ".join(self.facets) or "none"
                raise _Mistake(f"is no facet; the facets are {known[:500]}", path=path)
            if not isinstance(options, dict):
                raise _Mistake("must be an object of options", path=path)
            self.check_members(options, FACET_OPTIONS, path)
            self.facet_options[name] = {
                "key_query": self.facet_key_query(options.get("query"), path),
                "offset": self.optional_integer(options, "offset", 0, 10**9, 0, path),
            }
            self.facets[name] = self.overridden(base, options, path)

    def facet_key_query(self, value: Any, path: str) -> str | None:
        if value is None or value == "":
            return None
        if not isinstance(value, str) or len(value) > self.limits.query_chars_max:
            raise _Mistake(
                f"must be a text of up to {self.limits.query_chars_max} characters",
                path=f"{path}.query",
            )
        return value

    def optional_integer(
        self, options: dict[str, Any], name: str, low: int, high: int, default: int, path: str
    ) -> int:
        value = options.get(name)
        return default if value is None else self.integer(value, low, high, f"{path}.{name}")

    def optional_bool(self, options: dict[str, Any], name: str, default: bool, path: str) -> bool:
        value = options.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _Mistake("must be true or false", path=f"{path}.{name}")
        return value

    def overridden(
        self, base: FacetConfiguration, options: dict[str, Any], path: str
    ) -> FacetConfiguration:
        """Return a facet's settings with the request's options."""
        sort = base.sort
        if options.get("sort") is not None or options.get("order") is not None:
            parsed = parse_facet_sort(
                options.get("sort"), options.get("order"), base.chosen_filters_on_top
            )
            if isinstance(parsed, str):
                raise _Mistake(parsed, path=f"{path}.sort")
            sort = parsed
        return replace(
            base,
            sort=sort,
            size=self.optional_integer(
                options, "size", 0, self.limits.facet_size_max, base.size, path
            ),
            conjunction=self.optional_bool(options, "conjunction", base.conjunction, path),
            hide_zero=self.optional_bool(options, "hide_zero", base.hide_zero, path),
            show_facet_stats=self.optional_bool(options, "stats", base.show_facet_stats, path),
        )

    def read_facet_ranges(self, value: Any) -> None:
        wanted = self.object(value, 'for example {"price": [{"to": 10}, {"from": 10}]}')
        if len(wanted) > self.limits.facet_ranges_max:
            raise _Mistake(f"names more than {self.limits.facet_ranges_max} fields")
        for name, ranges in wanted.items():
            self.check_field(name, f".{name[:100]}")
            self.ranges.append((name, self.range_options(ranges, f".{name[:100]}")))

    def range_options(self, value: Any, path: str) -> dict[str, Any]:
        """Read the intervals of one field: listed, equally wide, or of the calendar."""
        if isinstance(value, list):
            if not 1 <= len(value) <= self.limits.range_bounds_max:
                raise _Mistake(f"must list 1 to {self.limits.range_bounds_max} ranges", path=path)
            return {
                "bounds": tuple(
                    self.range_bounds(one, f"{path}[{i}]") for i, one in enumerate(value)
                )
            }
        if isinstance(value, dict) and set(value) == {"interval"}:
            interval = value["interval"]
            if type(interval) in (int, float) and 0 < interval < 1e300:
                return {"interval": float(interval)}
            raise _Mistake("must be a number above 0", path=f"{path}.interval")
        if isinstance(value, dict) and set(value) == {"calendar"}:
            if isinstance(value["calendar"], str) and value["calendar"] in _CALENDARS:
                return {"calendar": value["calendar"]}
            raise _Mistake('must be "year", "month" or "day"', path=f"{path}.calendar")
        raise _Mistake(
            'must be a list such as [{"to": 10}, {"from": 10, "to": 50}], {"interval": 10} or '
            '{"calendar": "month"}',
            path=path,
        )

    def range_bounds(self, value: Any, path: str) -> tuple[Any, Any]:
        """Read one {"from", "to"}: numbers, or texts; at least one."""
        if not isinstance(value, dict) or not value or not set(value) <= {"from", "to"}:
            raise _Mistake('must be an object with "from" (inclusive), "to" (exclusive)', path=path)
        low, high = value.get("from"), value.get("to")
        self.check_bounds(low, high, path)
        return (low, high)

    def check_bounds(self, low: Any, high: Any, path: str) -> None:
        """Refuse bounds that are not two numbers or two texts (or one of these alone)."""
        given = [bound for bound in (low, high) if bound is not None]
        are_numbers = [type(bound) in (int, float) for bound in given]
        are_texts = [isinstance(bound, str) for bound in given]
        if not given or not (all(are_numbers) or all(are_texts)):
            raise _Mistake("must be bounded by numbers, or by texts (ISO dates)", path=path)
        for bound in given:
            self.check_value_size(bound, path)

    # --- filters

    def read_filters(self, value: Any) -> None:
        for name, wanted in self.filter_object(value).items():
            path = f".{name[:100]}"
            self.check_field(name, path)
            facet = self.facets.get(name)
            is_any = facet is None or not facet.conjunction
            keys: list[str] = []
            condition = self.condition(name, wanted, is_any, path, keys)
            if condition is None:
                continue
            if facet is None:
                self.filter_fields[name] = f"filters.{name}"
            elif keys:
                self.selected[name] = frozenset(keys)
            is_left_out = (facet is not None and is_any) or any(
                name == field for field, _ in self.ranges
            )
            self.clauses.append(FilterClause(condition, name if is_left_out else None))

    def read_not_filters(self, value: Any) -> None:
        for name, unwanted in self.filter_object(value).items():
            path = f".{name[:100]}"
            self.check_field(name, path)
            condition = self.condition(name, unwanted, True, path, [])
            if condition is not None:
                self.clauses.append(FilterClause(Not(condition)))

    def filter_object(self, value: Any) -> dict[str, Any]:
        filters = self.object(value, 'of values by field, for example {"tags": ["a", "b"]}')
        if len(filters) > self.limits.filter_fields_max:
            raise _Mistake(
                f"names {len(filters)} fields, more than {self.limits.filter_fields_max}",
                code="too_many_filter_fields",
            )
        return filters

    def condition(
        self, field: str, wanted: Any, is_any: bool, path: str, keys: list[str]
    ) -> Filter | None:
        """Read what one field must have; `keys` takes the values that are asked for.

        Returns:
            The filter, or None if there is no restriction.
        """
        if isinstance(wanted, dict):
            return self.object_condition(field, wanted, path, keys)
        chosen = self.value_keys(wanted, path)
        if not chosen:
            return None
        keys.extend(chosen)
        return AnyOf(field, chosen) if is_any else AllOf(field, chosen)

    def object_condition(
        self, field: str, wanted: dict[str, Any], path: str, keys: list[str]
    ) -> Filter | None:
        """Read {"gte": 10, "lt": 50}, {"any": […], "all": […], "none": […], "exists": true}."""
        children: list[Filter] = []
        for name in wanted:
            if name not in _RANGE_KEYS and name not in _CHOICE_KEYS:
                raise _Mistake(
                    "is unknown; known are gt, gte, lt, lte, any, all, none, exists",
                    path=f"{path}.{name[:100]}",
                )
        if not _RANGE_KEYS.isdisjoint(wanted):
            children.append(self.range_condition(field, wanted, path))
        for name in ("any", "all", "none"):
            if wanted.get(name) is None:
                continue
            chosen = self.value_keys(wanted[name], f"{path}.{name}")
            if not chosen:
                continue
            if name == "none":
                children.append(Not(AnyOf(field, chosen)))
            else:
                keys.extend(chosen)
                children.append(AnyOf(field, chosen) if name == "any" else AllOf(field, chosen))
        exists = wanted.get("exists")
        if exists is not None:
            if not isinstance(exists, bool):
                raise _Mistake("must be true or false", path=f"{path}.exists")
            children.append(Exists(field) if exists else Not(Exists(field)))
        if not children:
            return None
        return children[0] if len(children) == 1 else And(tuple(children))

    def range_condition(self, field: str, wanted: dict[str, Any], path: str) -> Range:
        """Read the bounds of a range."""
        if None not in (wanted.get("gt"), wanted.get("gte")) or None not in (
            wanted.get("lt"),
            wanted.get("lte"),
        ):
            raise _Mistake("has two lower or two upper bounds", path=path)
        is_lower_open, is_upper_open = wanted.get("gt") is not None, wanted.get("lt") is not None
        lower = wanted["gt"] if is_lower_open else wanted.get("gte")
        upper = wanted["lt"] if is_upper_open else wanted.get("lte")
        self.check_bounds(lower, upper, path)
        return Range(field, lower, is_lower_open, upper, is_upper_open)

    def value_keys(self, wanted: Any, path: str) -> tuple[str, ...]:
        """Read one value or a list of values as facet keys, each once."""
        values = wanted if isinstance(wanted, list) else [wanted]
        self.num_filter_values += len(values)
        if self.num_filter_values > self.limits.filter_values_max:
            raise _Mistake(
                f"and the others have more than {self.limits.filter_values_max} values",
                code="too_many_filter_values",
                path=path,
            )
        keys: dict[str, None] = {}
        for value in values:
            # The empty text is no facet value, but a right question: no item has it.
            key = value if value == "" else facet_key(value)
            if key is None:
                raise _Mistake("must be texts, numbers or booleans", path=path)
            self.check_value_size(key, path)
            keys[key] = None
        return tuple(keys)

    def check_value_size(self, value: Any, path: str) -> None:
        if isinstance(value, str) and len(value.encode()) > self.limits.filter_value_bytes_max:
            raise _Mistake(
                f"has a value of more than {self.limits.filter_value_bytes_max} bytes", path=path
            )

    def read_filter(self, value: Any) -> None:
        condition = parse_filter(self.text(value, self.limits.filter_expression_chars_max))
        for field in scalar_fields_of(condition):
            if field not in self.facets:
                self.filter_fields.setdefault(field, "filter")
        self.clauses.append(FilterClause(condition))

    # --- the facet route

    def read_key_pattern(self, value: Any) -> None:
        self.values["key_pattern"] = self.text(value, self.limits.query_chars_max)

    def read_facet_query(self, value: Any) -> None:
        self.values["key_query"] = self.text(value, self.limits.query_chars_max)

    def read_name(self, value: Any) -> None:
        self.values["name"] = self.check_field(value)

    # --- the end

    def search_parameters(self) -> SearchParameters:
        """Build the result from what was read.

        Raises:
            InvalidRequest: anything was wrong.
        """
        if self.errors:
            self.raise_if_wrong()
        values = self.values
        configuration = self.configuration
        if "match" not in values:
            values["match"] = configuration.match
        if "prefix" not in values:
            values["prefix"] = configuration.prefix
        if "typo" not in values:
            values["typo"] = configuration.typo
        if "search_fields" not in values:
            values["search_fields"] = configuration.searchable_fields
        if "timeout_ms" not in values:
            values["timeout_ms"] = self.limits.request_timeout_ms
        if self.sort_field is not None and "sort" not in values:
            values["sort"] = (SortKey(self.sort_field),)
        if self.clauses:
            values["filters"] = tuple(self.clauses)
            values["filter_fields"] = self.filter_fields
            values["selected"] = self.selected
        if self.highlight:
            values["marks"] = HighlightRequest(**{**_MARK_DEFAULTS, **self.highlight})
        if self.ranges:
            leaves_out_own = not values.get("is_strict", False)
            values["ranges"] = tuple(
                RangeRequest(name, leaves_out_own=leaves_out_own, **options)
                for name, options in self.ranges
            )
        values["facets"] = self.facet_wishes()
        return SearchParameters(**values)

    def facet_wishes(self) -> tuple[FacetWish, ...]:
        """Return the facets to show, in alphabetical order."""
        if self.facet_fields is None and not self.facet_options:
            return _all_facets(self.configuration)
        wanted = self.facets if self.facet_fields is None else set(self.facet_fields)
        return tuple(
            FacetWish(facet, **self.facet_options.get(name, {}))
            for name, facet in self.facets.items()
            if name in wanted
        )


def json_of_text(text: str) -> Any:
    """Decode an object or array that a query string carries as JSON."""
    try:
        return orjson.loads(str(text))  # a subclass of str is refused
    except orjson.JSONDecodeError as error:
        raise _Mistake(f"must be JSON: {error}") from None


def scalar_fields_of(condition: Filter) -> Iterable[str]:
    """Yield the fields that a filter compares with values (not those that it asks about)."""
    match condition:
        case And(children) | Or(children):
            for child in children:
                yield from scalar_fields_of(child)
        case Not(child):
            yield from scalar_fields_of(child)
        case AnyOf(field) | AllOf(field) | Range(field) | StartsWith(field) | Contains(field):
            yield field
        case _:
            pass


class _WishCache:
    """The facets of an index when a request names none: the same tuple for every request.

    Keyed by identity, because a configuration is immutable and replaced as a whole; the entry holds
    the configuration so that its identity is not used again meanwhile.
    """

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.entries: dict[int, tuple[IndexConfiguration, tuple[FacetWish, ...]]] = {}

    def __call__(self, configuration: IndexConfiguration) -> tuple[FacetWish, ...]:
        entry = self.entries.get(id(configuration))
        if entry is None:
            if len(self.entries) >= self.size_max:
                self.entries.clear()
            wishes = tuple(FacetWish(facet) for facet in configuration.facets.values())
            entry = self.entries[id(configuration)] = (configuration, wishes)
        return entry[1]


_all_facets: Final = _WishCache(size_max=1_000)

SNIPPET_WORDS_DEFAULT: Final = 30
MARK_CHARS_MAX: Final = 64
FACET_OPTIONS: Final = (
    "size",
    "sort",
    "order",
    "conjunction",
    "hide_zero",
    "query",
    "offset",
    "stats",
)
_MARK_DEFAULTS: Final[dict[str, Any]] = {
    "highlight_fields": None,
    "snippet_fields": (),
    "pre": "<em>",
    "post": "</em>",
    "ellipsis": "…",
}

# --- the table of parameters ------------------------------------------------------------------

Schema: TypeAlias = dict[str, Any]


class Parameter(NamedTuple):
    """One parameter: how it is called, read and documented."""

    name: str
    read: Callable[[_Reader, Any], None]
    schema: Schema
    """JSON Schema of the value in a body."""
    description: str
    code: str
    """Of the error when it is wrong."""
    aliases: tuple[str, ...] = ()
    is_list: bool = False
    """Whether it may be repeated in a query string."""
    is_json: bool = False
    """Whether its text in a query string is always JSON."""
    stage: int = 0
    """Parameters are read in this order: some look at what others said."""


def _stage_of(late: tuple[int, Parameter, Any]) -> int:
    return late[0]


def _parameter(
    name: str,
    read: Callable[[_Reader, Any], None],
    schema: Schema,
    description: str,
    *,
    code: str | None = None,
    aliases: tuple[str, ...] = (),
    is_list: bool = False,
    is_json: bool = False,
    stage: int = 0,
) -> Parameter:
    """Build a row of the table; the error code is `invalid_<name>` unless given."""
    return Parameter(
        name, read, schema, description, code or f"invalid_{name}", aliases, is_list, is_json, stage
    )


_TEXT: Final[Schema] = {"type": "string"}
_NAMES: Final[Schema] = {
    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]
}
_SCALAR: Final[Schema] = {"type": ["string", "number", "boolean"]}
_BOUND: Final[Schema] = {"type": ["string", "number"]}
_FILTERS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            _SCALAR,
            {"type": "array", "items": _SCALAR},
            {
                "type": "object",
                "properties": {
                    "gt": _BOUND,
                    "gte": _BOUND,
                    "lt": _BOUND,
                    "lte": _BOUND,
                    "any": {"type": "array", "items": _SCALAR},
                    "all": {"type": "array", "items": _SCALAR},
                    "none": {"type": "array", "items": _SCALAR},
                    "exists": {"type": "boolean"},
                },
                "additionalProperties": False,
            },
        ]
    },
}


def _integer(low: int, high: int | None = None, default: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "minimum": low}
    if high is not None:
        schema["maximum"] = high
    if default is not None:
        schema["default"] = default
    return schema


_RESTRICTIONS: Final = (
    _parameter(
        "filters",
        _Reader.read_filters,
        _FILTERS,
        'Values to keep, by field: {"tags": ["a", "b"]}, {"price": {"gte": 10, "lt": 50}}, '
        '{"tags": {"any": […], "all": […], "none": […], "exists": true}}.',
        is_json=True,
        stage=3,
    ),
    _parameter(
        "not_filters",
        _Reader.read_not_filters,
        _FILTERS,
        "Values to exclude, by field.",
        aliases=("exclude_filters",),
        is_json=True,
        stage=4,
    ),
    _parameter(
        "filter",
        _Reader.read_filter,
        _TEXT,
        'A filter expression: year >= 1990 AND (tags = a OR tags IN [b, "c d"]).',
        stage=5,
    ),
)
_TEXT_MODES: Final = (
    _parameter(
        "match",
        _Reader.read_match,
        _TEXT,
        'How many words must match: "all", "any", "last" (leave out words from the end) or "75%".',
    ),
    _parameter(
        "prefix",
        _Reader.read_prefix,
        {"enum": ["last", "none", "all"]},
        "Which words also match as the beginning of a word.",
    ),
    _parameter(
        "typo",
        _Reader.read_typo,
        {"enum": ["auto", 0, 1, 2, "0", "1", "2"]},
        "Typos forgiven per word; auto: by its length.",
    ),
    _parameter(
        "search_fields",
        _Reader.read_search_fields,
        _NAMES,
        'Fields to search, with weights: ["name^3", "description"].',
        is_list=True,
    ),
)
_CONDUCT: Final = (
    _parameter(
        "partial",
        _Reader.read_partial,
        {"enum": ["fail", "allow"]},
        "What a shard that is away does: an error, or an answer without it that says so.",
    ),
    _parameter(
        "timeout_ms",
        _Reader.read_timeout_ms,
        _integer(1, Limits().request_timeout_ms_max, Limits().request_timeout_ms),
        "The request's deadline in milliseconds.",
    ),
)
_FACET_MODE: Final = _parameter(
    "facet_mode",
    _Reader.read_facet_mode,
    {"enum": ["auto", "strict"]},
    "strict: facets count within the hits; auto: disjunctive ones leave out their own filter.",
)

SEARCH_PARAMETERS: Final = (
    _parameter("query", _Reader.read_query, _TEXT, "Full text; empty: all items."),
    _parameter("page", _Reader.read_page, _integer(1, Limits().page_max, 1), "Which page, from 1."),
    _parameter(
        "per_page",
        _Reader.read_per_page,
        _integer(0, Limits().per_page_max, 10),
        "Items of a page; 0: only total and facets.",
    ),
    *_RESTRICTIONS,
    _parameter(
        "facet_fields",
        _Reader.read_facet_fields,
        _NAMES,
        "Facets to compute and return; all configured ones by default. Unknown names are ignored.",
        aliases=("facets_fields",),
        is_list=True,
    ),
    _parameter(
        "sort_field",
        _Reader.read_sort_field,
        _TEXT,
        "Any field with scalar values.",
    ),
    _parameter(
        "order",
        _Reader.read_order,
        {"enum": ["asc", "desc"]},
        "Of sort_field, or of insertion where there is neither sort_field nor query.",
        stage=1,
    ),
    _parameter(
        "sort",
        _Reader.read_sort,
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            {"type": "string"},
                            {
                                "type": "object",
                                "properties": {
                                    "field": _TEXT,
                                    "order": {"enum": ["asc", "desc"]},
                                    "missing": {"enum": ["first", "last"]},
                                },
                                "required": ["field"],
                                "additionalProperties": False,
                            },
                        ]
                    },
                },
            ]
        },
        'Keys of the order: ["year:desc", "name:asc:missing=first", "_score:desc"].',
        is_list=True,
        stage=2,
    ),
    *_TEXT_MODES,
    _parameter(
        "fields",
        _Reader.read_fields,
        _NAMES,
        "Return only these paths of each item.",
        is_list=True,
    ),
    _parameter(
        "exclude_fields",
        _Reader.read_exclude_fields,
        _NAMES,
        "Leave out these paths of each item.",
        is_list=True,
    ),
    _parameter(
        "highlight",
        _Reader.read_highlight,
        {
            "anyOf": [
                {"type": "boolean"},
                _NAMES,
                {
                    "type": "object",
                    "properties": {"fields": _NAMES, "pre": _TEXT, "post": _TEXT},
                    "additionalProperties": False,
                },
            ]
        },
        'Mark the words found: {"fields": ["name"], "pre": "<em>", "post": "</em>"}.',
        is_list=True,
    ),
    _parameter(
        "snippet",
        _Reader.read_snippet,
        {
            "anyOf": [
                {"type": "boolean"},
                _NAMES,
                {
                    "type": "object",
                    "properties": {
                        "fields": _NAMES,
                        "pre": _TEXT,
                        "post": _TEXT,
                        "ellipsis": _TEXT,
                    },
                    "additionalProperties": False,
                },
            ]
        },
        'The best part of long texts: {"fields": ["description:20"]} (words).',
        is_list=True,
    ),
    _parameter(
        "facets",
        _Reader.read_facets,
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "size": _integer(0, Limits().facet_size_max),
                    "sort": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
                    "order": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
                    "conjunction": {"type": "boolean"},
                    "hide_zero": {"type": "boolean"},
                    "query": _TEXT,
                    "offset": _integer(0),
                    "stats": {"type": "boolean"},
                },
                "additionalProperties": False,
            },
        },
        "Options of facets for this request, by facet.",
        is_json=True,
        stage=1,
    ),
    _parameter(
        "facet_ranges",
        _Reader.read_facet_ranges,
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"from": _BOUND, "to": _BOUND},
                            "additionalProperties": False,
                        },
                    },
                    {
                        "type": "object",
                        "properties": {"interval": {"type": "number", "exclusiveMinimum": 0}},
                        "required": ["interval"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {"calendar": {"enum": ["year", "month", "day"]}},
                        "required": ["calendar"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
        'Counts by interval, by field: {"price": [{"to": 10}, {"from": 10, "to": 50}]}, '
        '{"price": {"interval": 10}}, {"date": {"calendar": "month"}}.',
        is_json=True,
        stage=2,
    ),
    _FACET_MODE,
    _parameter(
        "cursor",
        _Reader.read_cursor,
        _TEXT,
        'Continue behind the last hit of an answer, on the same state of the index; "*" begins.',
        stage=1,
    ),
    _parameter(
        "distinct",
        _Reader.read_distinct,
        {
            "anyOf": [
                _TEXT,
                {
                    "type": "object",
                    "properties": {"field": _TEXT, "limit": _integer(1, Limits().distinct_max, 1)},
                    "required": ["field"],
                    "additionalProperties": False,
                },
            ]
        },
        'Only the best hits per value of a field: {"field": "brand", "limit": 1}.',
    ),
    _parameter(
        "show",
        _Reader.read_show,
        _NAMES,
        "Also return: score, score_details, timings.",
        is_list=True,
    ),
    *_CONDUCT,
)

FACET_PARAMETERS: Final = (
    _parameter("name", _Reader.read_name, _TEXT, "The facet.", code="missing_name"),
    _parameter("page", _Reader.read_page, _integer(1, Limits().page_max, 1), "Which page, from 1."),
    _parameter(
        "per_page",
        _Reader.read_facet_per_page,
        _integer(0, Limits().facet_per_page_max, 10),
        "Buckets of a page.",
    ),
    *_RESTRICTIONS,
    _parameter("search_query", _Reader.read_query, _TEXT, "A full text that the items must match."),
    _parameter(
        "query",
        _Reader.read_key_pattern,
        _TEXT,
        "A pattern over whole keys, case and accents folded; * stands for any text.",
    ),
    _parameter(
        "facet_query",
        _Reader.read_facet_query,
        _TEXT,
        "The start of any word of the key, typos forgiven.",
    ),
    *_TEXT_MODES,
    _FACET_MODE,
    *_CONDUCT,
)


def _by_name(parameters: Iterable[Parameter]) -> Mapping[str, Parameter]:
    """Index a table by name and aliases."""
    return {
        name: parameter for parameter in parameters for name in (parameter.name, *parameter.aliases)
    }


_SEARCH: Final = _by_name(SEARCH_PARAMETERS)
_FACET: Final = _by_name(FACET_PARAMETERS)

SearchKind: TypeAlias = Literal["search", "facet"]


def parse_search(
    raw: RawParameters, configuration: IndexConfiguration, limits: Limits
) -> SearchParameters:
    """Read the parameters of a search.

    Args:
        raw: query string and body, joined.
        configuration: of the index that is searched.
        limits: bounds of sizes and counts.

    Raises:
        InvalidRequest: with the first mistake; `details["errors"]` lists all if there are more.

    Cost: some microseconds; grows with what is given, not with what exists.
    """
    reader = _Reader(configuration, limits)
    if raw:
        reader.read(raw, _SEARCH)
    return reader.search_parameters()


def parse_facet(
    raw: RawParameters, configuration: IndexConfiguration, limits: Limits
) -> FacetParameters:
    """Read the parameters of the facet route.

    Raises:
        InvalidRequest: as `parse_search`; code missing_name without a name.
        NotFound: code facet_not_found.
    """
    reader = _Reader(configuration, limits)
    reader.facet_fields = []
    reader.read(raw, _FACET)
    if "name" not in reader.values and not any(e["param"] == "name" for e in reader.errors):
        reader.note("name", "is required: the facet whose values are asked for", "missing_name")
    reader.raise_if_wrong()
    values = reader.values
    name = values.pop("name")
    facet = configuration.facets.get(name)
    if facet is None:
        known = ", ".join(configuration.facets) or "none"
        raise NotFound(
            f"there is no facet {name[:100]!r}; the facets are {known[:500]}",
            code="facet_not_found",
            param="name",
        )
    page, per_page = values.pop("page", 1), values.pop("per_page", 10)
    pattern, key_query = values.pop("key_pattern", None), values.pop("key_query", None)
    reader.facet_fields = [name]
    values["per_page"] = 0
    return FacetParameters(
        search=reader.search_parameters(),
        facet=facet,
        page=page,
        per_page=per_page,
        key_pattern=pattern,
        key_query=key_query,
    )


def parse_searches(raw: RawParameters, limits: Limits) -> list[NamedSearch]:
    """Read the list of searches of `POST /_search`; each is parsed when its index is known.

    Raises:
        InvalidRequest: code invalid_searches.
    """
    for name in raw:
        if name != "searches":
            raise InvalidRequest(
                f"unknown parameter {name[:100]!r}; known is searches",
                code="unknown_parameter",
                param=name[:100],
            )
    searches = raw.get("searches")
    if not isinstance(searches, list) or not 1 <= len(searches) <= limits.searches_max:
        raise InvalidRequest(
            f'searches must be a list of 1 to {limits.searches_max} searches, each with an "index"',
            code="invalid_searches",
            param="searches",
        )
    named = []
    for i, one in enumerate(searches):
        if not isinstance(one, dict) or not isinstance(one.get("index"), str):
            raise InvalidRequest(
                f'searches[{i}] must be an object with an "index" and parameters of a search',
                code="invalid_searches",
                param=f"searches[{i}]",
            )
        named.append(NamedSearch(one["index"], {key: one[key] for key in one if key != "index"}))
    return named
