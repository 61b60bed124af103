"""Filters as objects: `{"tags": ["a"], "price": {"gte": 10}}` → filter nodes (pure).

"a" | ["a", "b"]                         values: all of them, or any where the caller says so
{"gte": 10, "lt": 50}                    a range; gt, gte, lt, lte; numbers or texts
{"any": […], "all": […], "none": […]}    values, whatever the facet's conjunction
{"exists": true}                         the field is there; all members of one object are ANDed
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from common.limits import Limits
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
from coordinator.parameters.kinds import Mistake, check_bounds, check_value_size, object_of

_RANGE_KEYS: Final = frozenset(("gt", "gte", "lt", "lte"))
_CHOICE_KEYS: Final = frozenset(("any", "all", "none", "exists"))


class FilterObjects:
    """Reads the filter objects of one request, which share one bound on values."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.num_values = 0

    def fields(self, value: Any) -> dict[str, Any]:
        """Read the object of filters: what each field must have."""
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
        """Read what one field must have; `keys` takes the values that are asked for.

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
            if name not in _RANGE_KEYS and name not in _CHOICE_KEYS:
                raise Mistake(
                    "is unknown; known are gt, gte, lt, lte, any, all, none, exists",
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
        if not children:
            return None
        return children[0] if len(children) == 1 else And(tuple(children))

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
        """Read one value or a list of values as facet keys, each once."""
        values = wanted if isinstance(wanted, list) else [wanted]
        self.num_values += len(values)
        if self.num_values > self.limits.filter_values_max:
            raise Mistake(
                f"and the others have more than {self.limits.shown('filter_values_max')} values",
                code="too_many_filter_values",
                path=path,
            )
        keys: dict[str, None] = {}
        for value in values:
            # The empty text is no facet value, but a right question: no item has it.
            key = value if value == "" else facet_key(value)
            if key is None:
                raise Mistake("must be texts, numbers or booleans", path=path)
            check_value_size(key, path, self.limits)
            keys[key] = None
        return tuple(keys)


def scalar_fields_of(condition: Filter) -> Iterator[str]:
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
