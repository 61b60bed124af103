"""Elasticsearch's exports, mappings and scroll searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.importers import elasticsearch
from coordinator.cli.sources.source import SourceError
from tests.coordinator.cli.importers.files import MAPPING, valid, write


class TestElasticsearch:
    @pytest.mark.parametrize(
        "content",
        [
            '{"_id":"1","_source":{"title":"Sea"}}\n{"_id":"b","_source":{"title":"Land"}}\n',
            '{"index":{"_id":"1"}}\n{"title":"Sea"}\n{"index":{"_id":"b"}}\n{"title":"Land"}\n',
            json.dumps({"hits": {"hits": [
                {"_id": "1", "_source": {"title": "Sea"}},
                {"_id": "b", "_source": {"title": "Land"}},
            ]}}),
        ],
    )  # fmt: skip
    def test_files_become_items_and_a_configuration(self, tmp_path: Path, content: str) -> None:
        (one,) = elasticsearch.read(
            write(tmp_path / "x.json", content), write(tmp_path / "m.json", MAPPING), None
        )
        assert list(one.items()) == [{"id": "1", "title": "Sea"}, {"id": "b", "title": "Land"}]
        keyword = {"conjunction": False}
        assert valid(one) == {
            "field_languages": {"title": "english"},
            "geo_fields": ["where"],
            "nested": ["variants"],
            "aggregations": {
                "genre": keyword,
                "author": keyword,
                "publisher.country": keyword,
                "variants.size": keyword,
            },
            "searchable_fields": ["title", "author"],
        }
        assert any("dense_vector" in note for note in one.notes)

    def test_what_is_no_hit_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is not a hit"):
            elasticsearch.read(write(tmp_path / "x.json", '{"title":"Sea"}'), None, None)

    def test_points_are_found_without_a_mapping(self, tmp_path: Path) -> None:
        """Elasticsearch's own client writes points so; nothing else has these two members."""
        sources: list[dict[str, Any]] = [
            {"where": {"lat": 48.2, "lon": 16.4}, "size": {"lat": 1, "lon": 2, "h": 3}},
            {"where": None, "size": {"lat": 1, "lon": 2}, "stops": [{"at": {"lat": 1, "lon": 2}}]},
            {"box": {"lat": 300, "lon": 2}, "_geo": {"lat": 1, "lng": 2}},
        ]
        lines = [json.dumps({"_id": str(i), "_source": one}) for i, one in enumerate(sources)]
        (one,) = elasticsearch.read(write(tmp_path / "x.json", "\n".join(lines)), None, None)

        items = list(one.items())
        assert valid(one) == {"geo_fields": ["_geo", "where", "stops.at"]}
        assert items[0]["where"] == {"lat": 48.2, "lng": 16.4}
        assert items[1]["stops"] == [{"at": {"lat": 1, "lng": 2}}]
        assert items[0]["size"] == sources[0]["size"]
        assert one.notes == [
            "mapping: none was given (--settings FILE)",
            "where, stops.at: taken for geo points, by their values",
        ]
        assert one.is_open

    @pytest.mark.parametrize(
        ("field", "noted", "is_searched"),
        [
            ({"type": "text", "copy_to": "all"}, "t: copy_to", True),
            ({"type": "keyword", "normalizer": "lowercase"}, "t: normalizer", False),
            ({"type": "keyword", "null_value": "none"}, "t: null_value", False),
            ({"type": "text", "search_analyzer": "whitespace"}, "t: search_analyzer", True),
            ({"type": "text", "similarity": "boolean"}, "t: similarity", True),
            ({"type": "text", "index": False}, "", False),
            (
                {"type": "text", "fields": {"en": {"type": "text", "analyzer": "english"}}},
                "t: has subfields with the analyzers english",
                True,
            ),
        ],
    )
    def test_an_option_of_a_field_is_taken_or_noted(
        self, tmp_path: Path, field: Any, noted: str, is_searched: bool
    ) -> None:
        mapping = {"mappings": {"properties": {"t": field}}}
        (one,) = elasticsearch.read(
            write(tmp_path / "x", ""), write(tmp_path / "m.json", mapping), None
        )
        assert ("t" in valid(one).get("searchable_fields", [])) is is_searched
        assert len(one.notes) == bool(noted)
        assert "".join(one.notes).startswith(noted)

    @pytest.mark.parametrize("named", ["all", ["all", "tags"]])
    def test_fields_that_others_are_copied_to_are_not_searched(
        self, tmp_path: Path, named: Any
    ) -> None:
        """The items lack them, and a configuration that names them would be warned of."""
        person = {"properties": {"name": {"type": "text", "copy_to": named}}}
        fields = {"title": {"type": "text"}, "all": {"type": "text"}, "tags": {"type": "keyword"}}
        mapping = {"mappings": {"properties": {"author": person, **fields}}}
        (one,) = elasticsearch.read(
            write(tmp_path / "x", ""), write(tmp_path / "m.json", mapping), None
        )
        assert valid(one)["searchable_fields"] == ["author.name", "title"]
        assert ("tags" in valid(one).get("aggregations", {})) is ("tags" not in named)

    def test_dynamic_strings_are_no_facets_until_the_items_say_so(self, tmp_path: Path) -> None:
        any_string = {
            "type": "text",
            "fields": {"keyword": {"type": "keyword", "ignore_above": 256}},
        }
        mapping = {"mappings": {"properties": {"text": any_string, "tag": {"type": "keyword"}}}}
        (one,) = elasticsearch.read(
            write(tmp_path / "x", ""), write(tmp_path / "m.json", mapping), None
        )

        assert valid(one) == {
            "aggregations": {"tag": {"conjunction": False}},
            "searchable_fields": ["text"],
        }
        assert one.is_open
        assert "text: mapped dynamically" in one.notes[0]

    @pytest.mark.parametrize(
        "mapping",
        [
            {"b1": {"mappings": {"_doc": {"properties": {"a": {"type": "keyword"}}}}}},
            {"properties": {"a": {"type": "keyword"}}},
            {
                "b1": {"mappings": {"properties": {"a": {"type": "keyword"}}}},
                "b2": {"mappings": {}},
            },
        ],
    )
    def test_other_forms_of_a_mapping_are_read(self, tmp_path: Path, mapping: Any) -> None:
        """With types, bare, and of an alias of two indexes."""
        (one,) = elasticsearch.read(
            write(tmp_path / "x", ""), write(tmp_path / "m.json", mapping), None
        )
        assert valid(one) == {"aggregations": {"a": {"conjunction": False}}}

    def test_a_page_of_a_search_is_not_taken_for_all(self, tmp_path: Path) -> None:
        hits = [{"_id": str(i), "_source": {}} for i in range(10)]
        page = {"hits": {"total": {"value": 25, "relation": "eq"}, "hits": hits}}
        with pytest.raises(SourceError, match="has 10 of at least 25 hits"):
            elasticsearch.read(write(tmp_path / "x.json", page), None, None)
        pages = "\n".join(json.dumps(page) for _ in range(3))
        (one,) = elasticsearch.read(write(tmp_path / "y.json", pages), None, None)
        assert len(list(one.items())) == 30


def test_a_total_that_is_a_lower_bound_is_not_reached(tmp_path: Path) -> None:
    """Elasticsearch counts up to 10,000 hits unless it is asked for more."""
    hits = [{"_id": str(i), "_source": {}} for i in range(10)]
    page = {"hits": {"total": {"value": 10, "relation": "gte"}, "hits": hits}}
    with pytest.raises(SourceError, match="has 10 of at least 11 hits"):
        elasticsearch.read(write(tmp_path / "x.json", page), None, None)


def test_embeddings_are_left_out(tmp_path: Path) -> None:
    mapping = {
        "mappings": {
            "properties": {
                "title": {"type": "text"},
                "vector": {"type": "dense_vector", "dims": 2, "similarity": "cosine"},
                "parts": {"type": "nested", "properties": {"v": {"type": "knn_vector"}}},
                "tokens": {"type": "sparse_vector"},
            }
        }
    }
    sources = [
        {"title": "Sea", "vector": [0.1, 0.2], "parts": [{"v": [1, 2], "n": 1}, {"n": 2}]},
        {"title": "Land", "parts": [{"n": 3}], "tokens": {"land": 0.5}},
        {"title": "Sky", "parts": {"n": 4}},
    ]
    lines = [json.dumps({"_id": str(i), "_source": one}) for i, one in enumerate(sources)]
    (one,) = elasticsearch.read(
        write(tmp_path / "x.json", "\n".join(lines)), write(tmp_path / "m.json", mapping), None
    )

    assert list(one.items()) == [
        {"id": "0", "title": "Sea", "parts": [{"n": 1}, {"n": 2}]},
        {"id": "1", "title": "Land", "parts": [{"n": 3}]},
        {"id": "2", "title": "Sky", "parts": {"n": 4}},
    ]
    assert one.remarks() == ["2 items had embeddings, which are left out"]
    assert one.notes == [
        f"{path}: the type {kind!r} has no equivalent here; its values are left out"
        for path, kind in (
            ("vector", "dense_vector"),
            ("parts.v", "knn_vector"),
            ("tokens", "sparse_vector"),
        )
    ]


def test_settings_without_a_mapping_are_said_and_points_found(tmp_path: Path) -> None:
    """What elasticdump writes with --type=settings, in the place of a mapping."""
    settings = {"books": {"settings": {"index": {"number_of_shards": "1"}}}}
    hit = {"_id": "1", "_source": {"at": {"lat": 48.2, "lon": 16.4}}}
    (one,) = elasticsearch.read(
        write(tmp_path / "x.json", hit), write(tmp_path / "s.json", settings), None
    )
    assert one.is_open
    assert valid(one) == {"geo_fields": ["at"]}
    assert one.notes[0] == "mapping: it names no fields"


@pytest.mark.parametrize(
    "content",
    [
        '[\n{"_index":"b","_type":"s","_id":"4","_score":0,"_source":{"key":"a"}}\n]\n',
        '{"_index":"b","_id":"4","_score":1,"_routing":"x","_ignored":["t"],"_source":{"key":"a"}}',
    ],
)
def test_files_of_elasticdump_are_read(tmp_path: Path, content: str) -> None:
    """An array before its version 1, lines since."""
    (one,) = elasticsearch.read(write(tmp_path / "x.json", content), None, None)
    assert list(one.items()) == [{"id": "4", "key": "a"}]


def test_plain_items_are_for_another_command(tmp_path: Path) -> None:
    """As elasticdump writes them with --sourceOnly."""
    with pytest.raises(SourceError, match="plain items are for facetd load"):
        elasticsearch.read(write(tmp_path / "x.json", {"id": 31, "host": "x"}), None, None)


def test_hits_of_failed_shards_are_not_missed_silently(engines: str) -> None:
    with pytest.raises(SourceError, match="1 of 5 shards failed, so hits are missing"):
        elasticsearch.read(f"{engines}/degraded", None, None)
