"""Places and elements: the service against the naive model, on 1, 2, 3, 5 shards.

As `test_against_oracle`, for what is asked of points and of the elements of arrays of objects:
filters (as objects and as expressions), orders, distances, rings, cells, facets within elements.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.cluster.conftest import Services
from tests.cluster.test_against_oracle import TwinIndexes, Write, stable
from tests.oracle.elements import element_passes, elements_of
from tests.oracle.engine import Found
from tests.oracle.geo import distance, in_area, points_of
from tests.oracle.items import Item, exists, keys_of
from tests.oracle.nested_and_geo import NestedGeoOracle

LATS = (-90, -89.9, -45.5, 0, 0.25, 10, 48.2, 89.9, 90)
LNGS = (-180, -179.9, -90, -0.5, 0, 0.25, 16.4, 179.5, 180)
lats, lngs = st.sampled_from(LATS), st.sampled_from(LNGS)
points = st.fixed_dictionaries({"lat": lats, "lng": lngs})
odd_points = st.sampled_from(
    [{}, {"lat": 1}, {"lat": 91, "lng": 0}, {"lat": 0, "lng": 180.5}, {"lat": "1", "lng": 2},
     {"lat": [1], "lng": 2}, {"lat": [1, 2], "lng": 2}, {"lat": None, "lng": 1}, None, 5,
     {"lat": 1, "lng": 2, "name": "x"}]
)  # fmt: skip
places = points | odd_points | st.lists(points | odd_points, max_size=3)

sizes, colors = st.sampled_from(["S", "M", "L"]), st.sampled_from(["red", "blue"])
prices = st.sampled_from([1, 2, 2.5, 7, -3])
elements = st.fixed_dictionaries(
    {},
    optional={
        "size": sizes | st.lists(sizes, max_size=2),
        "color": colors | st.none(),
        "price": prices | st.lists(prices, max_size=2),
        # Doubles do not tell these apart.
        "code": st.sampled_from([2**53, 2**53 + 1, 2**63, 2**63 + 1]),
    },
)
variants = st.one_of(
    st.lists(elements, max_size=3),
    elements,
    st.lists(elements | st.sampled_from([None, 1, [], [{"size": "M", "price": 1}]]), max_size=3),
)


moments = st.sampled_from(
    ["2024-02-29", "2023-12-31T23:30:00Z", "2023-12-31T23:30:00-02:00", "2024-01-01T00:10",
     "2024-12-30", "2024-01", "2023", "2024-02-29T12:00:00.25+05:30", "x", "2021-01-03",
     "2024-01-00", "2024-01-00T10:00Z", "2024-02-30", "2024-02-30T10:00Z"]
)  # fmt: skip


costs = st.sampled_from([0, 1, 2, 2.5, 5, 7.5, -3, 2**53, 2**53 + 1])

PATHS = ("A", "A > B", "A > B > C", "A > D", "A > BB", "E > B", "E")


@st.composite
def items(draw: st.DrawFn) -> Item:
    item: Item = {"id": draw(st.integers(0, 15))}
    if draw(st.integers(0, 3)):
        item["_geo"] = draw(places)
    if draw(st.booleans()):
        item["spot"] = {"at": draw(places)}
    if draw(st.integers(0, 3)):
        item["variants"] = draw(variants)
    if draw(st.booleans()):
        item["when"] = draw(moments | st.lists(moments, max_size=2))
    if draw(st.booleans()):
        item["kind"] = draw(st.lists(st.sampled_from(PATHS), max_size=3))
    if draw(st.booleans()):
        top = draw(st.sampled_from(["A", "E"]))
        item |= {"kind0": top, "kind1": draw(st.sampled_from([f"{top} > B", f"{top} > C"]))}
    if draw(st.integers(0, 5)) == 0:  # a path of another level, and several of one item
        item |= {"kind0": ["A", "A > B"], "kind1": ["A", "E > C", "A > B > C"]}
    if draw(st.integers(0, 3)):
        item["cost"] = draw(costs)
        if draw(st.integers(0, 30)) == 0:
            item["cost"] = [item["cost"], draw(costs)]
    item["tag"] = draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=2))
    return item


configurations: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "hierarchies": st.just({"tree": {"path": "kind"}, "steps": {"levels": ["kind0", "kind1"]}}),
        "aggregations": st.fixed_dictionaries(
            {name: st.just({"size": 3}) for name in ("kind", "kind0", "kind1")},
            optional={
                name: st.fixed_dictionaries({}, optional={"conjunction": st.booleans()})
                for name in ("tag", "variants.size", "variants.color")
            },
        ),
        "geo_fields": st.just(["_geo", "spot.at"]),
        "nested": st.just(["variants"]),
    }
)

GEO_FIELDS = st.sampled_from(["_geo", "spot.at"])
metres = st.sampled_from([0, 500, 30_000, 1_200_000.5, 9_000_000, 20_015_000])
radii = st.fixed_dictionaries({"lat": lats, "lng": lngs, "metres": metres})
boxes = st.fixed_dictionaries({"top_right": points, "bottom_left": points}).filter(
    lambda box: box["top_right"]["lat"] >= box["bottom_left"]["lat"]
)
polygons = st.sampled_from(
    [
        [[10.5, -1], [10.5, 20], [-1, 20], [-1, -1]],
        [[10, 179], [10, -179], [-50, -179.5], [-50, 178]],
        [[60, 0], [70, 90], [60, 180], [60, -90]],
        [[-60, 0], [-70, -90], [-60, 180], [-60, 90]],
        [[0, 0], [20, 20], [20, 0], [0, 20]],
        [[50, -170], [50, 170], [0, 175]],
    ]
)
areas = (
    st.tuples(st.just("radius"), radii)
    | st.tuples(st.just("box"), boxes)
    | st.tuples(st.just("polygon"), polygons)
)
counts = st.integers(0, 3) | st.dictionaries(
    st.sampled_from(["gt", "gte", "lt", "lte"]), st.integers(0, 3), min_size=1, max_size=2
)


def expression_of(field: str, name: str, area: Any) -> str:
    """Write an area as a filter expression."""
    if name == "radius":
        return f"_geoRadius({field}, {area['lat']}, {area['lng']}, {area['metres']})"
    if name == "box":
        corners = [area["top_right"], area["bottom_left"]]
        written = ", ".join(f"[{one['lat']}, {one['lng']}]" for one in corners)
        return f"_geoBoundingBox({field}, {written})"
    return f"_geoPolygon({field}, {', '.join(map(str, area))})"


@st.composite
def expressions(draw: st.DrawFn, facets: list[str]) -> tuple[str, Callable[[Item], bool]]:
    """Draw a filter expression and the test that it stands for."""
    match draw(st.integers(0, 2)):
        case 0:
            field, (name, area) = draw(GEO_FIELDS), draw(areas)
            return expression_of(field, name, area), lambda item: in_area(item, field, name, area)
        case 1:
            low, negated = draw(prices), draw(st.booleans())
            names = [name.removeprefix("variants.") for name in facets if "." in name]
            wanted: dict[str, Any] = {name: ["M", "red"] for name in names}
            inner = [f"{name} IN [M, red]" for name in names]
            text = " AND ".join([f"price >= {low}", *inner])
            disjunctive = {name: {"conjunction": False} for name in names}
            wanted["price"] = {"gte": low}

            def passes_element(element: Item) -> bool:
                return element_passes(element, wanted, disjunctive) != negated

            return (
                f"variants{{{'NOT ' if negated else ''}({text})}}",
                lambda item: any(map(passes_element, elements_of(item, "variants"))),
            )
        case _:
            number = draw(st.integers(0, 3))
            return (
                f"NOT _count(variants) < {number}",
                lambda item: len(elements_of(item, "variants")) >= number,
            )


distance_boosts = st.dictionaries(
    GEO_FIELDS,
    st.fixed_dictionaries(
        {"origin": points}, optional={"weight": st.sampled_from([0.5, 3])}
    ).flatmap(
        lambda options: st.sampled_from(
            [{"decay": 1_000_000, **options}, {"reciprocal": 5_000_000, **options}]
        )
    ),
    min_size=1,
)


@st.composite
def searches(draw: st.DrawFn, facets: list[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {"query": "", "per_page": draw(st.integers(1, 20))}
    filters: dict[str, Any] = {}
    if draw(st.booleans()):
        filters[draw(GEO_FIELDS)] = dict([draw(areas)])
    same: dict[str, Any] = {}
    for name, values in (("size", sizes), ("color", colors)):
        if f"variants.{name}" in facets and draw(st.booleans()):
            chosen = draw(st.lists(values, min_size=1, max_size=2))
            same[name] = {"none": chosen} if draw(st.booleans()) else chosen
    if draw(st.booleans()):
        bound = draw(st.sampled_from(["gt", "lte"]))
        same["price"] = {bound: draw(prices)}
    variant: dict[str, Any] = {}
    if draw(st.integers(0, 3)) and same:
        variant["same"] = same
    if draw(st.integers(0, 3)) == 0:
        variant["count"] = draw(counts)
    if variant:
        filters["variants"] = variant
    if "tag" in facets and draw(st.booleans()):
        tags: list[Any] = [["a"], ["a", "b"], {"count": 1}, {"none": ["c"]}]
        filters["tag"] = draw(st.sampled_from(tags))
    if "variants.size" in facets and draw(st.integers(0, 3)) == 0:
        filters["variants.size"] = ["M"]
    for name in ("tree", "steps"):
        if draw(st.integers(0, 3)) == 0:
            steps = ("A", "A > B", "E > C", "A > B > C")
            nodes = st.sampled_from(PATHS if name == "tree" else steps)
            filters[name] = draw(st.lists(nodes, min_size=1, max_size=2))
            if draw(st.booleans()):
                parameters["not_filters"] = {name: draw(st.lists(nodes, max_size=2))}
    if draw(st.integers(0, 4)) == 0:
        filters["cost"] = {"lt": draw(costs)}
    if filters:
        parameters["filters"] = filters
    parameters["cube"] = draw(
        st.none()
        | st.sampled_from([2, 2.5, 2e15])
        | st.lists(costs, min_size=2, max_size=5, unique=True).map(sorted)
    )
    if draw(st.integers(0, 2)) == 0:
        parameters["filter"], parameters["filter_test"] = draw(expressions(facets))
    match draw(st.integers(0, 3)):
        case 0:
            field, point, order = draw(GEO_FIELDS), (draw(lats), draw(lngs)), draw(st.booleans())
            parameters["order_by"] = [(field, point, order)]
        case 1:
            parameters["order_by"] = [
                (
                    draw(st.sampled_from(["variants.price", "variants.code"])),
                    None,
                    draw(st.booleans()),
                )
            ]
        case 2:
            parameters["boost"] = draw(distance_boosts)
    parameters["ranges"] = draw(
        st.sampled_from(
            [
                None,
                ("rings", [0, 500, 2e6]),
                ("rings", [1e6]),
                ("grid", 0),
                ("grid", 3),
                ("price", {"ranges": [{"to": 4}, {"from": 2, "to": 9}], "missing": True}),
                ("price", {"interval": 2.5, "missing": True}),
            ]
        )
    )
    if draw(st.booleans()):
        calendars = ["year", "quarter", "month", "week", "day", "hour", "6h", "45m", "7d"]
        zones = [None, "UTC", "Pacific/Auckland", "America/New_York"]
        calendar, zone = draw(st.sampled_from(calendars)), draw(st.sampled_from(zones))
        parameters["ranges"] = ("calendar", (calendar, zone))
    return parameters


def as_request(parameters: dict[str, Any], facets: Iterable[str]) -> dict[str, Any]:
    """Return what is sent for what the model is asked."""
    request = {
        name: value
        for name, value in parameters.items()
        if name not in ("filter_test", "order_by", "ranges", "cube")
    }
    match parameters["cube"]:
        case list(edges):
            request["facet_cube"] = {"field": "cost", "edges": edges}
        case int() | float() as interval:
            request["facet_cube"] = {"field": "cost", "interval": interval}
    request["show"] = ["elements"]
    request["trees"] = {"tree": {"open": ["A"]}, "steps": None}
    request["sort"] = [
        f"{field}{f'({point[0]},{point[1]})' if point else ''}:{'desc' if is_desc else 'asc'}"
        for field, point, is_desc in parameters.get("order_by", ())
    ]
    request["facets"] = {
        name: {"missing": True, "cardinality": True, "percentiles": [0, 50, 99.5]}
        for name in facets
    }
    match parameters["ranges"]:
        case ("calendar", (calendar, zone)):
            request["facet_ranges"] = {
                "when": {"calendar": calendar, "time_zone": zone, "missing": True}
            }
        case ("rings", rings):
            request["facet_ranges"] = {"_geo": {"origin": [10, 0.25], "rings": rings}}
        case ("price", options):
            request["facet_ranges"] = {"variants.price": options}
        case ("grid", zoom):
            request["facet_ranges"] = {"_geo": {"grid": zoom}}
    return request


class ShapeTwins(TwinIndexes[NestedGeoOracle]):
    """With searches of points, elements, trees and calendars."""

    def __init__(self, services: Services, configuration: dict[str, Any]) -> None:
        super().__init__(services, NestedGeoOracle(configuration), configuration)

    def search(self, parameters: dict[str, Any]) -> None:
        request = as_request(parameters, self.oracle.facet_settings)
        replies = [index.post("search", request) for index in self.indexes]
        assert len({stable(reply.body) for reply in replies}) == 1, [r.body for r in replies]
        answer = replies[0].json
        if replies[0].status == 400:
            # A field that no item has a value in cannot be filtered, sorted or counted by.
            code = answer["error"]["code"]
            needs_values = (parameters["ranges"] or ("", None))[0] in ("calendar", "price")
            known = {"unknown_facet", "unknown_sort_field"}
            known |= {"invalid_facet_ranges"} if needs_values else set()
            if parameters["cube"] is not None:
                # No item has a cost, one has several, or they are too far apart.
                known.add("invalid_facet_cube")
            assert code in known, replies[0].body
            return
        assert replies[0].status == 200, replies[0].body
        self.check(answer, self.oracle.search(**parameters), parameters)

    def check(self, answer: Any, found: Found, parameters: dict[str, Any]) -> None:
        assert answer["pagination"]["total"] == found.total
        page = answer["data"]["items"]
        additions = [
            {name: item.pop(name, None) for name in ("_elements", "_geoDistance")} for item in page
        ]
        assert page == found.items
        shown = {
            name: [(one["key"], one["doc_count"], one["selected"]) for one in facet["buckets"]]
            for name, facet in answer["data"]["aggregations"].items()
        }
        assert shown == found.facets
        for name, facet in answer["data"]["aggregations"].items():
            assert facet["missing"] == self.oracle.missing(name, parameters)
            keys = {key for item in found.matching for key in keys_of(item, name)}
            assert facet["cardinality"] == len(keys)
            assert set(facet["percentiles"]) == {"0", "50", "99.5"}
        same = ((parameters.get("filters") or {}).get("variants") or {}).get("same")
        if same:
            for item, added in zip(page, additions, strict=True):
                expected = self.oracle.matching(item, "variants", same)
                assert set(added["_elements"]["variants"]) >= set(expected)
        for field, point, _ in parameters.get("order_by", ()):
            if point is not None:
                for item, added in zip(page, additions, strict=True):
                    nearest = [distance(one, point) for one in points_of(item, field)]
                    assert added["_geoDistance"] == (round(min(nearest)) if nearest else None)
        self.check_ranges(answer, parameters)
        if parameters["cube"] is not None:
            self.check_cube(answer, parameters)
        for name, nodes in answer["data"]["trees"].items():
            self.check_tree(name, nodes, parameters)

    def check_tree(self, name: str, nodes: list[Any], parameters: dict[str, Any]) -> None:
        """Compare what is shown of a tree: its top, and all below chosen and opened nodes."""
        chosen = set((parameters.get("filters") or {}).get(name, ()))
        counts = self.oracle.tree(name, parameters)
        ways = {
            " > ".join(one.split(" > ")[:depth])
            for one in chosen | ({"A"} if name == "tree" else set())
            for depth in range(1, len(one.split(" > ")) + 1)
        }
        known = set(counts) | {
            " > ".join(one.split(" > ")[:depth])
            for one in chosen
            for depth in range(1, len(one.split(" > ")) + 1)
        }

        def check_level(parent: str, level: list[Any]) -> None:
            expected = [node for node in known if node.rpartition(" > ")[0] == parent]
            expected.sort(key=lambda node: (-counts[node], node))
            assert [
                (node["path"], node["key"], node["doc_count"], node["selected"]) for node in level
            ] == [(one, one.split(" > ")[-1], counts[one], one in chosen) for one in expected]
            for node in level:
                assert ("children" in node) == (node["path"] in ways)
                check_level(node["path"], node["children"]) if "children" in node else None

        check_level("", nodes)

    def check_cube(self, answer: Any, parameters: dict[str, Any]) -> None:
        """Compare each range from edge to edge with a search that has it as a filter."""
        cube = answer["data"]["facet_cube"]
        edges = cube["edges"]
        kind = (parameters["ranges"] or ("",))[0]
        if isinstance(parameters["cube"], list):
            assert edges == parameters["cube"]
        for (i, low), (j, high) in itertools.combinations(enumerate(edges), 2):
            filters = {**(parameters.get("filters") or {}), "cost": {"gte": low, "lt": high}}
            narrow = {**parameters, "filters": filters}
            matching = self.oracle.matches(narrow)
            hits = self.oracle.narrowed(matching, narrow)
            assert cube["total"][j] - cube["total"][i] == len(hits)

            def within(rows: list[Any], name: str = "key", i: int = i, j: int = j) -> Any:
                return {one[name]: one["counts"][j] - one["counts"][i] for one in rows}

            for name, facet in answer["data"]["aggregations"].items():
                counted = self.oracle.counted_for(name, matching, narrow)
                expected = {
                    key: count for key, count, _ in self.oracle.buckets(name, counted, narrow)
                }
                assert within(cube["facets"][name]) == {
                    one["key"]: expected.get(one["key"], 0) for one in facet["buckets"]
                }
            for name, rows in cube["trees"].items():
                shown = Counter(within(rows, "path"))
                assert +shown == +self.oracle.tree(name, narrow)
            ranges = {}
            for name, rows in cube["ranges"].items():
                counts = within(rows)
                ranges[name] = [
                    {key: one for key, one in row.items() if key != "counts"}
                    | {"doc_count": counts[row["key"]]}
                    for row in rows
                    if counts[row["key"]] or kind == "rings" or row["key"] == "missing"
                ]
            self.check_ranges({"data": {"ranges": ranges}}, narrow)

    def check_ranges(self, answer: Any, parameters: dict[str, Any]) -> None:
        """Compare the counts of `facet_ranges`, which leave out the field's own filter."""
        if parameters["ranges"] is None:
            return
        kind, what = parameters["ranges"]
        if kind == "calendar":
            hits = self.oracle.narrowed(self.oracle.matches(parameters), parameters)
            *moments, missing = answer["data"]["ranges"]["when"]
            assert {one["key"]: one["doc_count"] for one in moments} == self.oracle.calendar(
                hits, "when", *what
            )
            assert missing == {
                "key": "missing",
                "missing": True,
                "doc_count": sum(not exists(item, "when") for item in hits),
            }
            return
        if kind == "price":
            shown = [one["doc_count"] for one in answer["data"]["ranges"]["variants.price"]]
            expected = self.oracle.prices(parameters, what.get("interval"))
            assert [one for one in shown if one] == [one for one in expected if one]
            return
        counted = self.oracle.narrowed(self.oracle.matches(parameters), parameters, "_geo")
        buckets = answer["data"]["ranges"]["_geo"]
        if kind == "rings":
            expected = self.oracle.rings(counted, "_geo", (10, 0.25), what)
            assert [one["doc_count"] for one in buckets] == expected
        else:
            cells = {one["key"]: one["doc_count"] for one in buckets}
            assert cells == self.oracle.cells(counted, "_geo", what)


batches = st.lists(items(), min_size=1, max_size=8)
writes = st.one_of(
    batches.map(lambda batch: Write("put", tuple(batch))),
    batches.map(lambda batch: Write("load", tuple(batch))),
    st.builds(lambda key: Write("delete", (), key), st.integers(0, 15)),
)


@pytest.mark.timeout(3_600)
@settings(
    max_examples=settings().max_examples // 4,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(st.data())
def test_service_says_what_the_oracle_says_of_places_and_elements(
    services: Services, data: st.DataObject
) -> None:
    configuration = data.draw(configurations)
    twins = ShapeTwins(services, configuration)
    try:
        for _ in range(data.draw(st.integers(1, 3), "rounds")):
            for write in data.draw(st.lists(writes, min_size=1, max_size=4), "writes"):
                twins.write(write)
            facets = list(configuration["aggregations"])
            for parameters in data.draw(st.lists(searches(facets), min_size=1, max_size=6)):
                note(json.dumps(as_request(parameters, facets)))
                twins.search(parameters)
    finally:
        twins.close()
