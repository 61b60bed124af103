"""Hits come in the exact order, for any keys, segments, depth and cursor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.protocol.messages import SearchRequest, SortKey, TextQuery
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.collect.top_hits import hits_and_sort_values as hits_module
from shard.collect.top_hits import segment_top_k, selection_by_levels
from shard.collect.top_hits.hits_and_sort_values import Hits, packed_sort_values, sort_values
from shard.collect.top_hits.sort_levels import FieldLevel
from shard.collect.top_hits.top_k import select_hits
from shard.query.matches import Matches
from shard.segment.columns.joint_orders import Direction, joint_order
from shard.segment.columns.permutations import PERMUTATION_USES_MIN
from shard.segment.columns.sort_columns import SortColumn, sort_column
from shard.segment.doc_records_and_places import records_of
from shard.segment.snapshot import SegmentView
from tests.shard.columns_model import Item, World, sort_value, worlds

QUERY = TextQuery((), 0, False, (), (), 1.2, 0.75, 0.0)

sort_keys = st.lists(
    st.builds(
        SortKey,
        st.sampled_from(["year", "name", "flag", "tags", "box.in", "unknown", None]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=3,
).map(tuple)


def request(
    sort: tuple[SortKey, ...] = (), *, with_query: bool = False, **changes: Any
) -> SearchRequest:
    settings: dict[str, Any] = {
        "index": 1,
        "horizon": 1,
        "revision": 1,
        "query": QUERY if with_query else None,
        "filters": (),
        "facets": (),
        "ranges": (),
        "sort": sort,
        "is_place_descending": False,
        "num_hits": 10,
        "num_documents": 0,
    }
    return SearchRequest(**(settings | changes))


def all_matches(world: World, scores: dict[int, float] | None) -> list[Matches]:
    """Every live item, as a bitset or as scored documents."""
    parts = []
    for view in world.snapshot.views:
        if scores is None:
            parts.append(Matches(view, is_all=True))
            continue
        docs = Matches(view, is_all=True).docs
        records = records_of(view.segment, docs).tolist()
        values = np.array([scores[record] for record in records], np.float64)
        parts.append(Matches(view, docs=docs, scores=values))
    return parts


def scores_of_docs(
    view: SegmentView, scores: dict[int, float], docs: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """Return the scores of some documents of a segment, given those of the records."""
    return np.array([scores[one] for one in records_of(view.segment, docs).tolist()])


def type_rank(value: Any) -> int:
    return 2 if isinstance(value, bool) else 1 if isinstance(value, str) else 0


def compare_key(item: Item, record: int, scores: dict[int, float] | None, key: SortKey) -> Any:
    """A pair per key, smaller first: numbers and ranks only, so that all compare."""
    if key.field is None:
        score = 0.0 if scores is None else scores[record]
        return (1, -score if key.is_descending else score)
    return sort_value(item, key.field)


def expected_order(
    world: World, sort: tuple[SortKey, ...], scores: dict[int, float] | None, descending: bool
) -> list[tuple[int, int, Item]]:
    """Order items by stable sorts, from the last criterion to the first."""
    rows = sorted(world.live, key=lambda row: row[0], reverse=descending)
    if scores is not None:
        rows.sort(key=lambda row: -scores[row[1]])
    for key in reversed(sort):
        if key.field is None:
            if scores is not None:
                sign = -1 if key.is_descending else 1
                rows.sort(key=lambda row: sign * scores[row[1]])
            continue
        valued = [(sort_value(row[2], key.field), row) for row in rows]
        missing = [row for value, row in valued if value is None]
        present = [pair for pair in valued if pair[0] is not None]
        present.sort(key=lambda pair: (type_rank(pair[0]), pair[0]), reverse=key.is_descending)
        ordered = [row for _, row in present]
        rows = missing + ordered if key.is_missing_first else ordered + missing
    return rows


def records(hits: Hits) -> list[int]:
    found: list[int] = hits.records.tolist()
    return found


@given(worlds(), sort_keys, st.booleans(), st.booleans(), st.integers(0, 50), st.data())
def test_hits_are_in_the_naive_order(
    world: World,
    sort: tuple[SortKey, ...],
    with_query: bool,
    descending: bool,
    num_hits: int,
    data: st.DataObject,
) -> None:
    scores = None
    if with_query:
        drawn = st.sampled_from([0.0, 1.5, 2.0, 1e9, 3.25])
        scores = {record: data.draw(drawn) for _, record, _ in world.live}
    is_descending = descending and not sort and not with_query
    asked = request(sort, with_query=with_query, is_place_descending=descending, num_hits=num_hits)
    expected = expected_order(world, sort, scores, is_descending)
    hits = select_hits(world.snapshot, all_matches(world, scores), asked, num_hits)
    assert records(hits) == [record for _, record, _ in expected[:num_hits]]
    assert hits.places.tolist() == [place for place, _, _ in expected[:num_hits]]
    if scores is not None:
        assert hits.scores is not None
        assert hits.scores.tolist() == [scores[record] for record in records(hits)]
    for key in sort:
        values = sort_values(world.snapshot, hits, key)
        if key.field is None:
            assert values == ()
        else:
            field = key.field
            assert list(values) == [sort_value(item, field) for _, _, item in expected[:num_hits]]
            assert all(
                isinstance(value, bool) == isinstance(sort_value(item, field), bool)
                for value, (_, _, item) in zip(values, expected, strict=False)
            )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hits_module, "PACKED_HITS_MIN", 0)
            packed = packed_sort_values(world.snapshot, hits, key)
        if isinstance(packed, bytes):
            assert np.frombuffer(packed).tolist() == list(values)
            assert {type(value) for value in values} <= {float}
        else:
            assert packed == values
            # Where some item has an integer that no double is, numbers are not packed.
            numbers = [sort_value(item, key.field or "") for _, _, item in world.live]
            has_others = any(type(one) is int and float(one) != one for one in numbers)
            assert {type(value) for value in values} != {float} or has_others


@given(worlds(), sort_keys, st.booleans(), st.booleans(), st.integers(1, 7), st.data())
def test_cursors_visit_every_hit_once_in_order(
    world: World,
    sort: tuple[SortKey, ...],
    with_query: bool,
    descending: bool,
    page: int,
    data: st.DataObject,
) -> None:
    scores = None
    if with_query:
        drawn = st.sampled_from([0.0, 1.5, 2.0])
        scores = {record: data.draw(drawn) for _, record, _ in world.live}
    is_descending = descending and not sort and not with_query
    expected = expected_order(world, sort, scores, is_descending)
    seen: list[int] = []
    after = None
    is_counted, num_elsewhere = data.draw(st.booleans()), data.draw(st.integers(0, 2))
    for _ in range(len(expected) + 1):
        asked = request(
            sort,
            with_query=with_query,
            is_place_descending=descending,
            num_hits=page,
            after=after,
            num_before=len(seen) + num_elsewhere if is_counted else 0,
        )
        hits = select_hits(world.snapshot, all_matches(world, scores), asked, page)
        seen += records(hits)
        if len(hits.docs) < page:
            break
        values = [sort_values(world.snapshot, hits, key) for key in sort]
        last = tuple(column[-1] if column else None for column in values)
        score = None if hits.scores is None else float(hits.scores[-1])
        after = (*last, score, int(hits.places[-1]))
    assert seen == [record for _, record, _ in expected]


def large_world(cuts: Sequence[int] = (12_000,)) -> World:
    rng = np.random.default_rng(9)
    rows: list[Item] = [
        {"year": int(year), "price": float(price) if price else None, "flag": bool(year % 3)}
        for year, price in zip(
            rng.integers(1900, 1990, 20_000), rng.integers(0, 5_000, 20_000) / 4, strict=True
        )
    ]
    return World(rows, cuts=cuts, deleted=frozenset(range(0, 20_000, 37)))


def test_large_segments_give_the_same_with_and_without_their_permutation() -> None:
    world = large_world()
    for fields in (["year"], ["price"], ["flag"], ["nowhere"], ["flag", "price"]):
        for is_descending in (False, True):
            keys = tuple(SortKey(field, is_descending) for field in fields)
            expected = [row[1] for row in expected_order(world, keys, None, False)]
            for _ in range(PERMUTATION_USES_MIN + 2):
                for num_hits in (1, 10, 200, 5_000):
                    hits = select_hits(
                        world.snapshot, all_matches(world, None), request(keys), num_hits
                    )
                    assert records(hits) == expected[:num_hits]
                BACKGROUND_TASKS.run_all()


@pytest.fixture(scope="module", params=[(), (12_000,)])
def with_permutations(request: pytest.FixtureRequest) -> World:
    """A world in which each segment has the permutation of its prices."""
    world = large_world(request.param)
    for view in world.snapshot.views:
        price = world.snapshot.registry.register("price")
        sort_column(world.snapshot, view, price).make_permutation()
    return world


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0, 300), (300, 950), (950, 1250), (0, 1250)])
def test_matches_may_stand_anywhere_in_a_permutation(
    with_permutations: World, low: int, high: int, is_descending: bool
) -> None:
    """Where they are all at its far end, walking is given up."""
    world = with_permutations
    key = SortKey("price", is_descending)
    parts = []
    for whole in all_matches(world, None):
        column = sort_column(world.snapshot, whole.view, world.snapshot.registry.register("price"))
        prices = column.values(whole.docs)
        is_in = [price is not None and low <= price < high for price in prices]
        parts.append(Matches(whole.view, docs=whole.docs[np.array(is_in)]))
        assert parts[-1].count > segment_top_k._WALK_MATCHES_MIN
    order = expected_order(world, (key,), None, False)
    expected = [row[1] for row in order if low <= (row[2]["price"] or -1) < high]
    for num_hits in (1, 10, 200):
        hits = select_hits(world.snapshot, parts, request((key,)), num_hits)
        assert records(hits) == expected[:num_hits]


@pytest.mark.parametrize("field", ["year", "flag", "tags"])
@pytest.mark.parametrize("is_descending", [False, True])
def test_the_first_of_very_many_equal_keys_are_found_without_looking_at_all(
    monkeypatch: pytest.MonkeyPatch, field: str, is_descending: bool
) -> None:
    world = large_world()
    key = SortKey(field, is_descending)
    world.snapshot.registry.register(field)
    for _ in range(PERMUTATION_USES_MIN):
        select_hits(world.snapshot, all_matches(world, None), request((key,)), 10)
    BACKGROUND_TASKS.run_all()
    expected = [row[1] for row in expected_order(world, (key,), None, False)]
    monkeypatch.setattr(selection_by_levels, "_kth_smallest_heap", None)
    hits = select_hits(world.snapshot, all_matches(world, None), request((key,)), 10)
    assert records(hits) == expected[:10]


@pytest.mark.parametrize("cuts", [(), (12_000,)])
@pytest.mark.parametrize("with_query", [False, True])
@pytest.mark.parametrize(
    "sort",
    [
        (SortKey("flag", True), SortKey("price", False)),
        (SortKey("year", False), SortKey("price", True, True), SortKey("flag", False)),
        (SortKey("price", True), SortKey("year", True)),
    ],
)
def test_the_first_by_several_keys_are_found_by_their_joint_order(
    sort: tuple[SortKey, ...],
    with_query: bool,
    cuts: Sequence[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = large_world(cuts)
    scores = {record: float(record % 3) for _, record, _ in world.live} if with_query else None
    whole = all_matches(world, scores)
    matches = [Matches(part.view, bitset=part.bitset) for part in whole]
    for part in matches:
        if scores is not None:
            part.scorer = partial(scores_of_docs, part.view, scores)
    asked = request(sort, with_query=with_query)
    for _ in range(PERMUTATION_USES_MIN):
        select_hits(world.snapshot, matches, asked, 10)
    BACKGROUND_TASKS.run_all()
    num_compared: list[int] = []
    keys_of = FieldLevel.keys

    def noting(self: FieldLevel, positions: NDArray[np.int64] | None) -> NDArray[np.uint64]:
        keys = keys_of(self, positions)
        num_compared.append(len(keys))
        return keys

    monkeypatch.setattr(FieldLevel, "keys", noting)
    hits = select_hits(world.snapshot, matches, asked, 10)
    expected = expected_order(world, sort, scores, False)[:10]
    assert records(hits) == [record for _, record, _ in expected]
    assert max(num_compared, default=0) < 200


def test_columns_that_are_gone_have_no_joint_order() -> None:
    columns = [SortColumn(100, by_doc=np.arange(100, dtype=np.uint64)) for _ in range(2)]
    up, down = Direction(False, False), Direction(True, False)
    order = joint_order(columns, (up, up))
    assert joint_order(columns, (up, up)) is order
    assert joint_order(columns, (up, down)) is not order
    assert joint_order(columns[::-1], (up, up)) is not order
    del columns[1]
    order.make_permutation()
    assert order.permutation() is None


@pytest.mark.parametrize("num_brands", [2, 40])
@pytest.mark.parametrize("has_permutation", [False, True])
def test_scores_that_only_break_ties_of_several_keys_are_computed_for_few(
    num_brands: int, has_permutation: bool
) -> None:
    items: list[Item] = [
        {"name": f"b{n * 7 % num_brands}", "year": n * 11 % 300} for n in range(6_000)
    ]
    world = World(items, cuts=[2_500], facets=("name",))
    if has_permutation:
        name = world.snapshot.registry.number("name")
        assert name is not None
        for view in world.snapshot.views:
            sort_column(world.snapshot, view, name).make_permutation()
    scores = {record: float(record % 5) for record in range(len(items))}
    scored: list[list[int]] = []
    whole = all_matches(world, scores)

    def scoring(part: Matches) -> Matches:
        def score(docs: NDArray[np.uint32]) -> NDArray[np.float64]:
            scored.append(docs.tolist())
            return scores_of_docs(part.view, scores, docs)

        return Matches(part.view, bitset=part.bitset, scorer=score)

    for sort in (
        (SortKey("name", False), SortKey("year", True)),
        (SortKey("name", True), SortKey(None, False), SortKey("year", False)),
        (SortKey("year", True), SortKey("name", True)),
    ):
        asked = request(sort, with_query=True)
        scored.clear()
        hits = select_hits(world.snapshot, list(map(scoring, whole)), asked, 10)
        expected = expected_order(world, sort, scores, False)[:10]
        assert records(hits) == [record for _, record, _ in expected]
        assert all(docs == sorted(docs) for docs in scored)
        if sort[1].field is not None:
            assert max(map(len, scored)) <= segment_top_k._SCORED_FEW
    BACKGROUND_TASKS.run_all()


def test_a_permutation_is_built_in_the_background_once_searches_schedule_it() -> None:
    world = large_world()
    view = world.snapshot.views[0]
    column = sort_column(world.snapshot, view, world.snapshot.registry.register("price"))
    for _ in range(PERMUTATION_USES_MIN):
        assert column.permutation() is None
    assert len(BACKGROUND_TASKS) == 1
    BACKGROUND_TASKS.run_all()
    permutation = column.permutation()
    assert permutation is not None
    prices = column.values(permutation.docs)
    assert len(prices) > 10_000
    assert prices == sorted(prices)
    assert None not in prices
    ordered = list(zip(prices, permutation.docs.tolist(), strict=True))
    assert ordered == sorted(ordered)
    firsts = [i == 0 or prices[i - 1] != price for i, price in enumerate(prices)]
    assert permutation.is_first.tolist() == firsts


def test_large_numbers_in_arrays_do_not_order_items_without_a_scalar() -> None:
    """Their residuals once told missing values apart, and a cursor after one came back to it."""
    world = World([{"n": [2**53 + 1]}, {}, {"n": 2**53 + 1}])
    key = SortKey("n", True)
    hits = select_hits(world.snapshot, all_matches(world, None), request((key,)), 10)
    assert records(hits) == [2, 0, 1]


def test_no_hits_are_asked_of_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulation: with a sort key, `per_page: 0` made kernels write past arrays."""
    monkeypatch.setattr(selection_by_levels, "_kth_smallest_heap", None)
    world = World([{"year": 2}, {"year": 1}])
    hits = select_hits(world.snapshot, all_matches(world, None), request((SortKey("year"),)), 0)
    assert records(hits) == []


def test_scores_that_differ_by_less_than_a_double_near_the_best_does_are_in_order() -> None:
    """A boost by a popularity of millions makes such scores."""
    unit = 2.0**-32
    scores = {0: 2.0**22, **{record: 1.0 + record * unit for record in range(1, 200)}}
    world = World([{"year": 1}] * len(scores))
    hits = select_hits(world.snapshot, all_matches(world, scores), request(with_query=True), 200)
    assert records(hits) == [0, *range(199, 0, -1)]


@pytest.mark.parametrize("cuts", [(), (20,)])
@pytest.mark.parametrize("num_items", [40, 100, 400])
def test_insertion_numbers_are_read_of_hits_only(cuts: Sequence[int], num_items: int) -> None:
    """In large segments each lies in another page, or waits for the disk."""
    world = World([{"year": 1}] * num_items, cuts=cuts)
    scores = dict.fromkeys(range(num_items), 2.5)
    asked = request(with_query=True)
    expected = records(select_hits(world.snapshot, all_matches(world, scores), asked, 3))
    for view in world.snapshot.views:
        assert view.segment.meta["places_ascending"]
        view.segment["docs.place"][3:-1] = 0  # a read of these would put them first
    hits = select_hits(world.snapshot, all_matches(world, scores), asked, 3)
    assert records(hits) == expected == [0, 1, 2]
    assert hits.places.tolist() == sorted(hits.places.tolist())


def test_among_segments_that_are_in_no_order_insertion_numbers_decide() -> None:
    late = 1 << 40  # the items of the second segment came first
    places = [*range(late, late + 20), *range(20), *reversed(range(late + 20, late + 40))]
    world = World([{"year": 1}] * 60, cuts=(20, 40), places=places)
    scores = {record: 2.5 + (record % 20 == 7) for record in range(60)}
    hits = select_hits(world.snapshot, all_matches(world, scores), request(with_query=True), 8)
    assert records(hits) == [27, 7, 47, 20, 21, 22, 23, 24]
    assert hits.places.tolist()[3:] == [0, 1, 2, 3, 4]


def test_an_empty_snapshot_has_no_hits() -> None:
    world = World([{"year": 1}], deleted=frozenset({0}))
    assert records(select_hits(world.snapshot, all_matches(world, None), request(), 10)) == []
