"""Filters as objects: `{"tags": ["a"], "price": {"gte": 10}}` → filter nodes (pure).

"a" | ["a", "b"]                         values: all of them, or any if the caller says so
{"gte": 10, "lt": 50}                    a range; gt, gte, lt, lte; numbers or texts
{"any": […], "all": […], "none": […]}    values, whatever the facet's conjunction
{"exists": true}                         the field exists; members of one object are ANDed
{"count": {"gte": 2}}                    number of a facet's values or a nested field's elements
{"same": {"size": ["M"], …}}             conditions that a single nested element meets, by field
{"radius": …} {"box": …} {"polygon": …}  the area that a point of the field lies in (`geo`)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from common.index_configuration import IndexConfiguration
from common.limits import Limits
from common.query_syntax_tree import (
    AllOf,
    And,
    AnyOf,
    Contains,
    Exists,
    Filter,
    GeoBox,
    GeoPolygon,
    GeoRadius,
    Ids,
    IsEmpty,
    IsNull,
    Leaf,
    Not,
    NumElements,
    Or,
    Range,
    Same,
    StartsWith,
)
from common.value_kinds_and_facet_keys import facet_key
from coordinator.parameters.geo import AREA_MEMBERS, read_area
from coordinator.parameters.value_parsers import (
    Mistake,
    check_bounds,
    check_value_size,
    object_of,
)

OBJECT_KEYS: Final = frozenset(("count", "same", *AREA_MEMBERS))
"""Members about points and elements, rather than values of the field itself."""
_RANGE_KEYS: Final = frozenset(("gt", "gte", "lt", "lte"))
_CHOICE_KEYS: Final = frozenset(("any", "all", "none", "exists"))
_COMPARISONS: Final = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "equal": "="}
COUNT_MAX: Final = 999_999_999
"""Largest count in a condition: nine digits, as for all integers."""


def count_condition(field: str, operator: str, count: int) -> Filter:
    """Return the filter that compares the number of a field's values or elements."""
    match operator:
        case "=":
            return NumElements(field, count, count)
        case "!=":
            return Not(NumElements(field, count, count))
        case ">" | ">=":
            return NumElements(field, count + (operator == ">"))
        case _:
            return NumElements(field, 0, count - (operator == "<"))


class FilterObjects:
    """Reads the filter objects of one request, which share one limit on values."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.num_values = 0

    def fields(self, value: Any) -> dict[str, Any]:
        """Read the object of filters: the condition of each field."""
        filters = object_of(value, 'of values by field, for example {"tags": ["a", "b"]}')
        if len(filters) > self.limits.filter_fields_max:
            raise Mistake(
                f"names {len(filters)} fields, more than {self.limits.shown('filter_fields_max')}",
                code="too_many_filter_fields",
            )
        return filters

    def condition(
        self, field: str, wanted: Any, is_any: bool, path: str, keys: list[str]
    ) -> Filter | None:
        """Read the condition of one field; append the values that it requires to `keys`.

        Returns:
            The filter, or None if there is no restriction.
        """
        if isinstance(wanted, dict):
            return self._object_condition(field, wanted, path, keys)
        chosen = self._value_keys(wanted, path)
        if not chosen:
            return None
        keys.extend(chosen)
        return AnyOf(field, chosen) if is_any else AllOf(field, chosen)

    def _object_condition(
        self, field: str, wanted: dict[str, Any], path: str, keys: list[str]
    ) -> Filter | None:
        """Read {"gte": 10, "lt": 50}, {"any": […], "all": […], "none": […], "exists": true}."""
        children: list[Filter] = []
        for name in wanted:
            if name not in _RANGE_KEYS and name not in _CHOICE_KEYS and name not in OBJECT_KEYS:
                raise Mistake(
                    "is unknown; known are gt, gte, lt, lte, any, all, none, exists, count, same, "
                    "radius, box, polygon",
                    path=f"{path}.{name[:100]}",
                )
        if not _RANGE_KEYS.isdisjoint(wanted):
            children.append(self._range_condition(field, wanted, path))
        for name in ("any", "all", "none"):
            if wanted.get(name) is None:
                continue
            chosen = self._value_keys(wanted[name], f"{path}.{name}")
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
                raise Mistake("must be true or false", path=f"{path}.exists")
            children.append(Exists(field) if exists else Not(Exists(field)))
        if wanted.get("count") is not None:
            children += self._count_conditions(field, wanted["count"], f"{path}.count")
        children += [
            read_area(field, name, wanted[name], self.limits, f"{path}.{name}")
            for name in AREA_MEMBERS
            if wanted.get(name) is not None
        ]
        if not children:
            return None
        return children[0] if len(children) == 1 else And(tuple(children))

    def nodes(self, wanted: Any, path: str) -> tuple[str, ...]:
        """Read nodes of a tree, each by its full path."""
        return self._value_keys(wanted, path)

    def same(self, field: str, wanted: Any, path: str) -> dict[str, tuple[Any, str]]:
        """Read the conditions on one nested element: values and error path, by full field name."""
        members = object_of(wanted, 'of values by field, for example {"size": ["M"]}')
        if len(members) > self.limits.filter_fields_max:
            shown = self.limits.shown("filter_fields_max")
            raise Mistake(f"names more than {shown} fields", path=path)
        return {f"{field}.{name}": (one, f"{path}.{name[:100]}") for name, one in members.items()}

    def _count_conditions(self, field: str, wanted: Any, path: str) -> list[Filter]:
        """Read the bounds on a number of elements, or the exact number."""
        bounds = {"equal": wanted}
        if isinstance(wanted, dict):
            bounds = {name: bound for name, bound in wanted.items() if bound is not None}
        if not bounds or not all(
            name in _COMPARISONS and type(count) is int and 0 <= count <= COUNT_MAX
            for name, count in bounds.items()
        ):
            raise Mistake('must be a count such as 2, or {"gte": 2, "lt": 5}', path=path)
        return [count_condition(field, _COMPARISONS[name], count) for name, count in bounds.items()]

    def _range_condition(self, field: str, wanted: dict[str, Any], path: str) -> Range:
        """Read the bounds of a range."""
        if None not in (wanted.get("gt"), wanted.get("gte")) or None not in (
            wanted.get("lt"),
            wanted.get("lte"),
        ):
            raise Mistake("has two lower or two upper bounds", path=path)
        is_lower_open, is_upper_open = wanted.get("gt") is not None, wanted.get("lt") is not None
        lower = wanted["gt"] if is_lower_open else wanted.get("gte")
        upper = wanted["lt"] if is_upper_open else wanted.get("lte")
        check_bounds(lower, upper, path, self.limits)
        return Range(field, lower, is_lower_open, upper, is_upper_open)

    def _value_keys(self, wanted: Any, path: str) -> tuple[str, ...]:
        """Read one value or a list of values as facet keys, without repeats."""
        values = wanted if isinstance(wanted, list) else [wanted]
        self.num_values += len(values)
        if self.num_values > self.limits.filter_values_max:
            raise Mistake(
                f"brings all filters to more than {self.limits.shown('filter_values_max')} values",
                code="too_many_filter_values",
                path=path,
            )
        keys: dict[str, None] = {}
        for value in values:
            # The empty text is not a facet value, but a valid condition: it matches nothing.
            key = value if value == "" else facet_key(value)
            if key is None:
                raise Mistake("must be texts, numbers or booleans", path=path)
            check_value_size(key, path, self.limits)
            keys[key] = None
        return tuple(keys)


def check_objects(condition: Filter, configuration: IndexConfiguration, path: str = "") -> None:
    """Reject conditions on points and elements that the index does not support.

    Raises:
        Mistake: a field is not configured for it, or elements do not support the condition.
    """
    for leaf in _leaves(condition):
        match leaf:
            case GeoRadius(field) | GeoBox(field) | GeoPolygon(field):
                if field not in configuration.geo_fields:
                    known = ", ".join(configuration.geo_fields) or "none"
                    raise Mistake(
                        f"has a condition on points of {field[:100]!r}; the geo_fields of the "
                        f"configuration are {known[:500]}",
                        path=path,
                    )
            case NumElements(field):
                if field not in configuration.facets and field not in configuration.nested:
                    raise Mistake(
                        f"counts the values of {field[:100]!r}, which is neither a facet nor a "
                        "nested field: add it to the aggregations or to nested",
                        path=path,
                    )
            case Same(field, within):
                if field not in configuration.nested:
                    known = ", ".join(configuration.nested) or "none"
                    raise Mistake(
                        f"has conditions on one element of {field[:100]!r}; the nested fields of "
                        f"the configuration are {known[:500]}",
                        path=path,
                    )
                _check_element(within, configuration, path)
            case _:
                pass


def _check_element(condition: Filter, configuration: IndexConfiguration, path: str) -> None:
    """Reject conditions that element columns do not support."""
    for leaf in _leaves(condition):
        match leaf:
            case AnyOf(field) | AllOf(field) | StartsWith(field) | Contains(field):
                if field not in configuration.facets:
                    raise Mistake(
                        f"compares {field[:100]!r} with values, which within one element takes a "
                        "facet: add it to the aggregations (numbers can be compared by <, <=, >, "
                        ">=)",
                        path=path,
                    )
            case Range(field, lower=lower, upper=upper):
                if isinstance(lower, str) or isinstance(upper, str):
                    raise Mistake(
                        f"compares the order of texts of {field[:100]!r}, which within one element "
                        "can be done with numbers only",
                        path=path,
                    )
            case Exists():
                pass
            case _:
                raise Mistake(
                    "has a condition that one element cannot have: valid are values, bounds of "
                    "numbers and EXISTS",
                    path=path,
                )


_COMPARISONS_OF_VALUES: Final = (AnyOf, AllOf, Range, StartsWith, Contains)
_TESTS: Final = (Exists, IsNull, IsEmpty)
_AREAS: Final = (GeoRadius, GeoBox, GeoPolygon)


def scalar_fields_of(condition: Filter) -> list[str]:
    """Return the fields whose values a filter compares, also within one element."""
    found = _leaves_and_elements(condition)
    return [leaf.field for leaf in found if isinstance(leaf, _COMPARISONS_OF_VALUES)]


def tested_fields_of(condition: Filter) -> list[str]:
    """Return the fields that a filter tests for existence, null or emptiness, as above."""
    return [leaf.field for leaf in _leaves_and_elements(condition) if isinstance(leaf, _TESTS)]


def area_fields_of(condition: Filter) -> list[str]:
    """Return the fields whose points a filter wants in an area."""
    return [leaf.field for leaf in _leaves(condition) if isinstance(leaf, _AREAS)]


def comparisons_of(condition: Filter) -> list[Range | AnyOf | AllOf]:
    """Return the comparisons of values, by order or for equality, also those within one element."""
    found = _leaves_and_elements(condition)
    return [leaf for leaf in found if isinstance(leaf, (Range, AnyOf, AllOf))]


def fields_of(condition: Filter) -> Iterator[str]:
    """Yield all fields that a filter names."""
    for leaf in _leaves(condition):
        match leaf:
            case Same(field, within):
                yield field
                yield from fields_of(within)
            case Ids():
                yield "id"
            case _:
                yield leaf.field


def _leaves_and_elements(condition: Filter) -> list[Leaf]:
    """Return the conditions that a filter combines, those on one element in its place."""
    leaves = _leaves(condition)
    if not any(isinstance(leaf, Same) for leaf in leaves):
        return leaves
    found: list[Leaf] = []
    for leaf in leaves:
        found += _leaves_and_elements(leaf.condition) if isinstance(leaf, Same) else (leaf,)
    return found


def _leaves(condition: Filter) -> list[Leaf]:
    """Return the conditions that a filter combines, from left to right; one element's are one.

    Every search asks for them several times: a generator for each level took twice as long.
    """
    found: list[Leaf] = []
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (And, Or)):
            waiting += node.children[::-1]
        elif isinstance(node, Not):
            waiting.append(node.child)
        else:
            found.append(node)
    return found
