"""Exports of other engines become items and a valid configuration; the rest is listed."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import socket
import ssl
import tarfile
import threading
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from common.configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from coordinator.cli.commands import main
from coordinator.cli.importers import algolia, elasticsearch, meilisearch, typesense
from coordinator.cli.importers.imported import ImportedIndex, read_items
from coordinator.cli.sources import formats
from coordinator.cli.sources.fetching import open_url
from coordinator.cli.sources.source import ReadOptions, SourceError
from coordinator.clients.http_client import Client
from tests.service import Service


def valid(one: ImportedIndex) -> dict[str, Any]:
    """Return the configuration; it must be one that we take without a warning."""
    _, warnings = parse_configuration(one.configuration, DEFAULT_LIMITS)
    assert warnings == []
    return one.configuration


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def dump(path: Path, indexes: dict[str, tuple[Any, Any, str]]) -> str:
    """Write a dump of Meilisearch: metadata, settings and documents of each index."""
    with tarfile.open(path, "w:gz") as archive:

        def add(name: str, content: str) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))

        add("./metadata.json", json.dumps({"dumpVersion": "V6"}))
        for uid, (metadata, settings, documents) in indexes.items():
            add(f"./indexes/{uid}/metadata.json", json.dumps(metadata))
            add(f"./indexes/{uid}/settings.json", json.dumps(settings))
            add(f"./indexes/{uid}/documents.jsonl", documents)
    return str(path)


MEILISEARCH = {
    "displayedAttributes": ["*"],
    "searchableAttributes": ["title", "overview"],
    "filterableAttributes": ["genres", "_geo", {"attributePatterns": ["lang", "x_*"]}],
    "sortableAttributes": ["year"],
    "rankingRules": ["words", "typo", "proximity", "attribute", "sort", "exactness", "year:desc"],
    "stopWords": ["the"],
    "synonyms": {"tv": ["television"]},
    "distinctAttribute": "sku",
    "typoTolerance": {
        "enabled": False,
        "disableOnWords": ["abc"],
        "disableOnAttributes": ["isbn"],
        "minWordSizeForTypos": {"oneTypo": 4, "twoTypos": 9},
    },
    "faceting": {"maxValuesPerFacet": 20},
    "embedders": {"default": {}},
}


class TestMeilisearch:
    def test_a_dump(self, tmp_path: Path) -> None:
        documents = '{"isbn":"a","title":"Sea"}\n{"isbn":7,"title":"Land"}\n'
        path = dump(
            tmp_path / "x.dump",
            {"books": ({"uid": "books", "primaryKey": "isbn"}, MEILISEARCH, documents),
             "empty": ({"uid": "empty", "primaryKey": None}, {}, "")},
        )  # fmt: skip
        books, empty = meilisearch.read(path)
        assert (books.name, empty.name) == ("books", "empty")
        assert list(books.items()) == [
            {"id": "a", "isbn": "a", "title": "Sea"},
            {"id": 7, "isbn": 7, "title": "Land"},
        ]
        assert list(empty.items()) == []
        facet = {"conjunction": False, "size": 20}
        assert valid(books) == {
            "aggregations": {"genres": facet, "lang": facet},
            "searchable_fields": ["title^2", "overview"],
            "sorting_fields": ["year"],
            "stop_words": ["the"],
            "synonyms": {"tv": ["television"]},
            "typo": 0,
            "typo_lengths": [4, 9],
            "field_typo_lengths": {"isbn": "none"},
        }
        text = "\n".join(books.notes)
        for name in (
            "rankingRules",
            "year:desc",
            "distinct=sku",
            "x_*",
            "disableOnWords",
            "embedders",
        ):
            assert name in text

    def test_what_a_current_version_adds(self, tmp_path: Path) -> None:
        """Languages, orders of facets, embeddings; and members whose path begins with a dot."""
        settings = {
            "filterableAttributes": ["genres", "lang"],
            "faceting": {"sortFacetValuesBy": {"*": "alpha", "genres": "alpha", "lang": "count"}},
            "localizedAttributes": [
                {"attributePatterns": ["title"], "locales": ["deu"]},
                {"attributePatterns": ["x_*"], "locales": ["eng"]},
                {"attributePatterns": ["title_ja"], "locales": ["jpn"]},
            ],
            "typoTolerance": {"disableOnNumbers": True},
            "searchCutoffMs": 150,
            "proximityPrecision": "byWord",
            "dictionary": ["J. R. R."],
            "facetSearch": True,
        }
        documents = (
            '{"id":1,"_vectors":{"default":{"embeddings":[[0.1]],"regenerate":false}}}\n{"id":2}\n'
        )
        path = dump(tmp_path / "x.dump", {"books": ({"primaryKey": "id"}, settings, documents)})
        (one,) = meilisearch.read(path)

        assert list(one.items()) == [{"id": 1}, {"id": 2}]
        assert one.remarks() == ["1 items had embeddings, which are left out"]
        assert valid(one) == {
            "aggregations": {
                "genres": {"conjunction": False, "sort": "term"},
                "lang": {"conjunction": False},
            },
            "field_languages": {"title": "german"},
        }
        noted = [note.partition(":")[0] for note in one.notes]
        assert noted == [
            "localizedAttributes",
            "localizedAttributes",
            "typoTolerance.disableOnNumbers",
            "dictionary",
            "searchCutoffMs",
        ]

    def test_a_dump_that_is_cut_off(self, tmp_path: Path) -> None:
        documents = "".join(f'{{"id":{i},"text":"{i * 7919}"}}\n' for i in range(5_000))
        path = Path(dump(tmp_path / "x.dump", {"books": ({}, {}, documents)}))
        path.write_bytes(path.read_bytes()[:-2_000])
        with pytest.raises(SourceError, match="is cut off or damaged"):
            meilisearch.read(str(path))
        wrong = dump(tmp_path / "y.dump", {"books": ({}, {}, '{"id":1}\n{"id"\n')})
        with pytest.raises(SourceError, match=r"documents\.jsonl, line 2: "):
            list(meilisearch.read(wrong)[0].items())

    def test_what_is_no_dump(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is no Meilisearch dump") as raised:
            meilisearch.read(write(tmp_path / "a", "no"))
        assert "\n" not in str(raised.value)
        with pytest.raises(SourceError, match=r"no indexes/…/documents\.jsonl"):
            meilisearch.read(dump(tmp_path / "b", {}))

    def test_a_dump_of_an_older_form_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "old.dump"
        with tarfile.open(path, "w:gz") as archive:
            for name in ("meta.json", "documents.jsonl"):
                member = tarfile.TarInfo(f"indexes/22c269d8/{name}")
                member.size = 2
                archive.addfile(member, io.BytesIO(b"{}"))
        with pytest.raises(SourceError, match=r"without its metadata\.json, as dumps before V6"):
            meilisearch.read(str(path))


SCHEMA = {
    "name": "books",
    "fields": [
        {"name": "title", "type": "string", "sort": True},
        {"name": "tags", "type": "string[]", "facet": True},
        {"name": "year", "type": "int32", "facet": True},
        {"name": "where", "type": "geopoint"},
        {"name": "code", "type": "string", "infix": True, "index": False},
    ],
    "default_sorting_field": "year",
    "token_separators": ["-"],
}


class TestTypesense:
    def test_an_export_and_its_schema(self, tmp_path: Path) -> None:
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


MAPPING = {
    "books": {
        "mappings": {
            "properties": {
                "title": {"type": "text", "analyzer": "english"},
                "genre": {"type": "keyword"},
                "author": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
                "year": {"type": "integer"},
                "where": {"type": "geo_point"},
                "vector": {"type": "dense_vector"},
                "publisher": {"properties": {"country": {"type": "keyword"}}},
                "variants": {"type": "nested", "properties": {"size": {"type": "keyword"}}},
            }
        }
    }
}


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
    def test_files(self, tmp_path: Path, content: str) -> None:
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

    def test_what_is_no_hit(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is no hit"):
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
    def test_other_forms_of_a_mapping(self, tmp_path: Path, mapping: Any) -> None:
        """With types, bare, and of an alias of two indexes."""
        (one,) = elasticsearch.read(
            write(tmp_path / "x", ""), write(tmp_path / "m.json", mapping), None
        )
        assert valid(one) == {"aggregations": {"a": {"conjunction": False}}}

    def test_a_page_of_a_search_is_not_taken_for_all(self, tmp_path: Path) -> None:
        hits = [{"_id": str(i), "_source": {}} for i in range(10)]
        page = {"hits": {"total": {"value": 25, "relation": "eq"}, "hits": hits}}
        with pytest.raises(SourceError, match="has 10 of 25 hits"):
            elasticsearch.read(write(tmp_path / "x.json", page), None, None)
        pages = "\n".join(json.dumps(page) for _ in range(3))
        (one,) = elasticsearch.read(write(tmp_path / "y.json", pages), None, None)
        assert len(list(one.items())) == 30


ALGOLIA = {
    "searchableAttributes": ["title,alt", "unordered(text)"],
    "attributesForFaceting": ["searchable(brand)", "filterOnly(secret)", "price"],
    "maxValuesPerFacet": 50,
    "customRanking": ["desc(sales)", "asc(name)"],
    "ranking": ["typo", "geo", "words", "filters", "proximity", "attribute", "exact", "custom"],
    "replicas": ["by_price"],
    "queryLanguages": ["en"],
    "ignorePlurals": True,
    "removeStopWords": True,
    "typoTolerance": False,
    "minWordSizefor1Typo": 1,
    "disableTypoToleranceOnAttributes": ["brand"],
    "enablePersonalization": True,
}


class TestAlgolia:
    def test_records_and_settings(self, tmp_path: Path) -> None:
        (one,) = algolia.read(
            write(tmp_path / "r.json", [{"objectID": "a", "brand": "x"}, {"objectID": "2"}]),
            write(tmp_path / "s.json", ALGOLIA),
        )
        assert list(one.items()) == [{"id": "a", "brand": "x"}, {"id": "2"}]
        facet = {"conjunction": False, "size": 50}
        assert valid(one) == {
            "geo_fields": ["_geoloc", "_geo"],
            "algolia": {"maxValuesPerFacet": 50},
            "aggregations": {"brand": facet, "price": facet},
            "searchable_fields": ["title^3", "alt^2", "text"],
            "language": "en",
            "stop_words": "en",
            "typo": 0,
            "field_typo_lengths": {"brand": "none"},
        }
        text = "\n".join(one.notes)
        for name in (
            "minWordSizefor1Typo",
            "sort=sales:desc,name:asc",
            "by_price",
            "enablePersonalization",
        ):
            assert name in text

    def test_a_record_without_an_id(self, tmp_path: Path) -> None:
        (one,) = algolia.read(write(tmp_path / "r.json", [{"a": 1}]), None)
        with pytest.raises(SourceError, match="no 'objectID'"):
            list(one.items())

    def test_an_export_of_the_configuration(self, tmp_path: Path) -> None:
        """As Algolia's command line writes it: settings, rules and synonyms in one file."""
        hiding = {"consequence": {"hide": [{"objectID": "1"}]}}
        document = {
            "settings": {"hitsPerPage": 7, "attributeForDistinct": "brand", "distinct": True},
            "rules": [
                {"objectID": "good", **hiding},
                {"objectID": "bad", **hiding, "conditions": [{"context": "mobile"}]},
            ],
            "synonyms": [
                {"objectID": "s", "type": "synonym", "synonyms": ["tv", "television"]},
                {"objectID": "p", "type": "placeholder", "placeholder": "n", "replacements": ["1"]},
            ],
        }

        (one,) = algolia.read(write(tmp_path / "r.json", []), write(tmp_path / "s.json", document))

        configuration = valid(one)
        assert configuration["rules"] == [{"name": "good", "hide": ["1"]}]
        assert configuration["synonyms"] == [["tv", "television"]]
        assert configuration["algolia"]["hitsPerPage"] == 7
        text = "\n".join(one.notes)
        assert "rules bad.conditions[0].context cannot be honoured" in text
        assert "synonyms p.type placeholder cannot be honoured" in text

    def test_an_own_id_is_kept(self, tmp_path: Path) -> None:
        records = [{"objectID": "a", "id": 7}, {"objectID": "8", "id": 8}]
        (one,) = algolia.read(write(tmp_path / "r.json", records), None)

        assert list(one.items()) == [{"id": "a", "own_id": 7}, {"id": "8"}]
        assert one.remarks() == ["1 items had another value in a field id: it is own_id now"]


POINT = {"lat": 48.2, "lng": 16.4}


class TestPoints:
    """Points in every form that an engine takes are points here; else no search finds them."""

    @pytest.mark.parametrize(
        "value",
        [
            POINT,
            {"lat": 48.2, "lon": 16.4},
            {"lat": "48.2", "lon": "16.4"},
            "48.2,16.4",
            "48.2, 16.4",
            "POINT (16.4 48.2)",
            [16.4, 48.2],
            {"type": "Point", "coordinates": [16.4, 48.2]},
        ],
    )
    def test_elasticsearch(self, tmp_path: Path, value: Any) -> None:
        source = {"where": value, "many": [value, value], "in": [{"p": value}]}
        points = {"type": "geo_point"}
        mapping = {"mappings": {"properties": {"where": points, "many": points,
                                               "in": {"properties": {"p": points}}}}}  # fmt: skip
        (one,) = elasticsearch.read(
            write(tmp_path / "x.json", {"_id": "1", "_source": source}),
            write(tmp_path / "m.json", mapping),
            None,
        )

        assert list(one.items()) == [
            {"id": "1", "where": POINT, "many": [POINT, POINT], "in": [{"p": POINT}]}
        ]
        assert one.remarks() == []

    def test_typesense(self, tmp_path: Path) -> None:
        fields = [{"name": "where", "type": "geopoint"}, {"name": "many", "type": "geopoint[]"}]
        document = {"id": "1", "where": [48.2, 16.4], "many": [[48.2, 16.4]]}
        (one,) = typesense.read(
            write(tmp_path / "x.jsonl", document),
            write(tmp_path / "s.json", {"name": "a", "fields": fields}),
            None,
        )

        assert list(one.items()) == [{"id": "1", "where": POINT, "many": [POINT]}]

    def test_meilisearch_and_algolia(self, tmp_path: Path) -> None:
        documents = '{"id":1,"_geo":{"lat":"48.2","lng":"16.4"}}\n{"id":2,"_geo":null}\n'
        (one,) = meilisearch.read(dump(tmp_path / "x", {"a": ({}, {}, documents)}))
        record = {"objectID": "1", "_geoloc": [{"lat": 48.2, "lng": 16.4}]}
        (other,) = algolia.read(write(tmp_path / "r.json", [record]), None)

        assert [item["_geo"] for item in one.items()] == [POINT, None]
        assert list(other.items()) == [{"id": "1", "_geoloc": [POINT]}]
        assert other.configuration["geo_fields"][0] == "_geoloc"

    def test_what_is_no_point_is_counted(self, tmp_path: Path) -> None:
        (one,) = elasticsearch.read(
            write(tmp_path / "x.json", {"_id": "1", "_source": {"where": "u2edk"}}),
            write(tmp_path / "m.json", MAPPING),
            None,
        )

        assert list(one.items()) == [{"id": "1", "where": "u2edk"}]
        assert "1 values in fields of points are none" in one.remarks()[0]


def test_an_answer_on_many_lines_is_read(tmp_path: Path) -> None:
    document = {"took": 1, "hits": {"hits": [{"_id": "1", "_source": {"a": 1}}]}}
    path = write(tmp_path / "x.json", json.dumps(document, indent=2))
    (one,) = elasticsearch.read(path, None, None)

    assert list(one.items()) == [{"id": "1", "a": 1}]
    with pytest.raises(SourceError, match="neither one JSON object nor one on each line"):
        elasticsearch.read(write(tmp_path / "y.json", "{\n  oh\n"), None, None)


def test_typesense_synonyms_and_languages(tmp_path: Path) -> None:
    schema = {
        "name": "a",
        "fields": [{"name": "t", "type": "string", "locale": "de"}],
        "synonyms": [
            {"id": "1", "synonyms": ["sofa", "couch"]},
            {"id": "2", "root": "ring", "synonyms": ["jewel"]},
        ],
    }
    (one,) = typesense.read(write(tmp_path / "x", ""), write(tmp_path / "s.json", schema), None)

    configuration = valid(one)
    assert configuration["synonyms"] == [["sofa", "couch"], {"from": "ring", "to": ["jewel"]}]
    assert configuration["field_languages"] == {"t": "german"}


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
            },
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
        }
    ]
    text = "\n".join(one.notes)
    assert "overrides.week.remove_matched_tokens: has no equivalent" in text
    assert "overrides.tags.filter_by: has no equivalent" in text
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


FILMS: dict[str, Any] = {
    "name": "films",
    "fields": [{"name": "title", "type": "string"}],
    "synonym_sets": ["furniture", "a/b"],
    "curation_sets": ["shop"],
}
SETS: dict[str, Any] = {
    "/synonym_sets/furniture": {"items": [{"id": "1", "synonyms": ["sofa", "couch"]}]},
    "/curation_sets/shop": {
        "name": "shop",
        "items": [
            {"id": "tv", "rule": {"query": "tv", "match": "exact"}, "excludes": [{"id": "9"}]}
        ],
    },
}


class _Engines(http.server.BaseHTTPRequestHandler):
    """As much of Typesense and Elasticsearch as an import asks for."""

    def do_GET(self) -> None:
        assert self.headers["X-TYPESENSE-API-KEY"] == "k" or "collections" not in self.path
        if self.path == "/collections/books":
            self._answer(json.dumps(SCHEMA))
        elif self.path == "/collections/films":
            self._answer(json.dumps(FILMS))
        elif self.path in SETS:
            self._answer(json.dumps(SETS[self.path]))
        elif self.path == "/synonym_sets/a%2Fb":
            self.send_error(404)
        elif self.path == "/collections/films/documents/export":
            self._answer('{"id":"1","title":"t"}\n')
        elif self.path == "/collections/books/documents/export":
            self._answer("".join(f'{{"id":"{i}","title":"t{i}"}}\n' for i in range(2500)))
        elif self.path == "/half.ndjson":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"id":"1"}\n')
            self.close_connection = True
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header(
                "Location", f"http://localhost:{self.headers['Host'].partition(':')[2]}/seen"
            )
            self.end_headers()
        elif self.path == "/seen":
            self._answer(json.dumps({"seen": self.headers["Authorization"]}))
        else:
            self._answer(json.dumps(MAPPING))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "secured" in self.path and self.headers["Authorization"] != "Basic ZWxhc3RpYzpww6Q6":
            self.send_error(401)
            return
        done = int(body.get("scroll_id", 0))
        hits = [{"_id": str(i), "_source": {"n": i}} for i in range(done, min(done + 1000, 2500))]
        failed = 1 if "degraded" in self.path and done == 0 else 0
        shards = {"total": 5, "successful": 5 - failed, "failed": failed}
        answer = {"_scroll_id": str(done + 1000), "_shards": shards, "hits": {"hits": hits}}
        self._answer(json.dumps(answer))

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer("{}")

    def _answer(self, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def engines() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Engines)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("import") / "data", 2) as service:
        yield service


def test_indexes_are_made_once_and_none_is_left_by_a_failure(
    service: Service, engines: str, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{service.port}"
    client = Client(url)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["import", *arguments, "--url", url])

    done = run("typesense", f"{engines}/collections/books", "--source-key", "k")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["created"] == 2500
    assert "what differs" in done.stderr
    assert client.request("GET", "/books/configuration")["aggregations"]["year"]
    again = run("typesense", f"{engines}/collections/books", "--source-key", "k")
    assert again.exit_code == 1
    assert "there is an index 'books' already" in again.stderr
    done = run("elasticsearch", f"{engines}/books", "--index", "elastic")
    assert json.loads(done.stdout)["created"] == 2500
    assert client.request("GET", "/elastic/items/2499") == {"id": "2499", "n": 2499}

    records = write(tmp_path / "r.json", [{"objectID": "a"}, {"b": 1}])
    failed = run("algolia", records, "--index", "broken")
    assert failed.exit_code == 1
    assert "no 'objectID'" in failed.stderr
    names = [one["name"] for one in client.request("GET", "/_indexes")["indexes"]]
    assert names == ["books", "elastic"]

    documents = '{"id":1}\n'
    path = dump(tmp_path / "x.dump", {name: ({}, {}, documents) for name in ("m1", "m2")})
    assert run("meilisearch-dump", path, "--index", "m3").exit_code == 1
    assert run("meilisearch-dump", path, "--dry-run").stdout == ""
    assert [
        json.loads(line)["index"] for line in run("meilisearch-dump", path).stdout.splitlines()
    ] == ["m1", "m2"]


def test_a_login_in_the_address(engines: str) -> None:
    url = engines.replace("//", "//elastic:p%C3%A4%3A@") + "/secured"
    (one,) = elasticsearch.read(url, None, None)
    assert len(list(one.items())) == 2500
    with pytest.raises(SourceError, match="answers 401 Unauthorized"):
        elasticsearch.read(f"{engines}/secured", None, "elastic:wrong")
    with pytest.raises(SourceError, match="cannot fetch"):
        elasticsearch.read("http://a:b@127.0.0.1:x/books", None, None)


def test_hits_of_failed_shards_are_not_missed_silently(engines: str) -> None:
    with pytest.raises(SourceError, match="1 of 5 shards failed, so hits are missing"):
        elasticsearch.read(f"{engines}/degraded", None, None)


def test_a_response_that_breaks_off_is_not_taken_for_a_whole_one(engines: str) -> None:
    with pytest.raises(SourceError, match="broke off 989 bytes before its end"):
        list(read_items(f"{engines}/half.ndjson"))
    with pytest.raises(SourceError, match="broke off 989 bytes before its end"):
        list(formats.read(f"{engines}/half.ndjson", ReadOptions()).pieces())


def test_a_login_is_not_sent_to_another_host(engines: str) -> None:
    with open_url(f"{engines}/moved", {"Authorization": "Basic x"}) as stream:
        assert json.load(stream) == {"seen": None}


def test_a_port_that_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x00\x01hello\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SourceError, match="does not speak this protocol"):
            open_url(f"http://127.0.0.1:{server.getsockname()[1]}/x")
        thread.join()


def test_a_certificate_of_an_unknown_authority_says_what_helps() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    with (
        patch("urllib.request.urlopen", side_effect=urllib.error.URLError(error)),
        pytest.raises(SourceError, match="SSL_CERT_FILE names a file"),
    ):
        open_url("https://127.0.0.1/x")


def test_facets_are_proposed_where_the_source_names_none(service: Service, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{service.port}"
    records = [
        {"objectID": str(i), "brand": "ab"[i % 2], "at": {"lat": 1.5, "lon": i}} for i in range(30)
    ]
    path = write(tmp_path / "r.json", records)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["import", "algolia", path, *arguments, "--url", url])

    dry = run("--index", "goods", "--dry-run")
    assert dry.exit_code == 0
    assert "its first item {" in dry.stderr
    done = run("--index", "goods", "--configure", "auto")
    assert done.exit_code == 0, done.output
    configuration = Client(url).request("GET", "/goods/configuration")
    assert configuration["aggregations"]["brand"]["conjunction"] is False
    assert configuration["geo_fields"] == ["at", "_geoloc", "_geo"]
    near = Client(url).request("GET", "/goods/search?filter=_geoRadius(1.5,3,1000)&fields=at")
    assert near["pagination"]["total"] == 1
    cut = gzip.compress(json.dumps(records).encode())[:-20]
    (tmp_path / "cut.json.gz").write_bytes(cut)
    failed = CliRunner().invoke(
        main, ["import", "algolia", str(tmp_path / "cut.json.gz"), "--url", url]
    )
    assert (failed.exit_code, "is cut off or damaged" in failed.stderr) == (1, True)
