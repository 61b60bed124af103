"""The engine with places and elements: what `same`, `count`, areas, rings and cells answer."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracle.elements import element_passes, elements_of
from tests.oracle.engine import Found, Oracle
from tests.oracle.filters import as_list, in_range, is_conjunctive, passes, selected_keys
from tests.oracle.geo import AREAS, as_point, cell_of, distance, in_area, points_of
from tests.oracle.items import Item, Json, exists, is_number, keys_of, values_of

_VALUES = ("gt", "gte", "lt", "lte", "any", "all", "none", "exists")


class NestedGeoOracle(Oracle):
    """One index whose items have points and elements."""

    @property
    def nested(self) -> list[str]:
        return list(self.configuration.get("nested", ()))

    @property
    def trees(self) -> Json:
        return dict(self.configuration.get("hierarchies", {}))

    def nodes_of(self, item: Item, name: str) -> set[str]:
        """Return the nodes of a tree that an item is at, or under."""
        tree = self.trees[name]
        if "levels" in tree:
            last = len(tree["levels"]) - 1
            return {
                key
                for depth, level in enumerate(tree["levels"])
                for key in keys_of(item, level)
                if min(key.count(" > "), last) == depth
            }
        paths = [key.split(" > ") for key in keys_of(item, tree["path"])]
        return {" > ".join(path[:depth]) for path in paths for depth in range(1, len(path) + 1)}

    def tree(self, name: str, parameters: Json) -> Counter[str]:
        """Return how many items are at, or under, each node; the tree's own choice is left out."""
        counted = self.narrowed(self.matches(parameters), parameters, name)
        return Counter(node for item in counted for node in self.nodes_of(item, name))

    def inner_facets(self, nested: str) -> Json:
        """Return the settings of the facets inside a nested field, by name there."""
        prefix = f"{nested}."
        return {
            name.removeprefix(prefix): settings
            for name, settings in self.facet_settings.items()
            if name.startswith(prefix)
        }

    def item_passes(self, item: Item, name: str, wanted: Any) -> bool:
        """Return whether an item passes one field of `filters`, its points and elements too."""
        if name in self.trees:
            nodes = self.nodes_of(item, name)
            return not as_list(wanted) or any(one in nodes for one in as_list(wanted))
        is_any = not is_conjunctive(self.facet_settings.get(name))
        if not isinstance(wanted, dict):
            return passes(item, name, wanted, any_will_do=is_any)
        plain = {key: one for key, one in wanted.items() if key in _VALUES}
        if plain and not passes(item, name, plain, any_will_do=is_any):
            return False
        if "count" in wanted:
            bounds = wanted["count"]
            bounds = bounds if isinstance(bounds, dict) else {"gte": bounds, "lte": bounds}
            if not in_range(self.count(item, name), bounds):
                return False
        if wanted.get("same") and not self.matching(item, name, wanted["same"]):
            return False
        return all(in_area(item, name, area, wanted[area]) for area in AREAS if area in wanted)

    def count(self, item: Item, name: str) -> int:
        if name in self.facet_settings:
            return len(keys_of(item, name))
        return len(elements_of(item, name))

    def matching(self, item: Item, nested: str, same: Json) -> list[int]:
        """Return the positions of the elements that have what `same` asks for."""
        facets = self.inner_facets(nested)
        return [
            position
            for position, element in enumerate(elements_of(item, nested))
            if element_passes(element, same, facets)
        ]

    def narrowed(
        self, items: list[Item], parameters: Json, without: str | None = None
    ) -> list[Item]:
        filters = parameters.get("filters") or {}
        test = parameters.get("filter_test", lambda _: True)
        return [
            item
            for item in items
            if test(item)
            and all(
                self.item_passes(item, name, wanted)
                for name, wanted in filters.items()
                if name != without
            )
            and not any(
                as_list(unwanted) and self.item_passes(item, name, unwanted)
                for name, unwanted in (parameters.get("not_filters") or {}).items()
            )
        ]

    def same_of(self, name: str, parameters: Json) -> tuple[str, Json] | None:
        """Return the nested field around a facet, and what `same` asks of it, if anything."""
        for nested in self.nested:
            wanted = (parameters.get("filters") or {}).get(nested)
            if name.startswith(f"{nested}.") and isinstance(wanted, dict) and wanted.get("same"):
                return nested, wanted["same"]
        return None

    def buckets(
        self, name: str, counted: list[Item], parameters: Json, hides_zero: bool | None = None
    ) -> list[tuple[str, int, bool]]:
        """Return all buckets of a facet; inside a nested field, of the elements that pass."""
        within = self.same_of(name, parameters)
        if within is None:
            return super().buckets(name, counted, parameters, hides_zero)
        nested, same = within
        inner = name.removeprefix(f"{nested}.")
        chosen = selected_keys(same.get(inner)) | selected_keys(
            (parameters.get("filters") or {}).get(name)
        )
        left = same
        if not is_conjunctive(self.facet_settings[name]):
            left = {key: one for key, one in same.items() if key != inner}
        facets = self.inner_facets(nested)
        rest = parameters["filters"] | {
            nested: {
                key: one for key, one in parameters["filters"][nested].items() if key != "same"
            }
        }
        counts: Counter[str] = Counter()
        for item in self.narrowed(self.matches(parameters), parameters | {"filters": rest}):
            counts.update(
                {
                    key
                    for element in elements_of(item, nested)
                    if element_passes(element, left, facets)
                    for key in keys_of(element, inner)
                }
            )
        every = {key for item in self.items.values() for key in keys_of(item, name)}
        buckets = [(key, counts[key], key in chosen) for key in every]
        return sorted(buckets, key=lambda one: (-one[2], -one[1], one[0]))

    def search(self, **parameters: Any) -> Found:
        found = super().search(
            **{key: one for key, one in parameters.items() if key not in ("sort", "boost")}
        )
        hits = found.matching
        if parameters.get("boost") and not parameters.get("order_by"):
            hits = sorted(hits, key=lambda item: -self.factor(item, parameters["boost"]))
        for field, point, is_descending in reversed(parameters.get("order_by", ())):
            hits = self.ordered(hits, field, point, is_descending, parameters)
        start = (parameters.get("page", 1) - 1) * parameters.get("per_page", 10)
        found.matching = hits
        found.items = hits[start : start + parameters.get("per_page", 10)]
        return found

    def factor(self, item: Item, boosts: Json) -> float:
        """Return what boosts by distance multiply the score of an item by."""
        product = 1.0
        for field, options in boosts.items():
            point = as_point(options["origin"])
            metres = min([distance(one, point) for one in points_of(item, field)], default=None)
            if metres is None:
                continue
            if "decay" in options:
                gain = 0.5 ** min(metres / options["decay"], 64)
            else:
                gain = 1 / (1 + metres / options["reciprocal"])
            by = round((1 + options.get("weight", 1) * gain) * 2**20) / 2**20
            product = round(product * 2**32 * by) / 2**32
        return product

    def ordered(
        self,
        items: list[Item],
        field: str,
        point: tuple[float, float] | None,
        is_descending: bool,
        parameters: Json,
    ) -> list[Item]:
        """Order by the nearest point, or by the numbers of the elements that pass."""

        def value(item: Item) -> int | float | None:
            if point is not None:
                return min([distance(one, point) for one in points_of(item, field)], default=None)
            nested, _, inner = field.rpartition(".")
            same = ((parameters.get("filters") or {}).get(nested) or {}).get("same") or {}
            facets = self.inner_facets(nested)
            numbers = [
                number
                for element in elements_of(item, nested)
                if element_passes(element, same, facets)
                for number in values_of(element, inner)
                if is_number(number)
            ]
            return (max if is_descending else min)(numbers, default=None)

        keyed = [(value(item), item) for item in items]
        known = [(one, item) for one, item in keyed if one is not None]
        known.sort(key=lambda pair: pair[0], reverse=is_descending)
        return [item for _, item in known] + [item for one, item in keyed if one is None]

    def missing(self, name: str, parameters: Json) -> int:
        """Return how many of the items that a facet counts have no value there."""
        within = self.same_of(name, parameters)
        matching = self.matches(parameters)
        if within is None:
            counted = self.counted_for(name, matching, parameters)
            return sum(not keys_of(item, name) for item in counted)
        nested, same = within
        inner = name.removeprefix(f"{nested}.")
        if not is_conjunctive(self.facet_settings[name]):
            same = {key: one for key, one in same.items() if key != inner}
        facets = self.inner_facets(nested)
        asked = parameters["filters"][nested]
        rest = parameters["filters"] | {
            nested: {key: one for key, one in asked.items() if key != "same"}
        }
        passing = [
            [one for one in elements_of(item, nested) if element_passes(one, same, facets)]
            for item in self.narrowed(matching, parameters | {"filters": rest})
        ]
        return sum(bool(ones) and not any(keys_of(one, inner) for one in ones) for ones in passing)

    def prices(self, parameters: Json, interval: float | None) -> list[int]:
        """Return the counts of ranges of prices, and how many items have none.

        With `same` only prices of elements count that have what else it asks for.
        """
        filters = parameters.get("filters") or {}
        asked = filters.get("variants") or {}
        same = {name: one for name, one in asked.get("same", {}).items() if name != "price"}
        rest = {name: one for name, one in asked.items() if name != "same"}
        narrowed = parameters | {"filters": filters | {"variants": rest}}
        counts: Counter[float] = Counter()
        missing = 0
        for item in self.narrowed(self.matches(parameters), narrowed):
            if asked.get("same"):
                facets = self.inner_facets("variants")
                elements = [
                    (one, "price")
                    for one in elements_of(item, "variants")
                    if element_passes(one, same, facets)
                ]
            else:
                elements = [(item, "variants.price")]
            numbers = {
                one
                for holder, path in elements
                for one in values_of(holder, path)
                if is_number(one)
            }
            if interval is None:
                counts.update({0} if any(one < 4 for one in numbers) else set())
                counts.update({1} if any(2 <= one < 9 for one in numbers) else set())
            else:
                counts.update({math.floor(one / interval) for one in numbers})
            missing += bool(elements) and not any(exists(*one) for one in elements)
        return [*[counts[key] for key in sorted(counts)], missing]

    def calendar(
        self, items: list[Item], field: str, calendar: str, zone: str | None
    ) -> dict[str, int]:
        """Return how many items have a moment in each bucket of a calendar."""
        counts: Counter[str] = Counter()
        for item in items:
            texts = [one for one in values_of(item, field) if isinstance(one, str)]
            counts.update({key for one in texts if (key := period_of(one, calendar, zone))})
        return dict(counts)

    def rings(
        self, items: list[Item], field: str, origin: tuple[float, float], rings: list[float]
    ) -> list[int]:
        """Return how many items have a point in each ring."""
        ends = [*rings[1:], math.inf]
        return [
            sum(
                any(low <= distance(one, origin) < high for one in points_of(item, field))
                for item in items
            )
            for low, high in zip(rings, ends, strict=True)
        ]

    def cells(self, items: list[Item], field: str, zoom: int) -> dict[str, int]:
        """Return how many items have a point in each cell of a grid."""
        counts: Counter[str] = Counter()
        for item in items:
            counts.update({cell_of(one, zoom) for one in points_of(item, field)})
        return dict(counts)


def period_of(text: str, calendar: str, zone: str | None) -> str | None:
    """Return the bucket of a moment written as year, month, day, or day and time."""
    length = len(text.split("T")[0])
    has_time = "T" in text
    needed = {"year": 4, "quarter": 7, "month": 7}.get(calendar, 10)
    if needed < 10 and (zone is None or not has_time):
        text, length = text[:needed], min(length, needed)  # as written: the day need not exist
    try:
        moment = datetime.fromisoformat(text + "-01" * ((10 - length) // 3))
    except ValueError:
        return None
    if zone is not None and has_time:
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        moment = moment.astimezone(ZoneInfo(zone))
    moment = moment.replace(tzinfo=None)
    if length < needed or (calendar == "hour" and not has_time):
        return None
    forms = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H",
             "week": "%G-W%V"}  # fmt: skip
    if calendar == "quarter":
        return f"{moment.year}-Q{math.ceil(moment.month / 3)}"
    if calendar in forms:
        return moment.strftime(forms[calendar])
    seconds = int(calendar[:-1]) * {"m": 60, "h": 3600, "d": 86400}[calendar[-1]]
    if seconds % 86400 and not has_time:
        return None
    since = int(moment.replace(tzinfo=UTC).timestamp())
    start = datetime.fromtimestamp(since - since % seconds, UTC)
    return start.strftime("%Y-%m-%dT%H:%M:%S")
