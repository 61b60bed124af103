"""Typesense's exports, synonyms, overrides and presets."""

from __future__ import annotations

from pathlib import Path

from coordinator.cli.importers import typesense
from tests.coordinator.cli.importers.files import FILMS, SCHEMA, valid, write


class TestTypesense:
    def test_an_export_and_its_schema_become_items_and_a_configuration(
        self, tmp_path: Path
    ) -> None:
        lines = '{"id":"1","title":"Sea"}\n{"id":"2","title":"Land"}\n'
        (one,) = typesense.read(
            write(tmp_path / "x.jsonl", lines), write(tmp_path / "s.json", SCHEMA), None
        )
        assert [item["id"] for item in one.items()] == ["1", "2"]
        assert valid(one) == {
            "geo_fields": ["where"],
            "aggregations": {"tags": {"conjunction": True}, "year": {"conjunction": False}},
            "searchable_fields": ["title", "tags"],
            "sorting_fields": ["title"],
            "infix": ["code"],
        }
        text = "\n".join(one.notes)
        for name in ("sort=year:desc", "token_separators", "query_by"):
            assert name in text


def test_typesense_synonyms_and_languages_are_read(tmp_path: Path) -> None:
    schema = {
        "name": "a",
        "fields": [
            {"name": "t", "type": "string", "locale": "de", "stem": True},
            {"name": "u", "type": "string", "locale": "", "stem": True},
            {"name": "v", "type": "string", "locale": ""},
        ],
        "synonyms": [
            {"id": "1", "synonyms": ["sofa", "couch"]},
            {"id": "2", "root": "ring", "synonyms": ["jewel"]},
        ],
    }
    (one,) = typesense.read(write(tmp_path / "x", ""), write(tmp_path / "s.json", schema), None)

    configuration = valid(one)
    assert configuration["synonyms"] == [["sofa", "couch"], {"from": "ring", "to": ["jewel"]}]
    assert configuration["field_languages"] == {"t": "german", "u": "english"}


def test_typesense_overrides_are_rules(tmp_path: Path) -> None:
    schema = {
        "name": "a",
        "fields": [{"name": "t", "type": "string"}],
        "overrides": [
            {
                "id": "week",
                "rule": {"query": "tv", "match": "contains"},
                "includes": [{"id": "7", "position": 1}],
                "excludes": [{"id": "9"}],
                "effective_from_ts": 1_763_596_800,
                "remove_matched_tokens": True,
                "metadata": {"banner": "tv.webp"},
            },
            {
                "id": "brands",
                "rule": {"query": "cheap {brand}", "match": "contains"},
                "includes": [{"id": "7", "position": 1}],
            },
            {"id": "nike", "rule": {"filter_by": "brand:=Nike"}, "sort_by": "sold:desc"},
            {"id": "tags", "rule": {"tags": ["x"]}, "filter_by": "a:=1"},
        ],
    }
    (one,) = typesense.read(write(tmp_path / "x", ""), write(tmp_path / "s.json", schema), None)

    assert valid(one)["rules"] == [
        {
            "name": "week",
            "when": {"query": {"contains": "tv"}, "from": "2025-11-20T00:00:00+00:00"},
            "pin": [{"id": "7", "position": 1}],
            "hide": ["9"],
            "data": {"banner": "tv.webp"},
        }
    ]
    text = "\n".join(one.notes)
    assert "overrides.week.remove_matched_tokens: has no equivalent" in text
    assert "overrides.brands: left out, its query stands for any value of a field" in text
    assert "overrides.nike.rule.filter_by: is the rule's when.filters here" in text
    assert "overrides.nike.sort_by: is the sort of the request here" in text
    assert "overrides.tags.filter_by: is the rule's filter here" in text
    assert "overrides.tags: left out, its condition is not only a query" in text


def test_sets_of_typesense_30_are_synonyms_and_rules(engines: str, tmp_path: Path) -> None:
    (one,) = typesense.read(f"{engines}/collections/films", None, "k")

    configuration = valid(one)
    assert configuration["synonyms"] == [["sofa", "couch"]]
    assert configuration["rules"] == [
        {"name": "tv", "when": {"query": {"is": "tv"}}, "hide": ["9"]},
    ]
    assert [note for note in one.notes if "sets" in note] == [
        "synonym_sets: not given with their items; see synonyms here",
    ]
    schema = write(tmp_path / "s.json", FILMS)
    (from_files,) = typesense.read(write(tmp_path / "x", ""), schema, None)
    assert "rules" not in from_files.configuration
    assert [note for note in from_files.notes if "sets" in note] == [
        "synonym_sets: not given with their items; see synonyms here",
        "curation_sets: not given with their items; see rules here",
    ]


def test_a_schema_as_the_service_gives_it_is_read(tmp_path: Path) -> None:
    """Every member of its answer, nested and flattened objects, fields by pattern, embeddings."""
    usual = {
        **dict.fromkeys(("facet", "infix", "optional", "sort", "stem"), False),
        "index": True,
        "locale": "",
        "stem_dictionary": "",
        "store": True,
    }
    vector = {"hnsw_params": {"M": 16, "ef_construction": 200}, "num_dim": 2, "vec_dist": "cosine"}
    schema = {
        "name": "t",
        "created_at": 1732695692,
        "default_sorting_field": "",
        "num_documents": 2,
        "enable_nested_fields": True,
        "symbols_to_index": [],
        "token_separators": [],
        "synonym_sets": [],
        "curation_sets": [],
        "metadata": {},
        "fields": [
            {**usual, "name": "embedding", "type": "float[]", **vector},
            {**usual, "name": "name", "type": "string", "sort": True},
            {**usual, "name": "address", "type": "object"},
            {**usual, "name": "address.city", "type": "string", "facet": True},
            {**usual, "name": ".*", "type": "auto"},
        ],
    }
    lines = (
        '{"id":"1","name":"A","address":{"city":"W"},"embedding":[0.1,0.2]}\n'
        '{"id":"2","name":"B","address.city":"G"}\n'
    )
    (one,) = typesense.read(write(tmp_path / "x", lines), write(tmp_path / "s.json", schema), None)

    assert list(one.items()) == [
        {"id": "1", "name": "A", "address": {"city": "W"}},
        {"id": "2", "name": "B", "address.city": "G"},
    ]
    assert valid(one) == {
        "aggregations": {"address.city": {"conjunction": False}},
        "searchable_fields": ["name", "address.city"],
        "sorting_fields": ["name"],
    }
    assert one.remarks() == ["1 item had embeddings, which are left out"]
    assert [note.partition(":")[0] for note in one.notes] == [
        "fields.embedding",
        "fields..*",
        "query_by and query_by_weights",
    ]
