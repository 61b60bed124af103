"""The parameter reader: raw parameters → values, one method per parameter; mistakes are collected.

    for each raw parameter: find its row in the table ─▶ read ─▶ values
                            none ─▶ mistake              └─▶ mistake, continue with the next

Rows have stages: a parameter that depends on others (`order` on `sort_field`, `filters` on the
options of `facets`) is read after them. Finally `search_parameters` fills the gaps from the
index's configuration, or raises all mistakes as one error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import structs

from common.boosts import NO_POINT, parse_boosts
from common.configuration import FacetConfiguration, IndexConfiguration
from common.errors import InvalidRequest, ServiceError
from common.limits import Limits
from common.option_forms import (
    MATCH_FORMS,
    PREFIX_FORMS,
    TYPO_FORMS,
    TYPO_LENGTHS_FORMS,
    parse_match,
    parse_prefix,
    parse_typo,
    parse_typo_lengths,
    parse_weighted_field,
)
from common.placement import canonical_id
from common.protocol.messages import Distinct, RangeRequest, SortKey
from common.rules import parse_rules
from coordinator.parameters.conditions import Conditions
from coordinator.parameters.facet_options import (
    FacetOptions,
    read_facet_cube,
    read_facet_options,
    read_facet_ranges,
)
from coordinator.parameters.kinds import (
    DIGITS,
    Mistake,
    boolean,
    check_field,
    check_members,
    integer,
    json_of_text,
    names,
    object_of,
    optional_bool,
    paths,
    text,
)
from coordinator.parameters.marks import highlight_request, read_highlight, read_snippet
from coordinator.parameters.other_engines import FOREIGN, MISPLACED
from coordinator.parameters.raw import QueryText, RawParameters
from coordinator.parameters.sort_keys import read_sort_keys
from coordinator.parameters.typed import (
    PER_PAGE_DEFAULT,
    CubeSpec,
    FacetSpec,
    SearchParameters,
    facet_spec,
)

MIN_SCORE_MAX: Final = 1e12
NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
HINTS_MAX: Final = 8
"""Only this many unknown names get a suggestion: finding the nearest one takes a millisecond."""

_SHOWN: Final = frozenset(("score", "score_details", "timings", "elements"))

Schema: TypeAlias = dict[str, Any]


class Parameter(NamedTuple):
    """One parameter: its name, reader and documentation."""

    name: str
    read: Callable[[ParameterReader, Any], None]
    schema: Schema
    """JSON Schema of the value in a body."""
    description: str
    code: str | None = None
    """Error code for an invalid value; None: `invalid_<name>`."""
    aliases: tuple[str, ...] = ()
    is_list: bool = False
    """Whether a query string may repeat it."""
    is_json: bool = False
    """Whether its text in a query string is always JSON."""
    stage: int = 0
    """Order of reading: some parameters depend on others."""

    @property
    def error_code(self) -> str:
        """Error code for an invalid value."""
        return self.code or f"invalid_{self.name}"


def _stage_of(late: tuple[int, Parameter, Any]) -> int:
    return late[0]


class ParameterReader:
    """Reads the parameters of one request into `values` and collects mistakes."""

    def __init__(self, configuration: IndexConfiguration, limits: Limits) -> None:
        self.configuration = configuration
        self.limits = limits
        self.values: dict[str, Any] = {}
        self.errors: list[dict[str, Any]] = []
        self.facets: Mapping[str, FacetConfiguration] = configuration.facets
        self.facet_options: Mapping[str, FacetOptions] = {}
        self.field_facets: Mapping[str, FacetConfiguration] = {}
        self.facet_fields: list[str] | None = None
        self.ranges: list[tuple[str, dict[str, Any]]] = []
        self.cube: CubeSpec | None = None
        self.sort_field: str | None = None
        self.conditions = Conditions(configuration, limits)
        self.marks: dict[str, Any] = {}

    def read(self, raw: RawParameters, parameters: Mapping[str, Parameter]) -> None:
        """Read the given parameters, those that depend on others last."""
        late: list[tuple[int, Parameter, Any]] = []
        seen: dict[str, str] = {}
        for name, value in raw.items():
            if value is None:
                continue
            if len(self.errors) >= self.limits.errors_reported_max:
                break  # enough to report; a body may have a hundred thousand unknown names
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
        """Read one parameter; record a mistake under its name."""
        try:
            if value.__class__ is list and value and value[0].__class__ is QueryText:
                if not parameter.is_list:
                    raise Mistake("is given more than once")
            elif value.__class__ is QueryText and parameter.is_json:
                value = self.json_of(parameter, value)
            parameter.read(self, value)
        except Mistake as mistake:
            self.note(
                parameter.name + (mistake.path or ""),
                mistake.message,
                mistake.code or parameter.error_code,
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

    def json_of(self, parameter: Parameter, value: QueryText) -> Any:
        """Decode JSON from a query string; if it is not JSON, say which parameter takes it."""
        try:
            return json_of_text(value)
        except Mistake as mistake:
            if parameter.name not in MISPLACED:
                raise
            raise Mistake(f"{mistake.message}; {MISPLACED[parameter.name]}") from None

    def note(self, param: str, message: str, code: str | None) -> None:
        """Record a mistake."""
        self.errors.append(
            {"code": code or "invalid_request", "param": param, "message": f"{param} {message}"}
        )

    def note_unknown(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """Record an unknown parameter, and suggest the nearest known one."""
        shown = name[:100]
        hint = ""
        if name in FOREIGN:
            hint = f"; here, {FOREIGN[name]}"
        elif len(self.errors) < HINTS_MAX:
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
        """Raise the first mistake; if there are more, `details` lists all."""
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

    def read_query(self, value: Any) -> None:
        """Read `query`."""
        if not isinstance(value, str):
            raise Mistake("must be a text")
        if len(value) > self.limits.query_chars_max:
            raise Mistake(
                f"has {len(value)} characters, more than {self.limits.shown('query_chars_max')}",
                code="query_too_long",
            )
        self.values["query"] = str(value)

    def read_match(self, value: Any) -> None:
        """Read `match`."""
        self.values["match"] = self.mode(parse_match(value), MATCH_FORMS)

    def read_prefix(self, value: Any) -> None:
        """Read `prefix`."""
        self.values["prefix"] = self.mode(parse_prefix(value), PREFIX_FORMS)

    def read_typo(self, value: Any) -> None:
        """Read `typo`."""
        self.values["typo"] = self.mode(parse_typo(value), TYPO_FORMS)

    def read_infix(self, value: Any) -> None:
        """Read `infix`."""
        self.values["infix"] = 2 if boolean(value) else 0

    def read_typo_lengths(self, value: Any) -> None:
        """Read `typo_lengths`."""
        if isinstance(value, str):
            parts = value.strip("[] ").split(",")
            value = [int(one) if DIGITS.fullmatch(one.strip()) else None for one in parts]
        self.values["typo_lengths"] = self.mode(parse_typo_lengths(value), TYPO_LENGTHS_FORMS)

    def mode(self, mode: Any, forms: str) -> Any:
        """Return a parsed mode, or raise a mistake that lists the valid ones."""
        if mode is None:
            raise Mistake(forms)
        return str(mode) if isinstance(mode, str) else mode

    def read_search_fields(self, value: Any) -> None:
        """Read `search_fields`."""
        fields = [
            parse_weighted_field(name) for name in names(value, "search_fields_max", self.limits)
        ]
        if not fields or None in fields:
            raise Mistake('must name fields, with weights such as "name^3" (above 0, up to 1000)')
        for field in fields:
            check_field(field.path, self.limits)  # type: ignore[union-attr]
        self.values["search_fields"] = tuple(fields)

    def read_page(self, value: Any) -> None:
        """Read `page`."""
        self.values["page"] = integer(value, 1, "page_max", self.limits)

    def read_per_page(self, value: Any) -> None:
        """Read `per_page`."""
        self.values["per_page"] = integer(value, 0, "per_page_max", self.limits)

    def read_facet_per_page(self, value: Any) -> None:
        """Read `per_page` of the facet route."""
        self.values["per_page"] = integer(value, 0, "facet_per_page_max", self.limits)

    def read_cursor(self, value: Any) -> None:
        """Read `cursor`."""
        cursor = text(value, "cursor_chars_max", self.limits)
        if self.values.get("page", 1) != 1:
            raise Mistake("and page exclude each other")
        self.values["cursor"] = cursor

    def read_sort_field(self, value: Any) -> None:
        """Read `sort_field`."""
        self.sort_field = check_field(value, self.limits)

    def read_order(self, value: Any) -> None:
        """Read `order`."""
        if not isinstance(value, str) or value.lower() not in ("asc", "desc"):
            raise Mistake('must be "asc" or "desc"')
        is_descending = value.lower() == "desc"
        if self.sort_field is None:
            self.values["is_place_descending"] = is_descending
        elif is_descending:
            collation = self.configuration.collation_of(self.sort_field)
            self.values["sort"] = (SortKey(self.sort_field, True, collation=collation),)

    def read_sort(self, value: Any) -> None:
        """Read `sort`."""
        if self.sort_field is not None:
            raise Mistake("and sort_field exclude each other")
        self.values["sort"] = read_sort_keys(value, self.configuration, self.limits)
        self.values["sort_param"] = "sort"

    def read_boost(self, value: Any) -> None:
        """Read `boost`."""
        boosts = object_of(value, 'of boosts by field, for example {"popularity": {"log": 0.3}}')
        if len(boosts) > self.limits.boosts_max:
            raise Mistake(
                f"names {len(boosts)} fields, more than {self.limits.shown('boosts_max')}"
            )
        mistakes: list[Mistake] = []

        def report(path: str, message: str) -> None:
            mistakes.append(Mistake(message, path=path))

        def is_field(path: str, name: str) -> bool:
            check_field(name, self.limits, path)
            return True

        parsed = self.values["boosts"] = parse_boosts(boosts, is_field, report)
        if mistakes:
            raise mistakes[0]
        geo_fields = self.configuration.geo_fields
        for boost in parsed:
            if boost.point is not None and boost.field not in geo_fields:
                known = ", ".join(geo_fields) or "none"
                raise Mistake(
                    f"counts distances from a point, but the geo_fields are {known[:500]}",
                    path=f".{boost.field[:100]}",
                )
            if boost.point is None and boost.field in geo_fields:
                raise Mistake(NO_POINT, path=f".{boost.field[:100]}")

    def read_rules(self, value: Any) -> None:
        """Read `rules`."""
        if not isinstance(value, list) or len(value) > self.limits.rules_max:
            raise Mistake(f"must be a list of up to {self.limits.shown('rules_max')} rules")
        mistakes: list[Mistake] = []

        def report(path: str, message: str) -> None:
            mistakes.append(Mistake(message, path=path))

        self.values["rules"] = parse_rules(value, self.limits, report)
        if mistakes:
            raise mistakes[0]

    def read_min_score(self, value: Any) -> None:
        """Read `min_score`."""
        if value.__class__ is QueryText and NUMBER.fullmatch(value):
            value = float(value)
        if type(value) not in (int, float) or not 0 <= value <= MIN_SCORE_MAX:
            raise Mistake(f"must be a number from 0 to {MIN_SCORE_MAX:g}")
        self.values["min_score"] = float(value)

    def read_distinct(self, value: Any) -> None:
        """Read `distinct`."""
        if isinstance(value, str) and not value.startswith("{"):
            self.values["distinct"] = Distinct(check_field(value, self.limits))
            return
        if isinstance(value, str):
            value = json_of_text(value)
        options = object_of(value, 'for example {"field": "brand", "limit": 1}')
        check_members(options, ("field", "limit", "sizes", "hits", "facets_by"))
        limit, hits = options.get("limit"), options.get("hits")
        facets_by = options.get("facets_by")
        if facets_by not in (None, "items", "groups"):
            raise Mistake('must be "items" or "groups"', path=".facets_by")
        self.values["distinct"] = Distinct(
            check_field(options.get("field"), self.limits, ".field"),
            1 if limit is None else integer(limit, 1, "distinct_max", self.limits, ".limit"),
            facets_by == "groups",
        )
        if hits is not None:
            if limit not in (None, 1, "1"):
                raise Mistake("and a limit above 1 exclude each other", path=".hits")
            self.values["group_hits"] = integer(hits, 1, "distinct_max", self.limits, ".hits")
        elif optional_bool(options, "sizes", False, ""):
            self.values["group_hits"] = 0

    def read_fields(self, value: Any) -> None:
        """Read `fields`."""
        self.values["fields"] = paths(value, self.limits)

    def read_exclude_fields(self, value: Any) -> None:
        """Read `exclude_fields`."""
        self.values["exclude_fields"] = paths(value, self.limits)

    def read_show(self, value: Any) -> None:
        """Read `show`."""
        shown = frozenset(names(value, "projected_fields_max", self.limits))
        if not shown <= _SHOWN:
            raise Mistake(f"must be a list of {', '.join(sorted(_SHOWN))}")
        self.values["show"] = shown

    def read_partial(self, value: Any) -> None:
        """Read `partial`."""
        if value not in ("fail", "allow"):
            raise Mistake('must be "fail" or "allow"')
        self.values["allows_partial"] = value == "allow"

    def read_timeout_ms(self, value: Any) -> None:
        """Read `timeout_ms`."""
        self.values["timeout_ms"] = integer(value, 1, "request_timeout_ms_max", self.limits)

    def read_highlight(self, value: Any) -> None:
        """Read `highlight`."""
        self.marks.update(read_highlight(value, self.limits))

    def read_snippet(self, value: Any) -> None:
        """Read `snippet`."""
        self.marks.update(read_snippet(value, self.limits))

    def read_facet_fields(self, value: Any) -> None:
        """Read `facet_fields`."""
        if isinstance(value, dict):
            raise Mistake('must be a list of names: ["tags"]; facets takes options by facet')
        self.facet_fields = names(value, "facet_fields_max", self.limits)

    def read_facet_mode(self, value: Any) -> None:
        """Read `facet_mode`."""
        if value not in ("auto", "strict"):
            raise Mistake('must be "auto" or "strict"')
        self.values["is_strict"] = value == "strict"

    def read_hide_zero(self, value: Any) -> None:
        """Read `hide_zero`."""
        self.values["hide_zero"] = boolean(value)

    def read_facets(self, value: Any) -> None:
        """Read `facets`."""
        if value and isinstance(value, (str, list)):
            raise Mistake(f"must be an object of options by facet; {MISPLACED['facets']}")
        self.facet_options = read_facet_options(value, self.configuration, self.limits)
        settings = {name: one.configuration for name, one in self.facet_options.items()}
        self.field_facets = {name: one for name, one in settings.items() if name not in self.facets}
        self.facets = {
            **self.facets,
            **{name: settings[name] for name in settings if name in self.facets},
        }
        for name in self.field_facets:
            self.conditions.fields[name] = f"facets.{name}"

    def read_facet_ranges(self, value: Any) -> None:
        """Read `facet_ranges`."""
        self.ranges = read_facet_ranges(value, self.configuration.geo_fields, self.limits)

    def read_facet_cube(self, value: Any) -> None:
        """Read `facet_cube`."""
        self.cube = self.values["cube"] = read_facet_cube(value, self.limits)

    def read_filters(self, value: Any) -> None:
        """Read `filters`."""
        self.conditions.require(
            value,
            self.facets,
            self.field_facets,
            [name for name, _ in self.ranges],
            None if self.cube is None else self.cube.field,
        )

    def read_not_filters(self, value: Any) -> None:
        """Read `not_filters`."""
        self.conditions.exclude(value)

    def read_filter(self, value: Any) -> None:
        """Read `filter`."""
        self.conditions.require_expression(value, self.facets)

    def read_trees(self, value: Any) -> None:
        """Read `trees`."""
        self.values["trees"] = self.conditions.trees(value, is_strict=self.is_strict)

    def read_key_pattern(self, value: Any) -> None:
        """Read `query` of the facet route."""
        self.values["key_pattern"] = text(value, "query_chars_max", self.limits)

    def read_facet_query(self, value: Any) -> None:
        """Read `facet_query`."""
        self.values["key_query"] = text(value, "query_chars_max", self.limits)

    def read_id(self, value: Any) -> None:
        """Read `id`."""
        self.values["only_ids"] = (self.item_id(value),)

    def item_id(self, value: Any) -> bytes:
        """Return the canonical form of an item's id."""
        canonical = canonical_id(value) if isinstance(value, (int, str)) else None
        if canonical is None:
            raise Mistake("must be an item's id: a number, or a text of 1 to 256 bytes")
        return canonical

    def read_similar_to(self, value: Any) -> None:
        """Read `similar_to`."""
        if self.values.get("query"):
            raise Mistake("and query exclude each other")
        self.values["similar_to"] = self.item_id(value)

    def read_did_you_mean(self, value: Any) -> None:
        """Read `did_you_mean`."""
        self.values["did_you_mean"] = boolean(value)

    def read_suggestions_size(self, value: Any) -> None:
        """Read `size` of the route of suggestions."""
        self.values["size"] = integer(value, 1, "suggestions_max", self.limits)

    def read_name(self, value: Any) -> None:
        """Read `name`."""
        self.values["name"] = check_field(value, self.limits)

    def search_parameters(self) -> SearchParameters:
        """Build the result from what was read.

        Raises:
            InvalidRequest: any parameter was wrong.
        """
        self.check_groups()
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
        if "infix" not in values:
            values["infix"] = 2 if configuration.is_infix else int(bool(configuration.infix_fields))
        if "typo_lengths" not in values:
            values["typo_lengths"] = configuration.typo_lengths
        if "boosts" not in values:
            values["boosts"] = configuration.boosts
        if "search_fields" not in values:
            values["search_fields"] = configuration.searchable_fields
        if "timeout_ms" not in values:
            values["timeout_ms"] = self.limits.request_timeout_ms
        if self.sort_field is not None and "sort" not in values:
            collation = configuration.collation_of(self.sort_field)
            values["sort"] = (SortKey(self.sort_field, collation=collation),)
        if configuration.nested and "sort" in values:
            values["sort"] = tuple([self.element_key(key) for key in values["sort"]])
        conditions = self.conditions
        if conditions.clauses:
            values["filters"] = tuple(conditions.clauses)
            values["selected"] = conditions.selected
        if conditions.fields:
            values["filter_fields"] = conditions.fields
        if self.marks:
            per_page = values.get("per_page", PER_PAGE_DEFAULT)
            values["marks"] = highlight_request(self.marks, per_page, self.limits)
        if self.ranges:
            values["ranges"] = tuple([self.range_request(*one) for one in self.ranges])
        values["facets"] = self.facet_specs(self.facets)
        if self.field_facets:
            values["field_facets"] = self.facet_specs(self.field_facets)
        if within := conditions.facets_within(self.facets, is_strict=self.is_strict):
            values["within"] = within
        return SearchParameters(**values)

    @property
    def is_strict(self) -> bool:
        """Whether every count is of the hits, with all filters."""
        return bool(self.values.get("is_strict"))

    def leaves_out_own(self, name: str) -> bool:
        """Return whether the counts of a field leave out what `filters` says of it."""
        facet = self.facets.get(name) or self.field_facets.get(name)
        is_conjunctive = facet is not None and facet.conjunction
        return not is_conjunctive and not self.is_strict

    def range_request(self, name: str, options: Mapping[str, Any]) -> RangeRequest:
        """Return the request of one field of `facet_ranges`."""
        leaves_out_own = self.leaves_out_own(name)
        within = self.conditions.range_within(name, options, leaves_out_own=leaves_out_own)
        return RangeRequest(name, leaves_out_own=leaves_out_own, within=within, **options)

    def check_groups(self) -> None:
        """Record conflicts between `distinct` and other parameters."""
        values = self.values
        num_items = values.get("per_page", PER_PAGE_DEFAULT) * (values.get("group_hits") or 0)
        if num_items > self.limits.per_page_max:
            shown = self.limits.shown("per_page_max")
            self.note(
                "distinct.hits",
                f"times per_page is {num_items}, but a page has up to {shown}",
                "invalid_distinct",
            )
        distinct = values.get("distinct")
        if distinct is not None and distinct.counts_groups and self.cube is not None:
            self.note(
                "facet_cube",
                'counts items, and cannot be combined with distinct.facets_by "groups"',
                "invalid_facet_cube",
            )
        if distinct is not None and distinct.counts_groups and self.field_facets:
            name = next(iter(self.field_facets))
            self.note(
                "distinct.facets_by",
                f'"groups" counts configured facets only; {name[:100]!r} is none',
                "invalid_distinct",
            )

    def element_key(self, key: SortKey) -> SortKey:
        """Return a sort key; inside a nested field, restricted to the elements that match."""
        conditions = self.conditions
        nested = None if key.field is None else conditions.nested_field_of(key.field)
        return key if nested is None else structs.replace(key, within=conditions.element(nested))

    def facet_specs(self, facets: Mapping[str, FacetConfiguration]) -> tuple[FacetSpec, ...]:
        """Return the facets to show, in order."""
        if self.facet_fields is None and not self.facet_options:
            return _all_facets(self.configuration)
        wanted = facets if self.facet_fields is None else set(self.facet_fields)
        specs = []
        for name, facet in facets.items():
            if name in wanted:
                options = self.facet_options.get(name)
                specs.append(
                    facet_spec(facet)
                    if options is None
                    else facet_spec(facet, options.key_query, options.offset, options.summary)
                )
        return tuple(specs)


class _AllFacetsCache:
    """Caches the facets of an index for requests that name none: always the same tuple.

    Keyed by identity, because a configuration is immutable and replaced as a whole. Each entry
    holds its configuration, so that the identity cannot be reused meanwhile.
    """

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.entries: dict[int, tuple[IndexConfiguration, tuple[FacetSpec, ...]]] = {}

    def __call__(self, configuration: IndexConfiguration) -> tuple[FacetSpec, ...]:
        entry = self.entries.get(id(configuration))
        if entry is None:
            if len(self.entries) >= self.size_max:
                self.entries.clear()
            specs = tuple(facet_spec(facet) for facet in configuration.facets.values())
            entry = self.entries[id(configuration)] = (configuration, specs)
        return entry[1]


_all_facets: Final = _AllFacetsCache(size_max=1_000)
