"""Rules of reading that hold across shards: cursors, ranges, typos, distinct."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from tests.cluster.conftest import Index, error_of


def pages(index: Index, **parameters: Any) -> list[Any]:
    """Return the ids of all pages of a search with a cursor."""
    found: list[Any] = []
    cursor: str | None = "*"
    while cursor is not None:
        answer = index.search(cursor=cursor, **parameters)
        found += [item["id"] for item in answer["data"]["items"]]
        cursor = answer["pagination"].get("cursor")
        assert cursor is None or len(cursor) <= 1_024
    return found


class TestCursors:
    @pytest.fixture(autouse=True)
    def films(self, index: Index) -> None:
        index.configure({"aggregations": {"tags": {}}})
        index.put(
            [
                {
                    "id": i,
                    "year": 1990 + i % 7,
                    "title": f"the {'harry' if i % 2 else 'sea'} {i}",
                    "tags": ["a", "b"][: i % 3],
                    "long": "é" * 4_500 + str(i % 5),
                }
                for i in range(20)
            ]
        )

    def test_of_another_search_is_refused(self, index: Index) -> None:
        first: dict[str, Any] = {"query": "the", "sort": "year:desc", "per_page": 3}
        cursor = index.search(**first, cursor="*")["pagination"]["cursor"]

        for changed in (
            {"query": "harry"},
            {"sort": "title:asc"},
            {"sort": "year:asc"},
            {"sort": ["year:desc", "title"]},
            {"filters": {"tags": ["a"]}},
            {"filter": "year > 1992"},
            {"match": "any"},
            {"search_fields": ["title"]},
            {"distinct": "year"},
        ):
            error = error_of(index.post("search", {**first, "cursor": cursor, **changed}))
            assert (error["status"], error["code"]) == (400, "invalid_cursor"), changed
            assert "another search" in error["message"]
        unchanged: list[dict[str, Any]] = [
            {},
            {"per_page": 5},
            {"fields": ["id"]},
            {"facet_fields": []},
        ]
        for same in unchanged:
            assert index.post("search", {**first, "cursor": cursor, **same}).status == 200

    def test_of_another_index_is_refused(self, index: Index) -> None:
        cursor = index.search(per_page=3, cursor="*")["pagination"]["cursor"]
        other = Index(index.client, f"{index.name}-other")
        other.configure({})
        other.put([{"id": 1}])

        error = error_of(other.post("search", {"per_page": 3, "cursor": cursor}))

        assert error["code"] == "invalid_cursor"

    @pytest.mark.parametrize(
        "sort", ["rare", "rare:desc", "rare:missing=first", ["rare:desc:missing=first", "year"],
                 ["year", "rare"], "_place(48,16):asc"]
    )  # fmt: skip
    def test_goes_on_with_items_of_shards_that_do_not_know_the_field(
        self, index: Index, sort: Any
    ) -> None:
        index.configure({"geo_fields": ["_place"]})
        rare = {"id": 20, "rare": 5, "year": 1992, "_place": {"lat": 1, "lng": 1}}
        assert index.put([rare]).status == 200
        whole = index.ids(sort=sort, per_page=100)

        assert len(whole) == 21
        for per_page in (1, 2):
            assert pages(index, sort=sort, per_page=per_page) == whole

    @pytest.mark.parametrize("query", ["", "the"])
    @pytest.mark.parametrize("sort", ["long", "long:desc", ["long", "year:desc"], ["year", "long"]])
    def test_is_short_however_long_the_values_are(
        self, index: Index, query: str, sort: str | list[str]
    ) -> None:
        whole = index.ids(query=query, sort=sort, per_page=100)

        assert len(whole) == 20
        assert pages(index, query=query, sort=sort, per_page=3) == whole


class TestRanges:
    @pytest.fixture(autouse=True)
    def films(self, index: Index) -> None:
        settings = {"conjunction": False, "show_facet_stats": True}
        index.configure({"aggregations": {"any": settings, "all": {"show_facet_stats": True}}})
        index.put([{"id": i, "any": i, "all": i, "plain": i, "text": f"t{i}"} for i in range(10)])

    @pytest.mark.parametrize(("field", "counted"), [("any", 10), ("plain", 10), ("all", 4)])
    def test_leave_out_the_filter_on_their_own_field(
        self, index: Index, field: str, counted: int
    ) -> None:
        answer = index.search(
            filters={field: {"gte": 6}}, facet_ranges={field: [{"to": 5}, {"from": 5}]}
        )["data"]

        counts = [bucket["doc_count"] for bucket in answer["ranges"][field]]
        assert (len(answer["items"]), sum(counts)) == (4, counted)
        if field != "plain":
            facet = answer["aggregations"][field]
            assert sum(bucket["doc_count"] for bucket in facet["buckets"]) == counted
            assert facet["facet_stats"]["min"] == 6

    @pytest.mark.parametrize(
        ("field", "ranges"),
        [
            ("text", {"interval": 2}),
            ("text", [{"from": 1}]),
            ("any", {"calendar": "year"}),
            ("any", [{"to": "b"}]),
            ("nope", {"interval": 2}),
            ("any", [{"from": 3, "to": 2}]),
        ],
    )
    def test_of_no_such_values_are_refused(self, index: Index, field: str, ranges: Any) -> None:
        error = error_of(index.post("search", {"facet_ranges": {field: ranges}}))

        assert (error["status"], error["code"]) == (400, "invalid_facet_ranges")
        assert error["param"].startswith(f"facet_ranges.{field}")

    def test_of_an_empty_index_are_empty(self, client: Any, index: Index) -> None:
        empty = Index(client, f"{index.name}-empty")
        empty.configure({})

        assert empty.search(facet_ranges={"nope": {"interval": 2}})["data"]["ranges"] == {
            "nope": []
        }


class TestTypos:
    def test_never_fall_on_digits(self, index: Index) -> None:
        index.configure({})
        names = ["iphone8 case", "iphone case", "mode2 case", "mode case"]
        index.put([{"id": i, "t": name} for i, name in enumerate(names)])

        assert sorted(index.ids(query="iphones", prefix="none")) == [1]
        assert sorted(index.ids(query="model", prefix="none")) == [3]
        assert sorted(index.ids(query="iphnoe")) == [0, 1]  # a typo, then what is not typed yet
        assert index.ids(query="iphone9", typo=2) == []


class TestDistinct:
    def test_unknown_field_is_refused(self, index: Index) -> None:
        index.configure({})
        index.put([{"id": 1, "brand": "a"}])

        error = error_of(index.post("search", {"distinct": "brandd"}))

        assert (error["status"], error["code"]) == (400, "invalid_distinct")
        assert "brand" in error["message"]

    def test_total_pages_and_cursors_are_those_of_the_hits_that_are_left(
        self, index: Index
    ) -> None:
        brands = ["a", "b", 1, "1", True, None]
        items = [{"id": i, "brand": brands[i * i % 7 % 6], "t": "word"} for i in range(120)]
        index.configure({"aggregations": {"brand": {}}})
        index.put(items)
        for limit in (1, 3):
            seen: Counter[tuple[type, object]] = Counter()
            left = []
            for item in items:
                key = type(item["brand"]), item["brand"]
                seen[key] += 1
                if item["brand"] is None or seen[key] <= limit:
                    left.append(item["id"])
            distinct = {"field": "brand", "limit": limit}

            found = [
                index.search(distinct=distinct, sort="id", page=page, per_page=4)
                for page in range(1, len(left) // 4 + 2)
            ]

            assert {one["pagination"]["total"] for one in found} == {len(left)}
            assert [hit["id"] for one in found for hit in one["data"]["items"]] == left
            assert index.search(distinct=distinct, per_page=0)["pagination"]["total"] == len(left)
            facet = found[0]["data"]["aggregations"]["brand"]["buckets"]
            assert sum(bucket["doc_count"] for bucket in facet) == 120 - seen[type(None), None]
            by_words = index.search(query="word", distinct=distinct, per_page=200)
            assert by_words["pagination"]["total"] == len(by_words["data"]["items"]) == len(left)

            shown, cursor = [], "*"
            while cursor:
                answer = index.search(distinct=distinct, sort="id", cursor=cursor, per_page=3)
                shown += [hit["id"] for hit in answer["data"]["items"]]
                assert answer["pagination"]["total"] == len(left)
                cursor = answer["pagination"].get("cursor")
            assert shown == left

    def test_pinned_hits_are_shown_beside_those_that_are_left(self, index: Index) -> None:
        index.configure({})
        index.put([{"id": i, "brand": "ab"[i % 2], "t": "word"} for i in range(20)])
        rules = [{"name": "r", "pin": [{"id": 7, "position": 2}]}]
        for per_page in (0, 10):
            answer = index.search(query="word", distinct="brand", rules=rules, per_page=per_page)
            assert answer["pagination"]["total"] == 3
        ids = [hit["id"] for hit in answer["data"]["items"]]
        assert (len(ids), ids[1]) == (3, 7)

    @pytest.mark.parametrize("is_facet", [True, False])
    def test_an_array_is_the_set_of_its_values(self, index: Index, is_facet: bool) -> None:
        values: list[list[Any]] = [
            ["a", ["a"], ["a", "a"], [["b"], "a"], ["", None, "a"]],
            [["a", "b"], ["b", "a", "b"]],
            [["b"]],
            [1, [1.0], [1, 1]],
            [["1"], "1"],
            [[True]],
            [[1, "1", True], [True, "1", 1]],
            [2**53 + 1, [2**53 + 1]],
            [[2**53, 2**53 + 1], [2**53 + 1, 2**53]],
            [[]],
            [[[1]]],
            [[""]],
        ]
        index.configure({"aggregations": {"tag": {}} if is_facet else {}})
        items = [{"tag": one, "group": i} for i, group in enumerate(values) for one in group]
        index.put([{"id": i, **item} for i, item in enumerate(items)])

        for per_page in (0, 5, 100):
            found = index.search(distinct="tag", sort="id", per_page=per_page)
            assert found["pagination"]["total"] == len(values)
            shown = [item["group"] for item in found["data"]["items"]]
            assert shown == list(range(len(values)))[:per_page]

    def test_values_in_objects_of_an_array_are_a_set_too(self, index: Index) -> None:
        index.configure({})
        colors = [["red", "blue"], ["blue", "red"], ["red"], ["red", "red"]]
        index.put(
            [
                {"id": i, "variants": [{"color": one} for one in several]}
                for i, several in enumerate(colors)
            ]
        )

        found = index.search(distinct="variants.color", sort="id")

        assert [item["id"] for item in found["data"]["items"]] == [0, 2]


@pytest.mark.parametrize("step", [5.4, 0.1, 0.7, 1 / 3, 3, 1e-3])
def test_a_histogram_counts_what_lies_within_the_edges_it_names(index: Index, step: float) -> None:
    """Rounded quotients and edges disagree: 2025 / 5.4 is 375, and 375 * 5.4 exceeds 2025."""
    edges = [step * number for number in range(-3, 400, 3)]
    numbers = [
        2025,
        *edges,
        *(math.nextafter(one, -math.inf) for one in edges),
        *(round(one, 9) for one in edges),
    ]
    index.configure({})
    index.put([{"id": number, "n": one} for number, one in enumerate(numbers)])

    ranges = index.search(facet_ranges={"n": {"interval": step}}, per_page=0)["data"]["ranges"]["n"]
    within = [sum(one["from"] <= number < one["to"] for number in numbers) for one in ranges]
    assert [one["doc_count"] for one in ranges] == within
    assert sum(within) == len(numbers)
