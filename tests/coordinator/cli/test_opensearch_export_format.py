"""Exports in the bulk format and mapping of OpenSearch."""

from __future__ import annotations

import json

from coordinator.cli.opensearch_export_format import bulk, mapping

ITEMS = b'{"id":5,"a":1}\n{"id":"x y"}\n{"b": [1, 2]}\n'


def test_every_item_gets_its_action_wherever_the_pieces_are_cut() -> None:
    expected = [
        *({"index": {"_id": "5"}}, {"id": 5, "a": 1}),
        *({"index": {"_id": "x y"}}, {"id": "x y"}),
        *({"index": {}}, {"b": [1, 2]}),
    ]
    for size in range(1, len(ITEMS) + 1):
        pieces = (ITEMS[at : at + size] for at in range(0, len(ITEMS), size))
        lines = b"".join(bulk(pieces)).splitlines()
        assert [json.loads(line) for line in lines] == expected


def test_no_items_make_an_empty_stream() -> None:
    assert b"".join(bulk([])) == b""


def test_facets_are_keywords_that_have_words() -> None:
    made = mapping({"aggregations": {"tags": {"conjunction": False}}, "language": "en"})
    assert made["mappings"]["properties"]["tags"]["type"] == "keyword"
    assert mapping({}) == {"mappings": {"properties": {}}}
