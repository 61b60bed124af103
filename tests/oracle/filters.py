"""Filters: which items pass."""

from __future__ import annotations

from typing import Any

from common.value_kinds_and_facet_keys import facet_key
from tests.oracle.items import Item, Json, exists, is_number, keys_of, values_of


def as_list(wanted: Any) -> list[Any]:
    return wanted if isinstance(wanted, list) else [wanted]


def passes(item: Item, name: str, wanted: Any, *, any_will_do: bool) -> bool:
    """Return whether an item passes one field of `filters`."""
    if not isinstance(wanted, dict):
        wanted = {"any" if any_will_do else "all": as_list(wanted)}
    keys = keys_of(item, name)
    chosen = {how: {facet_key(one) or "" for one in as_list(wanted.get(how) or [])} for how in
              ("any", "all", "none")}  # fmt: skip
    bounds = {name: bound for name, bound in wanted.items() if name in ("gt", "gte", "lt", "lte")}
    return (
        (not chosen["any"] or bool(chosen["any"] & keys))
        and chosen["all"] <= keys
        and not chosen["none"] & keys
        and (not bounds or any(in_range(value, bounds) for value in values_of(item, name)))
        and wanted.get("exists", exists(item, name)) == exists(item, name)
    )


def in_range(value: Any, bounds: Json) -> bool:
    """Return whether a value lies within bounds of its own type; an empty text lies in none."""
    like = next(iter(bounds.values()))
    if not (is_number(value) if is_number(like) else isinstance(value, str) and value):
        return False
    tests = {
        "gt": lambda bound: value > bound,
        "gte": lambda bound: value >= bound,
        "lt": lambda bound: value < bound,
        "lte": lambda bound: value <= bound,
    }
    return all(tests[name](bound) for name, bound in bounds.items())


def selected_keys(wanted: Any) -> set[str]:
    """Return the keys that a filter asks for."""
    if isinstance(wanted, dict):
        wanted = as_list(wanted.get("any") or []) + as_list(wanted.get("all") or [])
    return {facet_key(one) or "" for one in as_list(wanted) if one is not None}


def is_conjunctive(settings: Json | None) -> bool:
    """Return whether hits must have every selected value; fields that are not facets: any."""
    return settings is not None and settings.get("conjunction", True)
