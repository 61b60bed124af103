"""Curation rules: how a shop edits the results of its searches; one parser for all uses.

    {"name": "tv week",                                   shown in answers; absent: "rule 1"
     "when": {"query": {"is": "tv"},                      or {"contains": "tv"}; absent: any query
              "filters": {"category": ["tv"]},            the search filters by these values
              "from": "2026-11-20", "until": "2026-11-30T18:00:00Z"},
     "pin": [42, {"id": "7", "position": 5}],             to positions 1 and 5
     "hide": [13],
     "boost": [{"filter": "brand = acme", "factor": 3}],
     "bury": ["condition = used"],                        factor 0.001
     "filter": "in_stock = true",
     "data": {"banner": "tv.webp"}}                       for the page; answers show it

Filters stay texts here; the coordinator parses them like those of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from common.item_ids import canonical_id
from common.limits import Limits
from common.moments import timestamp_of
from common.value_kinds_and_facet_keys import facet_key

BURY_FACTOR: Final = 0.001
FACTOR_MAX: Final = 1_000.0
POSITION_MAX: Final = 10_000
NAME_CHARS_MAX: Final = 100
_MEMBERS: Final = ("name", "when", "pin", "hide", "boost", "bury", "filter", "data")
_CONDITIONS: Final = ("query", "filters", "from", "until")

Report: TypeAlias = Callable[[str, str], None]
"""Takes the path within the list, and what would be valid."""


class RulePin(NamedTuple):
    """An item at a fixed position of the hits."""

    id: str
    position: int


class RuleFactor(NamedTuple):
    """A factor on the scores of the items that pass a filter."""

    filter: str
    factor: float


class Rule(NamedTuple):
    """One rule, defaults filled in."""

    name: str
    query: str | None = None
    """As posted; None: any query."""
    is_whole_query: bool = True
    """Whether the query must be these words, or only contain them next to each other."""
    filters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Facet keys by field that the search must filter by."""
    begins: float | None = None
    """In seconds since 1970; None: no beginning."""
    ends: float | None = None
    begins_text: str | None = None
    ends_text: str | None = None
    """As posted."""
    pins: tuple[RulePin, ...] = ()
    hidden: tuple[str, ...] = ()
    """Ids."""
    factors: tuple[RuleFactor, ...] = ()
    filter: str | None = None
    data: dict[str, Any] | None = None
    """For the page that shows the hits."""


class _Mistake(Exception):
    """Ends the reading of one rule."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def parse_rules(value: Any, limits: Limits | None, report: Report) -> tuple[Rule, ...]:
    """Parse a list of rules.

    Args:
        value: the list; the caller bounds its length.
        limits: bounds on ids; None for rules that were accepted before.
        report: is called with the first mistake of each rule.
    """
    rules = []
    for i, one in enumerate(value):
        try:
            rules.append(_parse_rule(one, f"rule {i + 1}", limits))
        except _Mistake as mistake:
            report(f"[{i}]{mistake.path}", mistake.message)
    return tuple(rules)


def _parse_rule(value: Any, default_name: str, limits: Limits | None) -> Rule:
    _check_members(value, _MEMBERS, "")
    name = value.get("name")
    if name is None:
        name = default_name
    elif not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX:
        raise _Mistake(".name", f"must be a text of 1 to {NAME_CHARS_MAX} characters")
    pins = _read_pins(value.get("pin"))
    hidden = tuple(
        _read_id(one, f".hide[{i}]") for i, one in enumerate(_as_list(value.get("hide")))
    )
    if limits is not None and len(pins) + len(hidden) > limits.rule_items_max:
        raise _Mistake(
            "",
            f"pins and hides {len(pins) + len(hidden)} items, more than "
            f"{limits.shown('rule_items_max')}",
        )
    factors = [
        *(_read_factor(one, f".boost[{i}]") for i, one in enumerate(_as_list(value.get("boost")))),
        *(
            RuleFactor(_read_filter(one, f".bury[{i}]"), BURY_FACTOR)
            for i, one in enumerate(_as_list(value.get("bury")))
        ),
    ]
    if limits is not None and len(factors) > limits.boosts_max:
        raise _Mistake(
            "",
            f"boosts and buries by {len(factors)} filters, more than {limits.shown('boosts_max')}",
        )
    narrowing, data = value.get("filter"), value.get("data")
    if data is not None and not isinstance(data, dict):
        raise _Mistake(".data", 'must be an object such as {"banner": "tv.webp"}')
    rule = Rule(
        name=name,
        pins=pins,
        hidden=hidden,
        factors=tuple(factors),
        filter=None if narrowing is None else _read_filter(narrowing, ".filter"),
        data=data or None,
    )
    if not (rule.pins or rule.hidden or rule.factors or rule.filter or rule.data):
        raise _Mistake("", "must do something: pin, hide, boost, bury, filter or give data")
    return _with_conditions(rule, value.get("when"), limits)


def _with_conditions(rule: Rule, when: Any, limits: Limits | None) -> Rule:
    if when is None:
        return rule
    _check_members(when, _CONDITIONS, ".when")
    query = when.get("query")
    is_whole = True
    if isinstance(query, dict):
        if set(query) not in ({"is"}, {"contains"}) or None in query.values():
            raise _Mistake(".when.query", 'must be {"is": …} or {"contains": …}, or a text')
        ((how, query),) = query.items()
        is_whole = how == "is"
    if query is not None and (not isinstance(query, str) or (not is_whole and not query.strip())):
        raise _Mistake(".when.query", "must be a text that is not empty")
    moments = {}
    for name in ("from", "until"):
        text = when.get(name)
        moments[name] = timestamp_of(text) if isinstance(text, str) else None
        if text is not None and moments[name] is None:
            raise _Mistake(f".when.{name}", 'must be an ISO date such as "2026-01-31T12:00:00Z"')
    begins, ends = moments.values()
    if limits is not None and begins is not None and ends is not None and begins >= ends:
        raise _Mistake(".when.until", "must be after from")
    return rule._replace(
        query=query,
        is_whole_query=is_whole,
        filters=_read_filters(when.get("filters")),
        begins=moments["from"],
        ends=moments["until"],
        begins_text=when.get("from"),
        ends_text=when.get("until"),
    )


def _read_filters(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise _Mistake(".when.filters", 'must be an object such as {"category": ["tv"]}')
    filters = []
    for name, wanted in value.items():
        keys = [facet_key(one) for one in _as_list(wanted)]
        if not name or not keys or None in keys:
            raise _Mistake(
                f".when.filters.{name[:100]}", "must be a value, or a list of values, of a field"
            )
        filters.append((name, tuple(key for key in keys if key is not None)))
    return tuple(filters)


def _read_pins(value: Any) -> tuple[RulePin, ...]:
    pins = []
    for i, one in enumerate(_as_list(value)):
        path = f".pin[{i}]"
        position: Any = i + 1
        if isinstance(one, dict):
            _check_members(one, ("id", "position"), path)
            position = one.get("position", position)
            one = one.get("id")
        if type(position) is not int or not 1 <= position <= POSITION_MAX:
            raise _Mistake(f"{path}.position", f"must be an integer from 1 to {POSITION_MAX}")
        pins.append(RulePin(_read_id(one, path), position))
    if len({pin.id for pin in pins}) < len(pins):
        raise _Mistake(".pin", "has an item twice")
    return tuple(pins)


def _read_factor(value: Any, path: str) -> RuleFactor:
    _check_members(value, ("filter", "factor"), path)
    factor = value.get("factor")
    if type(factor) not in (int, float) or not 0 < factor <= FACTOR_MAX:
        raise _Mistake(f"{path}.factor", f"must be a number above 0, up to {FACTOR_MAX:g}")
    return RuleFactor(_read_filter(value.get("filter"), f"{path}.filter"), float(factor))


def _read_filter(value: Any, path: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Mistake(path, 'must be a filter expression such as "brand = acme"')
    return value


def _read_id(value: Any, path: str) -> str:
    canonical = canonical_id(value) if type(value) in (int, str) else None
    if canonical is None:
        raise _Mistake(path, "must be the id of an item")
    return canonical.decode()


def _check_members(value: Any, known: tuple[str, ...], path: str) -> None:
    if not isinstance(value, dict):
        raise _Mistake(path, f"must be an object with some of {', '.join(known)}")
    for name in value:
        if name not in known:
            raise _Mistake(f"{path}.{name[:100]}", f"is unknown; known are {', '.join(known)}")


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def written(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return rules as a list that parses to them."""
    return [_written_rule(rule) for rule in rules]


def _written_rule(rule: Rule) -> dict[str, Any]:
    when: dict[str, Any] = {
        "query": None
        if rule.query is None
        else {"is" if rule.is_whole_query else "contains": rule.query},
        "filters": {name: list(keys) for name, keys in rule.filters},
        "from": rule.begins_text,
        "until": rule.ends_text,
    }
    document: dict[str, Any] = {
        "name": rule.name,
        "when": {name: one for name, one in when.items() if one},
        "pin": [pin._asdict() for pin in rule.pins],
        "hide": list(rule.hidden),
        "boost": [factor._asdict() for factor in rule.factors],
        "filter": rule.filter,
        "data": rule.data,
    }
    return {name: one for name, one in document.items() if one}
