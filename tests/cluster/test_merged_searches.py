"""Searches merged into one list with one set of facets: the service against the naive model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cluster.conftest import Services, error_of
from tests.cluster.test_against_oracle import Twins, Write, batches, conditions, is_text, stable
from tests.oracle.engine import Oracle
from tests.oracle.facets import bucket_order
from tests.oracle.items import Item, Json
from tests.oracle.orders import SortKey, sorted_by

facet_settings = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(1, 4),
        "conjunction": st.booleans(),
        "hide_zero_doc_count": st.booleans(),
        "show_facet_stats": st.booleans(),
        "sort": st.sampled_from(["count", "key", ["selected", "key"], ["count:asc"]]),
    },
)
configurations = st.dictionaries(st.sampled_from(["f", "g"]), facet_settings).map(
    lambda facets: {"aggregations": facets}
)
parameters: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"query": st.sampled_from(["", "", "sea", "model"])},
    optional={"filters": st.dictionaries(st.sampled_from(["f", "g"]), conditions, max_size=1)},
)


def merged_items(oracles: list[Oracle], searches: list[Json], order: Json) -> list[Item]:
    """Return the hits of all searches in one order, each with its number."""
    ranked: list[tuple[int, int, Item]] = []
    for number, (oracle, search) in enumerate(zip(oracles, searches, strict=True)):
        found = oracle.search(**search, **order).matching
        ranked += [(rank, number, item) for rank, item in enumerate(found)]
    ranked.sort(key=lambda row: row[:2])
    items = [{**item, "_index": number} for _, number, item in ranked]
    if "sort_field" not in order:
        return items
    return sorted_by(items, SortKey(order["sort_field"], order.get("order") == "desc"))


def merged_buckets(oracles: list[Oracle], searches: list[Json], name: str) -> list[Any]:
    """Return the buckets of a facet over all searches."""
    counts: dict[str, tuple[int, bool]] = {}
    first: Json | None = None
    for oracle, search in zip(oracles, searches, strict=True):
        if name in oracle.facet_settings:
            first = oracle.facet_settings[name] if first is None else first
            counted = oracle.counted_for(name, oracle.matches(search), search)
            hides_zero = first.get("hide_zero_doc_count", False)
            for key, count, is_selected in oracle.buckets(name, counted, search, hides_zero):
                before = counts.get(key, (0, False))
                counts[key] = (before[0] + count, before[1] or is_selected)
    assert first is not None
    buckets = sorted((key, *one) for key, one in counts.items())
    for key, is_descending in reversed(bucket_order(first)):
        place = {"key": 0, "count": 1, "selected": 2}[key]
        buckets.sort(key=lambda one: one[place], reverse=is_descending)
    return buckets[: first.get("size", 10)]


@pytest.mark.timeout(3_600)
@settings(
    max_examples=settings().max_examples // 8,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(st.data())
def test_merged_searches_say_what_the_oracles_say(services: Services, data: st.DataObject) -> None:
    twins = [Twins(services, data.draw(configurations)) for _ in range(2)]
    oracles = [one.oracle for one in twins]
    try:
        for one in twins:
            for batch in data.draw(st.lists(batches, min_size=1, max_size=2)):
                one.write(Write("put", tuple(batch)))
        for _ in range(4):
            searches = [data.draw(parameters) for _ in twins]
            order: Json = data.draw(
                st.sampled_from(
                    [
                        {},
                        {"order": "desc"},
                        {"sort_field": "f"},
                        {"sort_field": "g", "order": "desc"},
                    ]
                )
            )
            page, per_page = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 6))
            bodies = []
            for at in range(len(twins[0].indexes)):
                reply = (
                    twins[0]
                    .indexes[at]
                    .client.post(
                        "/_search",
                        {
                            "searches": [
                                {"index": one.indexes[at].name, **search, **order}
                                for one, search in zip(twins, searches, strict=True)
                            ],
                            "merge": {"page": page, "per_page": per_page},
                        },
                    )
                )
                bodies.append(reply)
            assert len({stable(one.body) for one in bodies}) == 1, [one.body for one in bodies]
            if bodies[0].status == 400:
                code = error_of(bodies[0])["code"]
                assert code in ("unknown_facet", "unknown_sort_field"), bodies[0].body
                continue
            answer = bodies[0].json
            names = {one.indexes[0].name: number for number, one in enumerate(twins)}
            items = merged_items(oracles, searches, order)
            assert answer["pagination"]["total"] == len(items)
            shown = answer["data"]["items"]
            if any(is_text(one["query"]) for one in searches) and "sort_field" not in order:
                assert len(shown) == len(items[(page - 1) * per_page : page * per_page])
            elif not any(is_text(one["query"]) for one in searches):
                for item in shown:
                    item["_index"] = names[item["_index"]]
                assert shown == items[(page - 1) * per_page : page * per_page]
            facets = {name for oracle in oracles for name in oracle.facet_settings}
            assert set(answer["data"]["aggregations"]) == facets
            for name in facets:
                buckets = answer["data"]["aggregations"][name]["buckets"]
                assert [
                    (one["key"], one["doc_count"], one["selected"]) for one in buckets
                ] == merged_buckets(oracles, searches, name)
    finally:
        for one in twins:
            one.close()


def test_scores_are_weighed_and_mistakes_are_named(services: Services) -> None:
    client = services(2).client()
    for name in ("films", "books"):
        client.post(f"/merged-{name}/configuration", {"aggregations": {"year": {}}})
        client.post(f"/merged-{name}/items", [{"id": 1, "name": f"sea {name}", "year": 2000}])
    films, books = ({"index": f"merged-{name}", "query": "sea"} for name in ("films", "books"))

    def merged(*searches: Json, merge: Any = True) -> Any:
        return client.post("/_search", {"searches": searches, "merge": merge})

    def indexes(reply: Any) -> list[str]:
        return [item["_index"] for item in reply.json["data"]["items"]]

    assert indexes(merged(films, books)) == ["merged-films", "merged-books"]
    assert indexes(merged(films, {**books, "weight": 2})) == ["merged-books", "merged-films"]
    # Without a query every score is 1, beside one that a boost changes and one of a query.
    all_films, all_books = ({"index": one["index"]} for one in (films, books))
    heavy = {**all_books, "weight": 2}
    assert indexes(merged(all_films, all_books)) == ["merged-films", "merged-books"]
    assert indexes(merged(all_films, heavy)) == ["merged-books", "merged-films"]
    boosted = {**all_films, "boost": {"year": {"saturation": 2000}}}  # 1 + 2000 / 4000
    assert indexes(merged(boosted, heavy)) == ["merged-books", "merged-films"]
    assert indexes(merged(boosted, all_books)) == ["merged-films", "merged-books"]
    ranges = {"facet_ranges": {"year": {"interval": 100}}}
    answer = merged({**films, **ranges}, {**books, **ranges}).json
    assert answer["data"]["ranges"]["year"] == [
        {"key": 2000.0, "from": 2000.0, "to": 2100.0, "doc_count": 2}
    ]
    assert [one["index"] for one in answer["meta"]["searches"]] == ["merged-films", "merged-books"]
    for searches, merge, code, param in (
        ([films, {**books, "page": 2}], True, "invalid_merge", "searches[1].page"),
        ([films, {**books, "weight": 0}], True, "invalid_merge", "searches[1].weight"),
        ([films, {**books, "cursor": "*"}], True, "invalid_merge", "searches[1].cursor"),
        ([films, {**books, "sort": "year:desc"}], True, "invalid_merge", "searches[1].sort"),
        ([films, {**books, "sort": "_random:1"}], True, "invalid_merge", "searches[1].sort"),
        (
            [{**films, "facets": {"year": {"percentiles": [50]}}}],
            True,
            "invalid_merge",
            "searches[0].facets",
        ),
        (
            [{**films, **ranges}, {**books, "facet_ranges": {"year": {"interval": 50}}}],
            True,
            "invalid_merge",
            "searches[1].facet_ranges.year",
        ),
        ([films], {"page": 1001}, "invalid_merge", "merge.page"),
        ([films], {"size": 1}, "invalid_merge", "merge.size"),
        ([films, {"index": "no-such"}], True, "index_not_found", "searches[1]"),
        ([films, {**books, "filter": "x ="}], True, "invalid_filter", "searches[1].filter"),
        ([{**films, "weight": 2}], None, "unknown_parameter", "searches[0].weight"),
    ):
        error = error_of(merged(*searches, merge=merge))
        assert (error["code"], error["param"]) == (code, param), error
    # Without merge, a bad search fails alone.
    results = client.post("/_search", {"searches": [{"index": "no-such"}, films]}).json["results"]
    assert results[0]["error"]["code"] == "index_not_found"
    assert results[1]["pagination"]["total"] == 1
    client.close()


def test_pages_partition_the_hits_where_some_are_pinned(services: Services) -> None:
    client = services(2).client()
    for name, width in (("a", 7), ("b", 5)):
        client.post(f"/pinned-{name}/configuration", {})
        items = [{"id": f"{name}{i}", "t": "lamp" + " x" * (i % width)} for i in range(20)]
        client.post(f"/pinned-{name}/items", items)
    pins = [["a6", "a5", "a13"], [{"id": "b4", "position": 2}, {"id": "b9", "position": 9_000}]]

    def found(per_page: int, pinned: bool) -> list[str]:
        """Return all hits, page by page."""
        searches = [
            {"index": f"pinned-{name}", "query": "lamp", "weight": weight}
            | ({"rules": [{"pin": pin}]} if pinned else {})
            for name, weight, pin in zip("ab", (2, 1), pins, strict=True)
        ]
        ids: list[str] = []
        for page in range(1, 40 // per_page + 2):
            merge = {"page": page, "per_page": per_page}
            answer = client.post("/_search", {"searches": searches, "merge": merge}).json
            assert answer["pagination"]["total"] == 40
            ids += [item["id"] for item in answer["data"]["items"]]
        return ids

    pinned = ["a6", "a5", "b4", "a13"]
    others = [one for one in found(40, pinned=False) if one not in (*pinned, "b9")]
    for per_page in (1, 3, 5, 40):
        assert found(per_page, pinned=True) == [*pinned, *others, "b9"]
    client.close()


def test_sums_beyond_all_doubles_are_merged(services: Services) -> None:
    client = services(2).client()
    client.post("/huge/configuration", {"aggregations": {"n": {"show_facet_stats": True}}})
    client.post("/huge/items", [{"id": 1, "n": 1e308}, {"id": 2, "n": 1.5e308}, {"id": 3, "n": 1}])

    def stats(*searches: dict[str, Any]) -> Any:
        document = {"searches": [{"index": "huge", **one} for one in searches], "merge": True}
        reply = client.post("/_search", document)
        assert reply.status == 200, reply.body
        return reply.json["data"]["aggregations"]["n"]["facet_stats"]

    single = client.search("huge")["data"]["aggregations"]["n"]["facet_stats"]
    assert stats({}) == single
    assert stats({}, {}) == {**single, "count": 6}
    assert stats({"filters": {"n": [1]}}, {"filters": {"n": [1]}})["sum"] == 2
    client.close()


def test_merged_ranges_stand_in_the_order_of_a_single_search(services: Services) -> None:
    client = services(2).client()
    for name, prices in (("a", [None, 250, 10]), ("b", [320, 120])):
        client.post(f"/ranges-{name}/configuration", {})
        items = [
            {"id": i, "price": price, "_geo": {"lat": -i, "lng": (price or 0) / 2}}
            for i, price in enumerate(prices)
        ]
        client.post(f"/ranges-{name}/items", items)
    ranges = {"price": {"interval": 100, "missing": True}, "_geo": {"grid": 4}}
    searches = [{"index": f"ranges-{name}", "facet_ranges": ranges} for name in "ab"]
    answer = client.post("/_search", {"searches": searches, "merge": True}).json["data"]["ranges"]
    assert [(one["key"], one["doc_count"]) for one in answer["price"]] == [
        (0.0, 1), (100.0, 1), (200.0, 1), (300.0, 1), ("missing", 1),
    ]  # fmt: skip
    assert [one["key"] for one in answer["_geo"]] == ["4/8/8", "4/10/8", "4/13/8", "4/15/8"]
    given = {"price": [{"from": 200}, {"to": 200}, {"from": 200}]}
    searches = [{"index": f"ranges-{name}", "facet_ranges": given} for name in "ab"]
    answer = client.post("/_search", {"searches": searches, "merge": True}).json["data"]["ranges"]
    assert [one["doc_count"] for one in answer["price"]] == [2, 2, 2]
    client.close()


def test_the_first_search_says_whether_values_without_hits_are_shown(services: Services) -> None:
    client = services(2).client()
    for name, hides in (("hiding", True), ("showing", False)):
        facet = {"hide_zero_doc_count": hides}
        client.post(f"/zeros-{name}/configuration", {"aggregations": {"tag": facet}})
        items = [{"id": 1, "tag": "both", "n": 1}, {"id": 2, "tag": name, "n": 2}]
        client.post(f"/zeros-{name}/items", items)

    def counts(*names: str) -> dict[str, int]:
        searches = [{"index": f"zeros-{name}", "filter": "n = 1"} for name in names]
        answer = client.post("/_search", {"searches": searches, "merge": True}).json
        buckets = answer["data"]["aggregations"]["tag"]["buckets"]
        return {one["key"]: one["doc_count"] for one in buckets}

    assert counts("hiding", "showing") == {"both": 2}
    assert counts("showing", "hiding") == {"both": 2, "hiding": 0, "showing": 0}
    client.close()
