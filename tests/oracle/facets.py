"""Facets: what they count, in which order their buckets are, statistics."""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from math import ceil, fsum
from typing import Any

from tests.oracle.distinct import distinct_value
from tests.oracle.filters import as_list
from tests.oracle.items import Item, Json, is_number, keys_of, values_of

FIELD_SETTINGS: Json = {"conjunction": False, "hide_zero_doc_count": True}
"""Of a field that is counted without being a facet."""


def groups_of(items: list[Item], parameters: Json) -> list[Any]:
    """Return what facets count each item as: itself, or its group where they count groups."""
    distinct = parameters.get("distinct") or {}
    if distinct.get("facets_by") != "groups":
        return list(range(len(items)))
    return [distinct_value(item, distinct["field"]) or at for at, item in enumerate(items)]


def keyed_groups(items: list[Item], name: str, parameters: Json) -> set[tuple[str, Any]]:
    """Return what a facet counts: each value with each item, or group of items, that has it."""
    return {
        (key, group)
        for group, item in zip(groups_of(items, parameters), items, strict=True)
        for key in keys_of(item, name)
    }


def bucket_order(settings: Json) -> list[tuple[str, bool]]:
    """Return (selected | count | key, is_descending), most significant first."""
    sort, order = settings.get("sort", "count"), settings.get("order")
    keys = []
    for i, name in enumerate(as_list(sort)):
        base, _, direction = name.partition(":")
        base = "key" if base == "term" else base
        orders = as_list(order) if order else []
        direction = direction or (orders[i] if i < len(orders) else "")
        keys.append((base, direction == "desc" if direction else base != "key"))
    if not isinstance(sort, list) and settings.get("chosen_filters_on_top", True):
        keys.insert(0, ("selected", True))
    return keys


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


def stats_of(keys: list[str]) -> Json | None:
    """Return the statistics of the numeric values within the hits."""
    numbers = [float(key) for key in keys if _NUMBER.fullmatch(key)]
    if not numbers:
        return None
    total = fsum(numbers)
    return {
        "min": min(numbers),
        "max": max(numbers),
        "avg": total / len(numbers),
        "sum": total,
        "count": len(numbers),
    }


def percentiles_of(keys: list[str], wanted: list[float]) -> Json:
    """Return percentiles of the numeric values within the hits, each the nearest rank."""
    numbers = sorted(
        int(key) if key.lstrip("-").isdigit() else float(key)
        for key in keys
        if _NUMBER.fullmatch(key)
    )
    return {
        str(one): numbers[max(1, ceil(one * len(numbers) / 100)) - 1] if numbers else None
        for one in wanted
    }


def numbers_of(items: list[Item], name: str) -> Json | None:
    """Return the statistics of the numbers of some items, each number of an item once."""
    numbers = [one for item in items for one in {*filter(is_number, values_of(item, name))}]
    if not numbers:
        return None
    total = sum(map(Fraction, numbers), Fraction())
    return {
        "min": min(numbers),
        "max": max(numbers),
        "avg": as_double(total / len(numbers)),
        "sum": as_double(total),
        "count": len(numbers),
    }


def as_double(number: Fraction) -> float:
    """Return the nearest double that JSON can hold."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max
