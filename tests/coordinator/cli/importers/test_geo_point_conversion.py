"""Points of other engines become geo points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.importers import algolia_export, elasticsearch, meilisearch_dump, typesense
from tests.coordinator.cli.importers.files import MAPPING, dump, write

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
    def test_points_of_elasticsearch_become_geo_points(self, tmp_path: Path, value: Any) -> None:
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

    def test_points_of_typesense_become_geo_points(self, tmp_path: Path) -> None:
        fields = [{"name": "where", "type": "geopoint"}, {"name": "many", "type": "geopoint[]"}]
        document = {"id": "1", "where": [48.2, 16.4], "many": [[48.2, 16.4]]}
        (one,) = typesense.read(
            write(tmp_path / "x.jsonl", document),
            write(tmp_path / "s.json", {"name": "a", "fields": fields}),
            None,
        )

        assert list(one.items()) == [{"id": "1", "where": POINT, "many": [POINT]}]

    def test_points_of_meilisearch_and_algolia_become_geo_points(self, tmp_path: Path) -> None:
        documents = '{"id":1,"_geo":{"lat":"48.2","lng":"16.4"}}\n{"id":2,"_geo":null}\n'
        (one,) = meilisearch_dump.read(dump(tmp_path / "x", {"a": ({}, {}, documents)}))
        record = {"objectID": "1", "_geoloc": [{"lat": 48.2, "lng": 16.4}]}
        (other,) = algolia_export.read(write(tmp_path / "r.json", [record]), None)

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
        assert "1 value in a field of points is none: it is kept" in one.remarks()[0]
