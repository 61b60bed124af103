"""A search over a snapshot equals a naive search of every live item."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from common.errors import InvalidRequest
from common.protocol.messages import (
    Distinct,
    FacetRequest,
    FacetValuesRequest,
    FetchRequest,
    FieldWeight,
    FilterClause,
    GetRequest,
    RangeRequest,
    ScoredClause,
    SearchRequest,
    SearchResponse,
    SortKey,
    TermsRequest,
    TextQuery,
    ValueStatisticsRequest,
)
from common.query import NUM_MATCH_KINDS, AllOf, And, AnyOf, Contains, Filter, Not, Range, Word
from common.values import NO_TOKEN
from shard.caches.background_tasks import BACKGROUND_TASKS
from shard.collect import facet_counts
from shard.collect.distinct import MatchValues
from shard.query import disjunctive, filter_matches, filters
from shard.query.near_terms import near_terms
from shard.query.prepared import PreparedQuery
from shard.read import corpus_statistics, fetch, matching, search_cost, searcher
from shard.segment import distinct_values, facet_rows, sort_columns, text_columns
from shard.segment.facet_columns import SETS_DOCS_MIN
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from tests.common.protocol.packed_model import unpack
from tests.shard.collect.test_top_k import expected_order, request
from tests.shard.columns_model import FACETS, PATHS, Item, World, keys_of, numbers_of, worlds
from tests.shard.query.test_filters import conditions, keys, passes, ranges
from tests.shard.text_model import make_segment

clauses = st.lists(
    st.builds(
        FilterClause,
        conditions | st.builds(AnyOf, st.sampled_from(FACETS), st.lists(keys).map(tuple)),
        st.none() | st.sampled_from((*FACETS, "year")),
    ),
    max_size=4,
).map(tuple)


def surviving(world: World, asked: SearchRequest, without: str | None) -> list[Item]:
    """Items that pass all clauses but those marked with a facet."""
    return [
        item
        for _, _, item in world.live
        if all(
            passes(item, clause.filter)
            for clause in asked.filters
            if without is None or clause.facet != without
        )
    ]


def decode(world: World, found: SearchResponse) -> list[tuple[dict[str, int], set[str] | None]]:
    """Return by facet the counts by key, and the keys that are live if that was sent."""
    facets = []
    unpacked = unpack(found.facet_counts, len(found.facets))
    for facet, counts in zip(found.facets, unpacked, strict=True):
        dictionary = world.snapshot.dictionaries[facet.field]
        assert facet.epoch == dictionary.epoch
        assert facet.num_values == len(dictionary)
        names = dictionary.values()
        live = None
        if facet.live is not None:
            bits = np.unpackbits(np.frombuffer(facet.live, np.uint8), bitorder="little")
            live = {names[number] for number in np.flatnonzero(bits).tolist()}
        facets.append(({names[number]: count for number, count in counts.items()}, live))
    return facets


@given(worlds(), st.integers(1, 4))
def test_words_come_along_with_a_search_whatever_its_hits_are(world: World, num: int) -> None:
    items = [{"a": f"w{i % 3} w{i} x"} for i in range(12)]
    segments = [make_segment(part, FieldRegistry()) for part in (items[:7], items[7:])]
    snapshot = world.snapshot.with_views(tuple(map(SegmentView, segments)))
    terms = TermsRequest(1, 1, 1, text="w", is_prefix=True, num_terms=num)
    asked = request(num_hits=0)

    found = searcher.search(snapshot, structs.replace(asked, terms=terms))

    assert found.terms == near_terms(snapshot, terms)
    assert found.terms is not None
    assert "w0" in found.terms.terms
    assert searcher.search(snapshot, asked).terms is None


@given(worlds(), clauses, st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 12))
def test_hits_totals_and_facets_are_those_of_a_naive_search(
    world: World, filters: tuple[FilterClause, ...], leaves_out: list[bool], wanted: int
) -> None:
    asked = request(
        filters=filters,
        facets=tuple(map(FacetRequest, FACETS, leaves_out, [wanted] * 3)),
        num_documents=5,
    )
    found = searcher.search(world.snapshot, asked)
    # A clause whose facet is not counted without it narrows everything; so it does when it is.
    hits = [
        row
        for row in expected_order(world, (), None, False)
        if row[2] in surviving(world, asked, None)
    ]
    assert found.total == len(hits)
    assert np.frombuffer(found.records, np.uint64).tolist() == [row[1] for row in hits[:10]]
    assert [orjson.loads(one) for one in found.documents] == [
        orjson.loads(orjson.dumps(row[2])) if _fits_orjson(row[2]) else orjson.loads(one)
        for one, row in zip(found.documents, hits, strict=False)
    ]
    decoded = decode(world, found)
    for path, leaves_out_own, (counts, live) in zip(FACETS, leaves_out, decoded, strict=True):
        counted = surviving(world, asked, path if leaves_out_own else None)
        expected = Counter(key for item in counted for key in keys_of(item, path))
        assert counts == dict(expected)
        assert (live is not None) == (len(expected) < wanted)
        if live is not None:
            assert live == {key for _, _, item in world.live for key in keys_of(item, path)}


def _fits_orjson(item: Any) -> bool:
    try:
        orjson.dumps(item)
    except TypeError:
        return False
    return True


@given(worlds(), clauses, ranges(), st.lists(st.tuples(st.integers(-5, 10), st.integers(-5, 3000))))
def test_ranges_count_items(
    world: World, filters: tuple[FilterClause, ...], condition: Any, bounds: list[tuple[int, int]]
) -> None:
    mixed = (*bounds, (condition.lower, condition.upper))
    asked = request(
        filters=filters,
        ranges=tuple(
            RangeRequest(path, bounds=mixed, leaves_out_own=own)
            for path in PATHS
            for own in (False, True)
        ),
    )
    found = searcher.search(world.snapshot, asked)
    for one, counts in zip(asked.ranges, found.ranges, strict=True):
        items = surviving(world, asked, one.field if one.leaves_out_own else None)
        assert counts.keys == tuple(range(len(mixed)))
        for (lower, upper), count in zip(one.bounds, counts.counts, strict=True):
            within = type(condition)(one.field, lower, False, upper, True)
            assert count == sum(passes(item, within) for item in items)


@given(worlds(), st.sampled_from([1.0, 2.5, 1000.0]))
def test_histograms_count_items_once_per_bucket(world: World, interval: float) -> None:
    asked = request(ranges=tuple(RangeRequest(path, interval=interval) for path in PATHS))
    found = searcher.search(world.snapshot, asked)
    for path, counts in zip(PATHS, found.ranges, strict=True):
        expected = Counter(
            bucket
            for _, _, item in world.live
            for bucket in {int(np.floor(float(n) / interval)) for n in numbers_of(item, path)}
        )
        assert dict(zip(counts.keys, counts.counts, strict=True)) == dict(expected)
        assert list(counts.keys) == sorted(expected)


@pytest.mark.parametrize("values", [(1990, 7), (1e300, 2.5), ([1990, 2], [7])])
@pytest.mark.parametrize("interval", [5e-324, 1e-320])
def test_interval_that_is_too_small_is_refused(values: tuple[Any, ...], interval: float) -> None:
    world = World([{"year": value} for value in values])
    asked = request(ranges=(RangeRequest("year", interval=interval),))

    with pytest.raises(InvalidRequest, match="too small"):
        searcher.search(world.snapshot, asked)


@pytest.mark.parametrize(
    ("calendar", "expected"),
    [
        ("year", {"2020": 3, "2021": 1, "0044": 1}),
        ("month", {"2020-01": 2, "2020-02": 2, "0044-03": 1}),
        ("day", {"2020-01-31": 2, "2020-02-01": 1, "0044-03-15": 1}),
    ],
)
@pytest.mark.parametrize("facets", [(), ("date",)])
def test_calendars_count_iso_dates(
    calendar: str, expected: dict[str, int], facets: tuple[str, ...]
) -> None:
    dates: list[Any] = [
        "2020-01-31",
        ["2020-01-31T10:00:00Z", "2020-02-01", "2020-02"],
        "2020-02-3",
        "2021-13-01",
        "0044-03-15",
        "20201-01-01",
        2020,
        None,
    ]
    world = World([{"date": date} for date in dates], cuts=[3], facets=facets)
    asked = request(ranges=(RangeRequest("date", calendar=calendar),))
    (counts,) = searcher.search(world.snapshot, asked).ranges
    assert dict(zip(counts.keys, counts.counts, strict=True)) == expected


@functools.cache
def _large_world() -> World:
    rng = np.random.default_rng(2)
    rows: list[Item] = [
        {
            "id": number,
            "brand": f"b{brand}",
            "tags": [f"t{tag}" for tag in set(tags)],
            "few": int(few),
            "unique": f"u{number}",
        }
        for number, (brand, tags, few) in enumerate(
            zip(
                rng.integers(0, 300, 20_000).tolist(),
                rng.integers(0, 50, (20_000, 3)).tolist(),
                rng.integers(0, 4, 20_000).tolist(),
                strict=True,
            )
        )
    ]
    return World(
        rows,
        cuts=[14_000, 19_990],
        deleted=frozenset(range(7, 20_000, 53)),
        facets=("brand", "tags", "few", "unique"),
    )


def test_every_way_of_counting_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _large_world()
    facets = ("brand", "tags", "few", "unique")
    for wanted in (("b7",), tuple(f"b{n}" for n in range(100)), tuple(f"b{n}" for n in range(280))):
        asked = request(
            filters=(FilterClause(AnyOf("brand", wanted)),),
            facets=tuple(FacetRequest(field, False, 0) for field in facets),
        )
        items = [item for _, _, item in world.live if item["brand"] in wanted]
        expected = [Counter(key for item in items for key in keys_of(item, f)) for f in facets]
        for knobs in (
            {},
            {"_CODE_NS": 0.0, "_CODES_NS": 0.0},  # always by codes
            {"_SET_UNIT_NS": 0.0, "_SET_DOC_NS": 0.0},  # always by stored sets
            {"_WALKED_PER_NOTED": 0},  # always noting what is counted
            {"_WALKED_PER_NOTED": 10**9},
        ):
            with monkeypatch.context() as patch:
                for name, value in knobs.items():
                    patch.setattr(facet_counts, name, value)
                found = searcher.search(world.snapshot, asked)
            assert [counts for counts, _ in decode(world, found)] == list(map(dict, expected))


def test_facets_counted_together_have_the_counts_of_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large segments have rows of several facets, made after the first search that wants them."""
    monkeypatch.setattr(facet_counts, "ROWS_DOCS_MIN", 1)
    monkeypatch.setattr(facet_counts, "_ROWS_MATCHES_MIN", 0)
    monkeypatch.setattr(facet_counts, "_ROWS_SHARE", 1)
    world = _large_world()
    facets = ("brand", "tags", "few", "unique")
    asked = request(
        filters=(
            FilterClause(AnyOf("brand", ("b7", "b8")), "brand"),
            FilterClause(AnyOf("tags", tuple(f"t{n}" for n in range(9))), None),
        ),
        facets=tuple(FacetRequest(field, field == "brand", 0) for field in facets),
    )
    alone = [
        decode(world, searcher.search(world.snapshot, structs.replace(asked, facets=(one,))))[0]
        for one in asked.facets
    ]
    expected = [
        dict(Counter(key for item in surviving(world, asked, left) for key in keys_of(item, field)))
        for field, left in zip(facets, ("brand", None, None, None), strict=True)
    ]
    assert [counts for counts, _ in alone] == expected
    counted = facet_rows.FacetRows.count
    calls: list[int] = []

    def count(rows: Any, docs: Any, columns: Any) -> Any:
        calls.append(len(docs))
        return counted(rows, docs, columns)

    monkeypatch.setattr(facet_rows.FacetRows, "count", count)
    for num_calls in (0, 2):  # brand counts within other matches than the rest
        calls.clear()
        found = searcher.search(world.snapshot, asked)
        assert [counts for counts, _ in decode(world, found)] == expected
        assert len(calls) == num_calls, "once in each segment that has hits"
        BACKGROUND_TASKS.run_all()


_LARGE_CONDITIONS: tuple[tuple[Filter, Callable[[Item], bool]], ...] = (
    (AnyOf("tags", ("t3",)), lambda item: "t3" in item["tags"]),
    (AnyOf("tags", ("t7", "t8")), lambda item: bool({"t7", "t8"} & set(item["tags"]))),
    (AllOf("tags", ("t3", "t40")), lambda item: {"t3", "t40"} <= set(item["tags"])),
    (
        And((AnyOf("tags", ("t9",)), AnyOf("few", ("1", "2")))),
        lambda item: "t9" in item["tags"] and item["few"] in (1, 2),
    ),
    (AnyOf("brand", ("b5",)), lambda item: item["brand"] == "b5"),
    (
        AnyOf("brand", tuple(f"b{n}" for n in range(200, 300))),
        lambda item: item["brand"] >= "b2" and len(item["brand"]) == 4,
    ),
    (
        AnyOf("brand", ("b250", "b4", "b17", "nobody's")),
        lambda item: item["brand"] in ("b4", "b17", "b250"),
    ),
    (AnyOf("few", ("1",)), lambda item: item["few"] == 1),
    (AnyOf("few", ()), lambda item: False),
    (AnyOf("unique", ("u12345",)), lambda item: item["unique"] == "u12345"),
    (AnyOf("brand", ("nobody's",)), lambda item: False),
    (Not(AnyOf("few", ("3",))), lambda item: item["few"] != 3),
)


@pytest.mark.parametrize("share", [1, 8, 10**9])
def test_every_way_of_filtering_gives_the_same(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = _large_world()
    fields = ("tags", "brand", "few", "unique")
    rows = [(item, [keys_of(item, field) for field in fields]) for _, _, item in world.live]
    passing = [{i for i, row in enumerate(rows) if holds(row[0])} for _, holds in _LARGE_CONDITIONS]
    everything = set(range(len(rows)))
    rng = random.Random(share)
    monkeypatch.setattr(filter_matches, "_SELECTIVE_SHARE", share)
    for trial in range(60):
        monkeypatch.setattr(filter_matches, "_TABLE_VALUES_MAX", (0, 1 << 13)[trial % 2])
        chosen = rng.choices(range(len(_LARGE_CONDITIONS)), k=rng.randint(1, 4))
        clauses = [
            FilterClause(one, one.field if isinstance(one, AnyOf) and rng.random() < 0.6 else None)
            for one in [_LARGE_CONDITIONS[i][0] for i in chosen]
        ]
        found = searcher.search(
            world.snapshot,
            request(
                filters=tuple(clauses),
                facets=tuple(FacetRequest(field, True, 0) for field in fields),
            ),
        )
        hits = everything.intersection(*[passing[i] for i in chosen])
        assert found.total == len(hits)
        assert np.frombuffer(found.places, np.uint64).tolist() == [
            world.live[i][0] for i in sorted(hits)[:10]
        ]
        for position, (counts, _) in enumerate(decode(world, found)):
            narrowing = [
                passing[i]
                for i, clause in zip(chosen, clauses, strict=True)
                if clause.facet != fields[position]
            ]
            counted = everything.intersection(*narrowing)
            assert counts == Counter(key for i in counted for key in rows[i][1][position])


@pytest.mark.parametrize("common", [None, Not(AnyOf("few", ("3",)))])
def test_groups_list_their_documents_where_these_are_few(
    common: Filter | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _large_world()
    groups: dict[str, tuple[Filter, Callable[[Item], bool]]] = {
        "tags": (AnyOf("tags", ("t7",)), lambda item: "t7" in item["tags"]),
        "few": (AnyOf("few", ("1", "3")), lambda item: item["few"] in (1, 3)),
        "brand": (
            AnyOf("brand", tuple(f"b{n}" for n in range(15, 0, -1))),
            lambda item: 1 <= int(item["brand"][1:]) <= 15,
        ),
    }

    def narrow_each(view: SegmentView, *arguments: Any) -> Any:
        assert view.segment.num_docs < SETS_DOCS_MIN
        return disjunctive.narrow_each(view, *arguments)

    monkeypatch.setattr(filter_matches, "narrow_each", narrow_each)
    clauses = [FilterClause(condition, field) for field, (condition, _) in groups.items()]
    if common is not None:
        clauses.append(FilterClause(common))
    found = searcher.search(
        world.snapshot,
        request(
            filters=tuple(clauses),
            facets=tuple(FacetRequest(field, True, 0) for field in (*groups, "unique")),
        ),
    )
    rows = [row for row in world.live if common is None or row[2]["few"] != 3]
    expected = [
        [row for row in rows if all(g[1](row[2]) for field, g in groups.items() if field != own)]
        for own in (*groups, "unique")
    ]
    assert found.total == len(expected[-1]) > 10
    places = [place for place, _, _ in expected[-1]]
    assert np.frombuffer(found.places, np.uint64).tolist() == places[:10]
    for (counts, _), field, passing in zip(
        decode(world, found), (*groups, "unique"), expected, strict=True
    ):
        assert counts == Counter(key for _, _, item in passing for key in keys_of(item, field))


def test_everything_is_answered_from_stored_totals() -> None:
    world = _large_world()
    asked = request(facets=(FacetRequest("tags", False, 100),))
    found = searcher.search(world.snapshot, asked)
    assert found.total == len(world.live)
    expected = Counter(key for _, _, item in world.live for key in keys_of(item, "tags"))
    ((counts, live),) = decode(world, found)
    assert counts == dict(expected)
    assert live == set(expected)


def test_distinct_keeps_the_best_hits_of_each_value() -> None:
    items: list[Item] = [{"brand": f"b{n % 3}" if n % 5 else None, "n": n} for n in range(100)]
    world = World(items, cuts=[40], facets=("brand",))
    asked = request((SortKey("n", True),), distinct=Distinct("brand", 2), num_documents=10)
    found = searcher.search(world.snapshot, asked)
    seen: Counter[str] = Counter()
    expected = []
    for item in reversed(items):
        brand = item["brand"]
        if brand is None or seen[brand] < 2:
            expected.append(item["n"])
            seen[brand] += brand is not None
    assert [orjson.loads(one)["n"] for one in found.documents] == expected[:10]
    assert found.total == 100
    assert found.distinct is not None
    assert (found.distinct.total, found.distinct.num_missing) == (6 + 20, 20)
    tokens = np.frombuffer(found.distinct.hit_tokens, np.uint64).tolist()
    by_brand = {(items[n]["brand"], token) for n, token in zip(expected, tokens, strict=False)}
    assert len(tokens) == len(found.places) // 8
    assert (None, NO_TOKEN) in by_brand
    assert len(by_brand) == len({token for _, token in by_brand}) == 4


@functools.cache
def _world_of_texts() -> World:
    """Return items with words; prices, ranks and names that many share or some lack."""
    rng = random.Random(8)
    items: list[Item] = []
    for number in range(6_000):
        item: Item = {
            "text": " ".join(rng.choices(["sea", "green", "mile", "of"], k=rng.randint(0, 6))),
            "price": rng.randint(0, 4_000) / 100,
            "rank": rng.randint(0, 3),
            "category": f"c{rng.randint(0, 30)}",
        }
        if number % 7:
            item["name"] = f"n{rng.randint(0, 200)}"
        items.append(item)
    deleted = frozenset(rng.sample(range(6_000), 300))
    return World(items, cuts=[4_000], deleted=deleted, facets=("category",), has_texts=True)


@pytest.mark.parametrize("distinct", [None, Distinct("category"), Distinct("rank", 3)])
@pytest.mark.parametrize("num_hits", [1, 30, 400])
def test_a_sorted_search_gives_the_same_hits_whether_it_scores_few_or_all(
    distinct: Distinct | None, num_hits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _world_of_texts()
    clauses = [ScoredClause(Word(word), ((1.0,) * NUM_MATCH_KINDS,)) for word in ("sea", "green")]
    fields = (FieldWeight("text", 1.0, 3.0),)
    for sort in (
        (SortKey("price"),),
        (SortKey("price", True),),
        (SortKey("rank"), SortKey("price", True)),
        (SortKey("name"),),
        (SortKey("name", True, True),),
        (SortKey("unknown"),),
    ):
        for num_clauses in (1, 2):
            few = tuple(clauses[:num_clauses])
            query = TextQuery(few, len(few), False, (), fields, 0.9, 0.6, 0.2)
            asked = request(sort, query=query, distinct=distinct, num_hits=num_hits)
            searcher.search(world.snapshot, asked)
            BACKGROUND_TASKS.run_all()  # permutations
            late = searcher.search(world.snapshot, asked)
            with monkeypatch.context() as patch:
                patch.setattr(matching, "_scores_late", lambda _: False)
                early = searcher.search(world.snapshot, asked)
            uncounted = searcher.search(world.snapshot, structs.replace(asked, wants_total=False))
            assert (uncounted.places, uncounted.scores) == (late.places, late.scores)
            assert uncounted.distinct == late.distinct
            assert uncounted.total == late.total or uncounted.total > len(late.places) // 8
            assert late.places == early.places
            assert late.scores == early.scores
            assert (late.total, late.distinct) == (early.total, early.distinct)
            assert len(late.places) // 8 == min(
                num_hits, late.total if late.distinct is None else late.distinct.total
            )


@pytest.mark.parametrize("is_descending", [False, True])
def test_the_first_of_many_hits_are_found_without_all_if_no_total_is_wanted(
    is_descending: bool,
) -> None:
    world = _world_of_texts()
    clause = ScoredClause(Word("sea"), ((1.0,) * NUM_MATCH_KINDS,))
    query = TextQuery((clause,), 1, False, (), (FieldWeight("text", 1.0, 3.0),), 0.9, 0.6, 0.0)
    asked = request((SortKey("price", is_descending),), query=query, num_hits=3)
    for _ in range(3):
        all_hits = searcher.search(world.snapshot, asked)
        BACKGROUND_TASKS.run_all()  # permutations

    few = searcher.search(world.snapshot, structs.replace(asked, wants_total=False))
    filters = (FilterClause(AnyOf("category", ("c1",))),)
    filtered = structs.replace(asked, filters=filters)
    few_filtered = searcher.search(world.snapshot, structs.replace(filtered, wants_total=False))

    assert (few.places, few.scores) == (all_hits.places, all_hits.scores)
    assert 3 < few.total < 200 < all_hits.total
    assert few_filtered.places == searcher.search(world.snapshot, filtered).places


def test_a_search_sorted_by_prices_scores_few_of_its_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _world_of_texts()
    clause = ScoredClause(Word("sea"), ((1.0,) * NUM_MATCH_KINDS,))
    query = TextQuery((clause,), 1, False, (), (FieldWeight("text", 1.0, 3.0),), 0.9, 0.6, 0.0)
    scored: list[int] = []
    score = matching._score

    def count(
        view: SegmentView, prepared: PreparedQuery, docs: NDArray[np.uint32]
    ) -> NDArray[np.float64]:
        scored.append(len(docs))
        return score(view, prepared, docs)

    monkeypatch.setattr(matching, "_score", count)
    found = searcher.search(world.snapshot, request((SortKey("price"),), query=query))
    assert found.total > 2_000
    assert 10 <= sum(scored) < 60


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("num_hits", [0, 1, 9, 400])
@pytest.mark.parametrize("facets", [(), ("v",)])
def test_distinct_looks_past_the_many_hits_of_few_values(
    limit: int, num_hits: int, facets: tuple[str, ...]
) -> None:
    kinds = ["1", 1, 1.0, True, False, "", "é", 2**53 + 1, 2**53, 2**64 - 1, 0, -0.0, None, []]
    items: list[Item] = [
        {"n": n, "v": kinds[13 - n // 100] if n < 1_400 else "common", "t": "word " * (n % 7 + 1)}
        for n in range(3_000)
    ]
    world = World(items, cuts=[900, 1_700], deleted=frozenset({1, 150}), facets=facets)
    asked = request(
        (SortKey("n", True),),
        distinct=Distinct("v", limit),
        num_hits=num_hits,
        num_documents=num_hits,
        wants_distinct_values=True,
    )
    seen: Counter[tuple[bool, object]] = Counter()
    expected = []
    for _, _, item in reversed(world.live):
        value = item["v"]
        seen[isinstance(value, bool), None if value == [] else value] += 1
        if value is None or value == [] or seen[isinstance(value, bool), value] <= limit:
            expected.append(item["n"])

    found = searcher.search(world.snapshot, asked)

    assert [orjson.loads(one)["n"] for one in found.documents] == expected[:num_hits]
    assert found.distinct is not None
    assert (found.distinct.total, found.distinct.num_missing) == (len(expected), 198)
    assert set(found.distinct.counts) == {limit}
    assert len(found.distinct.tokens) == 8 * len(found.distinct.counts)
    assert len(found.distinct.counts) == (len(expected) - 198) // limit


def test_distinct_makes_no_list_of_all_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass counts a million hits by value, in a few milliseconds."""
    monkeypatch.setattr(MatchValues, "of_matches", None)
    items: list[Item] = [{"v": n % 7, "n": n} for n in range(500)]
    for deleted in (frozenset[int](), frozenset({3, 400})):
        world = World(items, cuts=[200], deleted=deleted)
        for narrowing in ((), (FilterClause(Range("n", 100)),)):
            asked = request(distinct=Distinct("v"), num_hits=7, num_documents=7, filters=narrowing)
            found = searcher.search(world.snapshot, asked)
            left = [n for n in range(100 if narrowing else 0, 500) if n not in deleted]
            assert (found.total, found.distinct and found.distinct.total) == (len(left), 7)
            shown = [orjson.loads(one)["n"] for one in found.documents]
            assert shown == sorted({n % 7: n for n in reversed(left)}.values())


def test_an_array_is_the_set_of_its_values() -> None:
    items: list[Item] = [{"v": 1}, {"v": [1]}, {"v": [[2], 3]}, {"v": []}, {"w": 1}, {"v": [3, 1]}]
    items += [{"v": [1, 3, 1]}, {"v": "a"}, {"v": ["a", "a"]}, {"v": ["a", 1]}, {"v": [1, "a", {}]}]
    world = World(items, cuts=[2, 6])
    found = searcher.search(world.snapshot, request(distinct=Distinct("v"), num_hits=20))
    assert found.distinct is not None
    assert (found.distinct.total, found.distinct.num_missing) == (7, 2)
    assert np.frombuffer(found.places, np.uint64).tolist() == [0, 2, 3, 4, 5, 7, 9]


def test_get_finds_the_live_item_of_an_id_only() -> None:
    world = World(
        [{"id": 5, "v": 1}, {"id": "x"}, {"id": "5", "v": 2}, {}], cuts=[2], deleted=frozenset({0})
    )

    def get(identifier: bytes) -> Any:
        document = fetch.get(world.snapshot, GetRequest(1, 1, identifier)).document
        return None if document is None else orjson.loads(document)

    assert get(b"5") == {"id": "5", "v": 2}
    assert get(b"x") == {"id": "x"}
    assert get(b"y") is None


def test_fetch_returns_documents_in_the_order_asked_for() -> None:
    world = World([{"id": n} for n in range(5)], cuts=[2])
    records = np.array([4, 0, 3], np.uint64).tobytes()
    found = fetch.fetch(world.snapshot, FetchRequest(1, 1, 1, records))
    assert [orjson.loads(one or b"{}")["id"] for one in found.documents] == [4, 0, 3]
    assert found.marks == ()


def test_facet_values_are_the_tail_of_the_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([{"tags": ["a", "b"]}, {"tags": "c"}])
    epoch = world.snapshot.dictionaries["tags"].epoch
    ask = fetch.facet_values
    monkeypatch.setattr(fetch, "FACET_VALUES_MAX", 1)
    assert len(ask(world.snapshot, FacetValuesRequest(1, "tags", epoch, 0)).values) == 1
    monkeypatch.undo()
    tail = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch, 1))
    assert (tail.epoch, tail.start, tail.values) == (epoch, 1, ("b", "c"))
    other = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch + 1, 2))
    assert (other.epoch, other.start, other.values) == (epoch, 0, ("a", "b", "c"))
    assert ask(world.snapshot, FacetValuesRequest(1, "no", 0, 0)).values == ()


def test_a_field_that_is_no_facet_counts_nothing() -> None:
    world = World([{"name": "a"}])
    found = searcher.search(world.snapshot, request(facets=(FacetRequest("name", False, 5),)))
    (facet,) = found.facets
    assert (facet.field, facet.num_values) == ("name", 0)
    assert unpack(found.facet_counts, 1) == [{}]


def test_fields_tell_paths_kinds_and_numbers_of_documents() -> None:
    world = World([{"a": 1}, {"a": [None, "x"]}, {"b": {"c": 1.5}}], cuts=[1])
    assert corpus_statistics.fields_of(world.snapshot) == (
        {"path": "a", "num_docs": 2, "kinds": ["string", "integer", "null"]},
        {"path": "b.c", "num_docs": 1, "kinds": ["float"]},
    )


def test_slow_searches_are_told_beforehand() -> None:
    world = World([{"name": "a", "year": 1}])
    assert not search_cost.is_slow(world.snapshot, request((SortKey("year"),)))
    assert search_cost.is_slow(world.snapshot, request((SortKey("name"),)))
    assert search_cost.is_slow(world.snapshot, request(num_hits=10**6))
    assert search_cost.is_slow(
        world.snapshot, request(filters=(FilterClause(AnyOf("name", ("a",))),))
    )
    searcher.search(world.snapshot, request((SortKey("name"),)))
    assert not search_cost.is_slow(world.snapshot, request((SortKey("name"),)))


def test_the_first_search_in_an_order_of_many_keys_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_columns, "COLUMN_FAST_MAX", 2)
    rows: list[Item] = [{"tags": name, "year": 7, "flag": True, "name": name} for name in "abc"]
    world = World(rows)
    for field in ("tags", "flag", "name"):
        asked = request((SortKey(field),))
        assert search_cost.is_slow(world.snapshot, asked)
        searcher.search(world.snapshot, asked)
        assert not search_cost.is_slow(world.snapshot, asked)
    assert not search_cost.is_slow(world.snapshot, request((SortKey("year"),)))
    assert not search_cost.is_slow(World(rows[:2]).snapshot, request((SortKey("flag"),)))


def test_telling_few_matches_apart_is_fast_however_many_items_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_cost, "DISTINCT_FAST_MAX", 3)
    items: list[Item] = [{"tags": "a", "text": "rare" if i < 2 else "common"} for i in range(6)]
    world = World(items, has_texts=True)

    def asked(*words: str, required: int) -> SearchRequest:
        clauses = tuple(ScoredClause(Word(word), ((1.0,) * NUM_MATCH_KINDS,)) for word in words)
        fields = (FieldWeight("text", 1.0, 1.0),)
        query = TextQuery(clauses, required, False, (), fields, 0.9, 0.6, 0.0)
        return request(query=query, distinct=Distinct("tags"))

    rare, common = asked("rare", required=1), asked("common", required=1)
    both, any_one = asked("rare", "common", required=2), asked("rare", "common", required=1)
    assert search_cost.is_slow(world.snapshot, rare), "not known to be rare"
    for one in (rare, common):
        searcher.search(world.snapshot, one)
    slow = [search_cost.is_slow(world.snapshot, one) for one in (rare, common, both, any_one)]
    assert slow == [False, True, False, True]
    assert search_cost.is_slow(world.snapshot, request(distinct=Distinct("tags")))
    few = World([{"tags": "a"}] * 3).snapshot
    assert not search_cost.is_slow(few, request(distinct=Distinct("tags")))


def test_telling_apart_what_a_field_orders_takes_no_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_cost, "DISTINCT_FAST_MAX", 3)
    monkeypatch.setattr(search_cost, "DISTINCT_ORDERED_FAST_MAX", 6)
    by_year = request((SortKey("year"),), distinct=Distinct("tags"))
    groups = request((SortKey("year"),), distinct=Distinct("tags", counts_groups=True))
    six, seven = (World([{"tags": "a", "year": 1}] * size).snapshot for size in (6, 7))
    assert not search_cost.is_slow(six, by_year)
    assert search_cost.is_slow(six, request(distinct=Distinct("tags")))
    assert search_cost.is_slow(six, groups)
    assert search_cost.is_slow(seven, by_year)


def test_telling_apart_by_many_values_is_slow_however_few_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_cost, "DISTINCT_VALUES_FAST_MAX", 3)
    world = World([{"year": i, "tags": "ab"[i % 2]} for i in range(4)])
    for field in ("year", "tags"):  # numbers their values
        searcher.search(world.snapshot, request(distinct=Distinct(field)))
    assert search_cost.is_slow(world.snapshot, request(distinct=Distinct("year")))
    assert not search_cost.is_slow(world.snapshot, request(distinct=Distinct("tags")))
    assert not search_cost.is_slow(world.snapshot, request(distinct=Distinct("absent")))


def test_what_looks_at_all_values_of_a_long_facet_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are counted, sorted, hashed and folded on a reader thread where there are many."""
    monkeypatch.setattr(search_cost, "VALUES_FAST_MAX", 5)
    monkeypatch.setattr(text_columns, "_SORTED_FAST_MAX", 5)
    monkeypatch.setattr(distinct_values, "_HASHED_FAST_MAX", 5)
    monkeypatch.setattr(filters, "KEYS_FAST_MAX", 5)

    def world(num_values: int) -> World:
        return World([{"tags": f"v{i}"} for i in range(num_values)])

    count = request(facets=(FacetRequest("tags", False, 0),))
    order = request((SortKey("tags"),))
    tell_apart = request(distinct=Distinct("tags"))
    contain = request(filters=(FilterClause(Contains("tags", "v")),))
    few, many = world(2), world(6)
    for asked in (count, order, tell_apart, contain):
        assert not search_cost.is_slow(few.snapshot, asked)
        assert search_cost.is_slow(many.snapshot, asked)
        searcher.search(many.snapshot, asked)
    for asked in (order, tell_apart):
        assert not search_cost.is_slow(many.snapshot, asked), "what was made is kept"


def test_joint_counts_of_many_values_or_documents_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([{"tags": f"v{i}", "n": i} for i in range(6)])

    def asked(num_keys: int) -> SearchRequest:
        keys = tuple(f"v{i}" for i in range(num_keys))
        facet = FacetRequest("tags", False, 0)
        return request(value_statistics=(ValueStatisticsRequest(facet, keys, ("n",)),))

    assert not search_cost.is_slow(world.snapshot, asked(3))
    monkeypatch.setattr(search_cost, "KEYS_FAST_MAX", 4)
    assert not search_cost.is_slow(world.snapshot, asked(3))
    assert search_cost.is_slow(world.snapshot, asked(5))
    monkeypatch.setattr(search_cost, "JOINT_FAST_MAX", 5)
    assert search_cost.is_slow(world.snapshot, asked(3))
