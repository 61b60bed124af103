"""64-bit integers stay exact in requests, keys and answers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cluster.conftest import Index, Services

SHARD_COUNTS = (1, 2, 3, 5)
_numbers = itertools.count()

EDGES = (0, 2**53, 10**18, 2**63, 2**64 - 3, -(2**53), -(10**18), -(2**63) + 2)
"""Doubles do not tell the neighbours of these apart (but of 0)."""
integers = st.builds(
    lambda edge, distance: edge + distance, st.sampled_from(EDGES), st.integers(-2, 2)
)
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def test_another_tenant_is_not_found_shown_or_deleted(client: Any, index: Index) -> None:
    ours, theirs = 1763798506123456789, 1763798506123456768
    assert float(ours) == float(theirs)
    index.configure({"aggregations": {"owner": {}}})
    index.put(
        [
            {"id": 1, "tenant": ours, "owner": ours},
            {"id": 2, "tenant": theirs, "owner": theirs},
        ]
    )

    for expression in (
        f"tenant = {ours}",
        f"owner = {ours}",
        f"tenant IN [{ours}, 5]",
        f"owner IN [{ours}]",
        f"tenant {ours} TO {ours}",
        f"tenant > {theirs}",
        f"tenant != {theirs}",
        f"NOT tenant <= {theirs}",
    ):
        assert index.ids(filter=expression) == [1], expression
    reply = index.post("items/delete", {"filter": f"tenant = {ours}"})
    assert (reply.status, reply.json["deleted"]) == (200, 1)
    assert index.ids() == [2]


def test_integers_of_elements_order_items_exactly(client: Any, index: Index) -> None:
    index.configure({"nested": ["v"], "aggregations": {"v.c": {}}})
    numbers = [2**53 + 1, 2**53, 2**53 + 2, 2**64 - 1, 2**64 - 2, -(2**53) - 1, -(2**53)]
    lower, upper = min(numbers), max(numbers)
    index.put(
        [{"id": i, "v": [{"c": "a", "n": n}, {"c": "b", "n": lower}, {"c": "b", "n": upper}]}
         for i, n in enumerate(numbers)]
        + [{"id": 99, "v": [{"c": "a"}]}]
    )  # fmt: skip
    same = {"filters": {"v": {"same": {"c": ["a"]}}}}
    ascending = sorted(range(len(numbers)), key=numbers.__getitem__)

    assert index.ids(sort="v.n:asc", **same) == [*ascending, 99]
    assert index.ids(sort="v.n:desc", **same) == [*ascending[::-1], 99]


def test_digits_beyond_64_bits_are_a_text(index: Index) -> None:
    """No item has such an integer: parcels, accounts and cards with so many digits are texts."""
    parcel = "9400111899223197428490"
    index.configure({"aggregations": {"parcel": {}}})
    texts = [{"id": i, "parcel": digits, "own": digits} for i, digits in enumerate((parcel, "12"))]
    index.put([*texts, {"id": parcel, "parcel": float(parcel)}])

    for field, found in (("parcel", [0, parcel]), ("own", [0]), ("id", [parcel])):
        assert index.ids(filter=f"{field} = {parcel}") == found
        assert index.ids(filter=f"{field} IN [7, {parcel}]") == found
        others = [one for one in (0, 1, parcel) if one not in found]
        assert index.ids(filter=f"{field} != {parcel}") == others
    assert index.ids(filter=f'parcel = "{parcel}"') == [0]


@pytest.mark.timeout(1_800)
@settings(max_examples=settings().max_examples // 12, phases=_PHASES, deadline=None)
@given(st.data())
def test_every_question_about_integers_is_exact(services: Services, data: st.DataObject) -> None:
    name = f"integers-{next(_numbers)}"
    rows = data.draw(
        st.lists(st.lists(integers, min_size=1, max_size=2), min_size=1, max_size=8), "rows"
    )
    others = data.draw(st.sampled_from([(), (0.5,)]), "beside them")
    items = [
        {"id": i, "facet": row, "many": [*row, *others], "one": row[0]}
        for i, row in enumerate(rows)
    ]
    clients = [services(count).client() for count in SHARD_COUNTS]
    indexes = [Index(client, name) for client in clients]
    low, high = sorted((data.draw(integers, "low"), data.draw(integers, "high")))
    chosen = data.draw(st.lists(integers, min_size=1, max_size=3), "chosen")
    step = data.draw(st.sampled_from([1, 3, 7, 10]), "step")
    try:
        for index in indexes:
            index.configure({"aggregations": {"facet": {"size": 100, "show_facet_stats": True}}})
            index.put(items)
            for field in ("facet", "many", "one"):
                check_field(index, items, field, low, high, chosen)
            check_answers(index, rows, step)
            check_pages(index, rows)
    finally:
        for index in indexes:
            index.client.delete(index.path)
            index.client.close()


def numbers_of(item: dict[str, Any], field: str) -> list[Any]:
    value = item[field]
    return value if isinstance(value, list) else [value]


def check_field(
    index: Index, items: list[Any], field: str, low: int, high: int, chosen: list[int]
) -> None:
    """Ask for values and ranges of one field in every form that there is."""

    def matching(test: Any) -> list[int]:
        return [item["id"] for item in items if any(map(test, numbers_of(item, field)))]

    among, between = matching(lambda n: n in chosen), matching(lambda n: low <= n <= high)
    asked = {"per_page": 100}
    listed = ", ".join(map(str, chosen))
    assert index.ids(filter=f"{field} IN [{listed}]", **asked) == among
    assert index.ids(filters={field: {"any": chosen}}, **asked) == among
    assert index.ids(filter=f"{field} = {low}", **asked) == matching(lambda n: n == low)
    assert index.ids(filter=f"{field} {low} TO {high}", **asked) == between
    assert index.ids(filters={field: {"gte": low, "lte": high}}, **asked) == between
    for sign, name, test in (
        ("<", "lt", lambda n: n < low),
        ("<=", "lte", lambda n: n <= low),
        (">", "gt", lambda n: n > low),
        (">=", "gte", lambda n: n >= low),
    ):
        expected = matching(test)
        assert index.ids(filter=f"{field} {sign} {low}", **asked) == expected
        assert index.ids(filters={field: {name: low}}, **asked) == expected


def check_answers(index: Index, rows: list[list[int]], step: int) -> None:
    """Compare facet values, their statistics and histograms."""
    counts: dict[int, int] = {}
    buckets: dict[int, int] = {}
    for row in rows:
        for value in set(row):
            counts[value] = counts.get(value, 0) + 1
        for bucket in {value // step for value in row}:
            buckets[bucket] = buckets.get(bucket, 0) + 1
    answer = index.search(facet_ranges={"facet": {"interval": step}})["data"]
    facet = answer["aggregations"]["facet"]
    assert {int(b["key"]): b["doc_count"] for b in facet["buckets"]} == counts
    stats = facet["facet_stats"]
    assert (stats["min"], stats["max"]) == (min(counts), max(counts))
    shown = {b["key"]: b["doc_count"] for b in answer["ranges"]["facet"]}
    expected = {edge_of(bucket * step): count for bucket, count in buckets.items()}
    assert shown == expected


def edge_of(edge: int) -> int | float:
    """Return an edge as JSON has it: what is beyond 64 bits is a double."""
    return edge if -(2**63) <= edge < 2**64 else float(edge)


def check_pages(index: Index, rows: list[list[int]]) -> None:
    """Compare orders, paged through with a cursor."""
    for order in ("asc", "desc"):
        expected = sorted(
            range(len(rows)),
            key=lambda i: (-rows[i][0] if order == "desc" else rows[i][0], i),
        )
        found: list[int] = []
        cursor: str | None = "*"
        while cursor is not None:
            answer = index.search(sort=f"one:{order}", per_page=2, cursor=cursor)
            found += [item["id"] for item in answer["data"]["items"]]
            cursor = answer["pagination"].get("cursor")
        assert found == expected


def test_ids_that_are_large_integers_are_told_apart(client: Any, index: Index) -> None:
    ids = [2**53, 2**53 + 1, 10**18, 10**18 + 1, 2**63 - 2, 2**63 - 1]
    index.configure({})
    index.put([{"id": one} for one in ids])

    for one in ids:
        assert index.get(f"items/{one}").json == {"id": one}
        assert index.ids(filter=f"id = {one}") == [one]
    assert index.post("items/delete", {"filter": f"id >= {2**63 - 1}"}).json["deleted"] == 1
    assert index.post("items/delete", {"ids": [2**53 + 1]}).json["deleted"] == 1
    assert index.ids(sort="id:desc") == [one for one in reversed(ids[:-1]) if one != 2**53 + 1]
