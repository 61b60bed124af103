r"""Algolia's rules in terms of ours (pure).

    {"objectID": "tv", "conditions": [{"pattern": "tv", "anchoring": "contains",
                                       "filters": "category:tv"}],
     "consequence": {"promote": [{"objectID": "7", "position": 0}], "hide": [{"objectID": "9"}],
                     "params": {"filters": "in_stock:true"}, "userData": {"banner": "tv.webp"}},
     "validity": [{"from": 1767225600, "until": 1767830400}], "enabled": true}

    {"name": "tv", "when": {"query": {"contains": "tv"}, "filters": {"category": ["tv"]},
                            "from": "2026-01-01T00:00:00Z", "until": "2026-01-08T00:00:00Z"},
     "pin": [{"id": "7", "position": 1}], "hide": ["9"], "filter": "\"in_stock\" IN [\"true\"]",
     "data": {"banner": "tv.webp"}}

A rule with several conditions or periods becomes one of ours for each; a rule that is switched off
becomes none. A member without an equivalent is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any, Final

from common.curation_rules import NAME_CHARS_MAX, POSITION_MAX
from common.item_ids import ID_BYTES_MAX, canonical_id
from common.limits import DEFAULT_LIMITS
from common.moments import timestamp_of
from common.query_syntax_tree import And, AnyOf, Filter
from coordinator.algolia.filters import (
    expression_of,
    facet_condition,
    facet_filter,
    groups_of,
    numeric_filters,
    parse_filters,
    quoted,
    tag_filters,
)
from coordinator.algolia.stored_rules_and_synonyms import ObjectKind, refused, wrong
from coordinator.algolia.unsupported_parameters import is_known
from coordinator.parameters.value_parsers import Mistake

_CONSEQUENCES: Final = ("promote", "hide", "filterPromotes", "params", "userData", "redirect")
_MEMBERS: Final = (
    *("objectID", "conditions", "condition", "consequence", "description", "enabled"),
    *("validity", "tags", "scope"),
)
_ANCHORS: Final = ("is", "contains")
_MATCHING_MAX: Final = 100
"""Conditions times periods of one rule."""
_PLACEHOLDER: Final = re.compile(r"\{facet:[^{}]*\}")
_YEAR_MAX: Final = 9999

_TEXT: Final = {"type": ["string", "null"]}
_LIST: Final = {"type": ["array", "null"], "items": {"type": "object"}}
RULE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "objectID": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX},
        "description": _TEXT,
        "enabled": {"type": ["boolean", "null"]},
        "conditions": {
            **_LIST,
            "description": 'Any of them: {"pattern": "tv", "anchoring": "is" or "contains", '
            '"filters": "brand:acme"}.',
        },
        "consequence": {
            "type": "object",
            "description": '{"promote": [{"objectID": "1", "position": 0}], "hide": [{"objectID": '
            '"2"}], "params": {"filters": "in_stock:true"}, "userData": {"banner": "tv.webp"}}',
            "examples": [{"promote": [{"objectID": "1", "position": 0}]}],
        },
        "validity": {**_LIST, "description": '[{"from": …, "until": …}], in seconds since 1970.'},
    },
    "required": ["consequence"],
}


def _listed(value: Any) -> list[Any]:
    """Return a configuration's rules, each with the name that answers show."""
    if not isinstance(value, list):
        return []
    return [{**one, "name": one.get("name") or f"rule {i + 1}"} for i, one in enumerate(value)]


# --- theirs to ours


def _native_of(rule: Mapping[str, Any], param: str) -> list[Any]:
    for name in rule:
        if name not in _MEMBERS:
            raise refused(f"{param}.{name}", "cannot be honoured: rules have no such member")
    for name in ("description", "scope"):
        if not isinstance(rule.get(name), str | None):
            raise wrong(f"{param}.{name}", "must be a text")
    enabled = rule.get("enabled")
    if enabled is not None and not isinstance(enabled, bool):
        raise wrong(f"{param}.enabled", "must be true or false")
    effect = _effect(_object(rule.get("consequence"), f"{param}.consequence"), param)
    conditions = _conditions(rule, param)
    periods = _periods(rule.get("validity"), f"{param}.validity")
    if len(conditions) * len(periods) > _MATCHING_MAX:
        raise wrong(param, f"has more than {_MATCHING_MAX} conditions times periods")
    if enabled is False:
        return []
    rules = []
    for condition, period in product(conditions, periods):
        when = {**condition, **period}
        rules.append({"name": rule["objectID"], **({"when": when} if when else {}), **effect})
    return rules


def _object(value: Any, param: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(param, "must be an object")
    return value


def _list(value: Any, param: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong(param, "must be a list")
    return value


def conditions_of(rule: Mapping[str, Any], param: str = "rule") -> list[Any]:
    """Return the conditions of a rule; `condition` is the older form, of one."""
    given = _list(rule.get("conditions"), f"{param}.conditions")
    return given if rule.get("condition") is None else [*given, rule["condition"]]


def _conditions(rule: Mapping[str, Any], param: str) -> list[dict[str, Any]]:
    """Return the form of each condition in `when`."""
    given = conditions_of(rule, param)
    found = [
        _condition(_object(one, f"{param}.conditions[{i}]"), f"{param}.conditions[{i}]")
        for i, one in enumerate(given)
    ]
    return found or [{}]


def _condition(condition: Mapping[str, Any], param: str) -> dict[str, Any]:
    when: dict[str, Any] = {}
    for name, value in condition.items():
        if name not in ("pattern", "anchoring", "filters", "context", "alternatives"):
            raise refused(f"{param}.{name}", "cannot be honoured: conditions have no such member")
        if value is None or (name == "alternatives" and value is False):
            continue
        if name == "context":
            raise refused(f"{param}.context", "cannot be honoured: rules have no contexts")
        if name == "alternatives":
            raise refused(
                f"{param}.alternatives",
                "cannot be honoured: rules look at the words as they were typed",
            )
    pattern, anchoring = condition.get("pattern"), condition.get("anchoring")
    if pattern is not None:
        if not isinstance(pattern, str):
            raise wrong(f"{param}.pattern", "must be a text")
        if _PLACEHOLDER.search(pattern):
            raise refused(f"{param}.pattern", "cannot be honoured: patterns name no facets")
        if anchoring in ("startsWith", "endsWith"):
            raise refused(f"{param}.anchoring", 'can be "is" or "contains"')
        if anchoring not in _ANCHORS:
            raise wrong(f"{param}.anchoring", 'must be "is" or "contains"')
        if anchoring == "contains" and not pattern.strip():
            raise wrong(f"{param}.pattern", 'must not be empty, unless anchoring is "is"')
        when["query"] = {anchoring: pattern}
    elif anchoring is not None:
        raise wrong(f"{param}.anchoring", "needs a pattern")
    filters = condition.get("filters")
    if filters not in (None, ""):
        when["filters"] = _required_values(filters, f"{param}.filters")
    return when


def _required_values(text: Any, param: str) -> dict[str, list[str]]:
    """Return the values by field that a search must filter by."""
    if not isinstance(text, str):
        raise wrong(param, "must be a text")
    try:
        parsed = parse_filters(text, DEFAULT_LIMITS)
    except Mistake as mistake:
        raise wrong(param, mistake.message) from None
    values: dict[str, list[str]] = {}
    for one in parsed.children if isinstance(parsed, And) else (parsed,):
        if not isinstance(one, AnyOf) or len(one.values) != 1:
            raise refused(param, 'can be values joined by AND alone: "brand:acme AND size:L"')
        values.setdefault(one.field, []).append(one.values[0])
    return values


def _periods(value: Any, param: str) -> list[dict[str, Any]]:
    """Return the form of each period in `when`."""
    periods: list[dict[str, Any]] = []
    for i, one in enumerate(_list(value, param)):
        period = {}
        for name, timestamp in _object(one, f"{param}[{i}]").items():
            if name not in ("from", "until"):
                raise wrong(f"{param}[{i}].{name}", "is unknown; known are from, until")
            if timestamp is not None:
                period[name] = _timestamp(timestamp, f"{param}[{i}].{name}")
        periods.append(period)
    return periods or [{}]


def _timestamp(value: Any, param: str) -> str:
    if type(value) is int:
        try:
            return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
        except (ValueError, OverflowError, OSError):
            pass
    raise wrong(param, f"must be seconds since 1970, before the year {_YEAR_MAX}")


def _effect(consequence: Mapping[str, Any], param: str) -> dict[str, Any]:
    """Return the form of a consequence in a rule of ours."""
    param = f"{param}.consequence"
    effect: dict[str, Any] = {}
    for name, value in consequence.items():
        if name not in _CONSEQUENCES:
            raise wrong(
                f"{param}.{name}", "is unknown; known are promote, hide, filterPromotes, params"
            )
        if value is None or (type(value) in (list, dict) and not value):
            continue
        match name:
            case "promote":
                effect["pin"] = _pins(_list(value, f"{param}.promote"), f"{param}.promote")
            case "hide":
                effect["hide"] = [
                    _id(_object(one, f"{param}.hide[{i}]").get("objectID"), f"{param}.hide[{i}]")
                    for i, one in enumerate(_list(value, f"{param}.hide"))
                ]
            case "params":
                filters = _filter(_object(value, f"{param}.params"), f"{param}.params")
                if filters:
                    effect["filter"] = filters
            case "filterPromotes":
                if value is not True:
                    raise refused(
                        f"{param}.filterPromotes",
                        "can be true alone: promoted items are hits if they pass the filters",
                    )
            case "userData":
                effect["data"] = _object(value, f"{param}.userData")
            case "redirect":
                raise refused(f"{param}.redirect", "cannot be honoured: rules do not redirect")
    if not effect:
        raise refused(
            param, "must promote, hide, filter or have userData: there is nothing else rules do"
        )
    return effect


def _pins(promoted: list[Any], param: str) -> list[dict[str, Any]]:
    pins: list[dict[str, Any]] = []
    for i, one in enumerate(promoted):
        one = _object(one, f"{param}[{i}]")
        position = one.get("position")
        if type(position) is not int or not 0 <= position < POSITION_MAX:
            raise wrong(
                f"{param}[{i}].position", f"must be an integer from 0 to {POSITION_MAX - 1}"
            )
        ids = one.get("objectIDs")
        ids = [one.get("objectID")] if ids is None else _list(ids, f"{param}[{i}].objectIDs")
        pins += [
            {"id": _id(id_, f"{param}[{i}]"), "position": position + 1 + j}
            for j, id_ in enumerate(ids)
        ]
    return pins


def _id(value: Any, param: str) -> str:
    if not isinstance(value, str) or canonical_id(value) is None:
        raise wrong(f"{param}.objectID", f"must be a text of 1 to {ID_BYTES_MAX} bytes")
    return value


def _filter(params: Mapping[str, Any], param: str) -> str | None:
    """Return the filters that a consequence adds to a search, in our filter language."""
    conditions: list[Filter] = []
    for name, value in params.items():
        if value in (None, "", []) and is_known(name):
            continue
        try:
            match name:
                case "filters" if isinstance(value, str):
                    conditions.append(parse_filters(value, DEFAULT_LIMITS))
                case "facetFilters":
                    conditions += [
                        facet_condition([facet_filter(one) for one in group])
                        for group in groups_of(value, DEFAULT_LIMITS)
                    ]
                case "numericFilters":
                    conditions += numeric_filters(value, DEFAULT_LIMITS)
                case "tagFilters":
                    conditions += tag_filters(value, DEFAULT_LIMITS)
                case "filters":
                    raise Mistake("must be a text")
                case _:
                    raise refused(
                        f"{param}.{name}",
                        "cannot be honoured: a rule can add filters, facetFilters, numericFilters "
                        "and tagFilters (to boost, use rules in the index's configuration)",
                    )
        except Mistake as mistake:
            raise wrong(f"{param}.{name}", mistake.message) from None
    texts = [expression_of(one) for one in conditions if one != And(())]
    return " AND ".join(texts) or None


# --- ours to theirs


def _shown(rule: Mapping[str, Any], _: int) -> dict[str, Any]:
    when = rule.get("when") or {}
    condition: dict[str, Any] = {}
    query = when.get("query")
    if query is not None:
        how, words = next(iter(query.items())) if isinstance(query, dict) else ("is", query)
        condition |= {"pattern": words, "anchoring": how}
    if when.get("filters"):
        condition["filters"] = " AND ".join(
            f"{quoted(name)}:{quoted(str(value))}"
            for name, values in when["filters"].items()
            for value in (values if isinstance(values, list) else [values])
        )
    consequence: dict[str, Any] = {}
    pins = _as_list(rule.get("pin"))
    if pins:
        consequence["promote"] = [
            {"objectID": str(one["id"]), "position": one.get("position", i + 1) - 1}
            if isinstance(one, dict)
            else {"objectID": str(one), "position": i}
            for i, one in enumerate(pins)
        ]
        consequence["filterPromotes"] = True
    if rule.get("hide"):
        consequence["hide"] = [{"objectID": str(one)} for one in _as_list(rule["hide"])]
    own = {name: rule[name] for name in ("boost", "bury", "filter") if rule.get(name)}
    if own:  # in params: storing this rule again is then an error, as it would lose them
        consequence["params"] = own
    if rule.get("data"):
        consequence["userData"] = rule["data"]
    shown = {
        "objectID": rule["name"],
        "conditions": [condition] if condition else [],
        "consequence": consequence,
        "enabled": True,
    }
    period = {
        name: int(timestamp)
        for name in ("from", "until")
        if when.get(name) is not None and (timestamp := timestamp_of(when[name])) is not None
    }
    if period:
        shown["validity"] = [period]
    return shown


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


RULES: Final = ObjectKind("rules", _listed, _native_of, _shown)
