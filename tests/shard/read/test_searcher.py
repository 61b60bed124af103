"""A search over a snapshot equals a naive search of every live item."""

from __future__ import annotations

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

from common.protocol.messages import (
    FacetRequest,
    FilterClause,
    HighlightRequest,
    TermsRequest,
)
from common.query_syntax_tree import AllOf, And, AnyOf, Filter, Not
from shard.query.filters import disjunctive_facets, filter_only_matches
from shard.query.spelling.completions_and_near_spellings import near_terms
from shard.read import highlight, searcher
from shard.segment.columns.facet_column_builder import SETS_DOCS_MIN
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from tests.shard.collect.top_hits.test_top_k import expected_order, request
from tests.shard.columns_model import FACETS, Item, World, keys_of, worlds
from tests.shard.read.naive_search import clauses, decode, large_world, surviving
from tests.shard.text_model import make_segment


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


@given(worlds(), st.integers(0, 1_000), st.integers(0, 100))
def test_documents_come_along_marked_or_not_at_all(
    world: World, fast_bytes: int, fast_quotes: int
) -> None:
    marks = HighlightRequest(("*",), (), "[", "]", "…", 1 << 20, 1 << 20)
    asked = request(num_documents=5)
    plain = searcher.search(world.snapshot, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(highlight, "MARKED_FAST_BYTES", fast_bytes)
        patch.setattr(highlight, "MARKED_FAST_QUOTES", fast_quotes)
        found = searcher.search(world.snapshot, structs.replace(asked, highlight=marks))

    assert found.records == plain.records
    assert plain.marks == ()
    together = b"".join(plain.documents)
    if len(together) > fast_bytes or together.count(b'"') > fast_quotes:
        assert (found.documents, found.marks) == ((), ())
    else:
        assert found.documents == plain.documents
        assert found.marks == highlight.mark_documents(world.snapshot, plain.documents, None, marks)


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
@pytest.mark.parametrize("num_trials", [20, pytest.param(200, marks=pytest.mark.long)])
def test_every_way_of_filtering_gives_the_same(
    num_trials: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = large_world()
    fields = ("tags", "brand", "few", "unique")
    rows = [(item, [keys_of(item, field) for field in fields]) for _, _, item in world.live]
    passing = [{i for i, row in enumerate(rows) if holds(row[0])} for _, holds in _LARGE_CONDITIONS]
    everything = set(range(len(rows)))
    rng = random.Random(share)
    monkeypatch.setattr(filter_only_matches, "_SELECTIVE_SHARE", share)
    for trial in range(num_trials):
        monkeypatch.setattr(filter_only_matches, "_TABLE_VALUES_MAX", (0, 1 << 13)[trial % 2])
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
    world = large_world()
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
        return disjunctive_facets.narrow_each(view, *arguments)

    monkeypatch.setattr(filter_only_matches, "narrow_each", narrow_each)
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
    world = large_world()
    asked = request(facets=(FacetRequest("tags", False, 100),))
    found = searcher.search(world.snapshot, asked)
    assert found.total == len(world.live)
    expected = Counter(key for _, _, item in world.live for key in keys_of(item, "tags"))
    ((counts, live),) = decode(world, found)
    assert counts == dict(expected)
    assert live == set(expected)
