"""Texts longer than a value may be: searched and shown, but not counted, filtered or sorted by."""

from __future__ import annotations

import json
from typing import Any

from common.value_kinds_and_facet_keys import FACET_KEY_BYTES_MAX
from tests.cluster.conftest import Index, on_three_shards
from tests.oracle.distinct import distinct_of
from tests.oracle.items import keys_of
from tests.oracle.orders import SortKey, sorted_by

LONGEST = "ä" * (FACET_KEY_BYTES_MAX // 2)
TOO_LONG = "green " + LONGEST
FIELDS = ("tag", "note")
"""A facet, and a field that is none: the same must hold of both."""
CONFIGURATION = {"aggregations": {"tag": {}, "parts.of": {}}, "nested": ["parts"]}
VALUES: list[Any] = ["drama", LONGEST, TOO_LONG, ["drama", TOO_LONG], [TOO_LONG], TOO_LONG, "", 7]
ITEMS: list[dict[str, Any]] = [
    {"id": i, "tag": value, "note": value, "parts": [{"of": value}, {"of": "a"}]}
    for i, value in enumerate(VALUES)
]


def test_a_text_beyond_the_limit_is_searched_and_shown_but_is_no_value(index: Index) -> None:
    index.configure(CONFIGURATION)
    assert index.put(ITEMS).status == 200

    check(index, ITEMS)


@on_three_shards
def test_so_it_is_in_large_segments(index: Index) -> None:
    index.configure(CONFIGURATION)
    more = [{"id": i, "tag": f"m{i % 9}", "note": f"m{i % 9}"} for i in range(8, 15_008)]
    assert index.load("\n".join(map(json.dumps, ITEMS + more)).encode()).status == 200

    check(index, ITEMS + more)


def test_so_it_is_however_it_arrives(index: Index) -> None:
    index.configure({})
    index.put([{"id": item["id"]} for item in ITEMS])
    assert index.post("items/0/update", ITEMS[0]).status == 200
    body = json.dumps(ITEMS[1:3]).encode()
    json_type = {"content-type": "application/json"}
    assert index.client.request("PATCH", f"{index.path}/items", body, json_type).status == 200
    assert index.load("\n".join(map(json.dumps, ITEMS[3:5])).encode()).status == 200
    for item in ITEMS[5:]:
        fields = {name: value for name, value in item.items() if name != "id"}
        assert index.post(f"items/{item['id']}/partial", fields).status == 200
    assert index.configure(CONFIGURATION).status == 200  # now it is a facet

    check(index, ITEMS)


def check(index: Index, items: list[dict[str, Any]]) -> None:
    """Compare what an index says of a facet and of a field that is none with the model."""
    ids = {"fields": ["id"], "per_page": 100}
    found = index.search(query="green", **ids)["data"]["items"]
    assert sorted(item["id"] for item in found) == [2, 3, 4, 5]
    assert index.get("items/5").json["tag"] == TOO_LONG
    for name in FIELDS:
        keys = {item["id"]: keys_of(item, name) for item in items}
        counts = {
            key: sum(key in one for one in keys.values()) for key in set().union(*keys.values())
        }
        options = {name: {"missing": True, "size": 100}}
        facet = index.search(facet_fields=[name], facets=options, per_page=0)
        facet = facet["data"]["aggregations"][name]
        assert {one["key"]: one["doc_count"] for one in facet["buckets"]} == counts
        assert facet["missing"] == sum(not one for one in keys.values())
        for expression in (f"{name} STARTS WITH green", f"{name} CONTAINS een", f'{name} >= "e"'):
            assert [i for i in index.ids(filter=expression, **ids) if i in (2, 3, 4, 5)] == []
        assert index.ids(filter=f'{name} >= "ä"', **ids) == [1]
        assert index.ids(filter=f"{name} EXISTS AND id < 8", **ids) == [*range(8)]
        for is_descending in (False, True):
            order = f"{name}:desc" if is_descending else name
            expected = [item["id"] for item in sorted_by(items, SortKey(name, is_descending))]
            assert index.ids(sort=order, **ids) == expected[:100]
        groups = [item["id"] for item in distinct_of(items, name)]
        assert index.ids(distinct={"field": name}, **ids) == groups[:100]
    elements = index.search(per_page=0)["data"]["aggregations"]["parts.of"]["buckets"]
    assert {one["key"] for one in elements} == {"drama", LONGEST, "7", "a"}
