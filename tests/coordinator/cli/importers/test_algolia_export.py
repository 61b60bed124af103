"""Algolia's exports: items, settings, rules, synonyms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.importers import algolia_export
from coordinator.cli.sources.source import SourceError
from tests.coordinator.cli.importers.files import valid, write

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
    def test_records_and_settings_become_items_and_a_configuration(self, tmp_path: Path) -> None:
        (one,) = algolia_export.read(
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

    @pytest.mark.parametrize(
        ("settings", "configuration", "noted"),
        [
            ({"removeStopWords": ["fr"], "queryLanguages": ["en"]}, {"stop_words": "fr"}, ""),
            ({"ignorePlurals": ["de"]}, {"language": "de"}, ""),
            ({"removeStopWords": True}, {}, "removeStopWords of every language"),
            ({"removeStopWords": True, "queryLanguages": ["en", "fr"]}, {}, "removeStopWords en"),
            ({"ignorePlurals": True}, {}, "ignorePlurals of every language"),
            ({"ignorePlurals": True, "queryLanguages": ["ja"]}, {}, "ignorePlurals ja"),
            ({"ignorePlurals": False, "removeStopWords": "false"}, {}, ""),
            ({"typoTolerance": "min"}, {}, "typoTolerance min"),
            ({"typoTolerance": "strict"}, {}, "typoTolerance strict"),
            ({"exactOnSingleWordQuery": "word"}, {}, "exactOnSingleWordQuery"),
            ({"exactOnSingleWordQuery": "attribute"}, {}, ""),
            ({"alternativesAsExact": []}, {}, "alternativesAsExact"),
        ],
    )
    def test_a_setting_is_taken_or_noted(
        self, tmp_path: Path, settings: Any, configuration: Any, noted: str
    ) -> None:
        (one,) = algolia_export.read(
            write(tmp_path / "r.json", []),
            write(tmp_path / "s.json", {**settings, "hitsPerPage": 7}),
        )
        read = valid(one)
        members = ("language", "stop_words", "typo")
        assert {name: read[name] for name in members if name in read} == configuration
        assert noted in "\n".join(one.notes)
        assert bool(one.notes) is bool(noted or "queryLanguages" in settings)

    def test_a_record_without_an_id_is_refused(self, tmp_path: Path) -> None:
        (one,) = algolia_export.read(write(tmp_path / "r.json", [{"a": 1}]), None)
        with pytest.raises(SourceError, match="no 'objectID'"):
            list(one.items())

    def test_an_export_of_the_configuration_is_read(self, tmp_path: Path) -> None:
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

        (one,) = algolia_export.read(
            write(tmp_path / "r.json", []), write(tmp_path / "s.json", document)
        )

        configuration = valid(one)
        assert configuration["rules"] == [{"name": "good", "hide": ["1"]}]
        assert configuration["synonyms"] == [["tv", "television"]]
        assert configuration["algolia"]["hitsPerPage"] == 7
        text = "\n".join(one.notes)
        assert "rules bad.conditions[0].context cannot be honoured" in text
        assert "synonyms p.type placeholder cannot be honoured" in text

    def test_an_own_id_is_kept(self, tmp_path: Path) -> None:
        records = [{"objectID": "a", "id": 7}, {"objectID": "8", "id": 8}]
        (one,) = algolia_export.read(write(tmp_path / "r.json", records), None)

        assert list(one.items()) == [{"id": "a", "own_id": 7}, {"id": "8"}]
        assert one.remarks() == ["1 item had another value in a field id: it is own_id now"]

    def test_what_a_search_adds_is_left_out(self, tmp_path: Path) -> None:
        record = {"objectID": "1", "name": "Shoe"}
        hit = {
            **record,
            "_highlightResult": {"name": {"value": "<em>Shoe</em>", "matchLevel": "full"}},
            "_snippetResult": {"name": {"value": "Shoe", "matchLevel": "none"}},
            "_rankingInfo": {"nbTypos": 0},
            "_distinctSeqID": 0,
        }
        (one,) = algolia_export.read(write(tmp_path / "r.json", [hit]), None)

        assert list(one.items()) == [{"id": "1", "name": "Shoe"}]

    def test_answers_of_browse_are_read_if_they_are_complete(self, tmp_path: Path) -> None:
        pages = [
            {"hits": [{"objectID": "1"}, {"objectID": "2"}], "nbHits": 3, "cursor": "a"},
            {"hits": [{"objectID": "3", "hits": [7]}], "nbHits": 3},
        ]
        lines = "\n".join(map(json.dumps, pages))
        (one,) = algolia_export.read(write(tmp_path / "r.json", lines), None)

        assert list(one.items()) == [{"id": "1"}, {"id": "2"}, {"id": "3", "hits": [7]}]
        with pytest.raises(SourceError, match="has 2 of 3 hits"):
            algolia_export.read(write(tmp_path / "r.json", pages[0]), None)

    def test_settings_that_say_nothing_are_not_noted(self, tmp_path: Path) -> None:
        """What getSettings gives for an index without settings of its own."""
        settings = {
            "minWordSizefor1Typo": 4,
            "minWordSizefor2Typos": 8,
            "hitsPerPage": 20,
            "maxValuesPerFacet": 100,
            "version": 2,
            "paginationLimitedTo": 1000,
            **dict.fromkeys(("searchableAttributes", "numericAttributesToIndex"), None),
            **dict.fromkeys(("attributesToRetrieve", "unretrievableAttributes"), None),
            **dict.fromkeys(("optionalWords", "attributesForFaceting"), None),
            **dict.fromkeys(("attributesToSnippet", "attributesToHighlight"), None),
            **dict.fromkeys(("allowTyposOnNumericTokens", "replaceSynonymsInHighlight"), True),
            "attributeForDistinct": None,
            "exactOnSingleWordQuery": "attribute",
            "separatorsToIndex": "",
            "removeWordsIfNoResults": "none",
            "minProximity": 1,
            "queryType": "prefixLast",
            "highlightPreTag": "<em>",
            "highlightPostTag": "</em>",
            "alternativesAsExact": ["ignorePlurals", "singleWordSynonym"],
            "snippetEllipsisText": "",
            "sortFacetValuesBy": "count",
            "responseFields": ["*"],
        }
        (one,) = algolia_export.read(
            write(tmp_path / "r.json", []), write(tmp_path / "s.json", settings)
        )

        assert one.notes == []
        assert set(valid(one)) == {"geo_fields", "typo_lengths", "algolia"}

    @pytest.mark.parametrize(
        ("settings", "configuration", "noted"),
        [
            ({"removeWordsIfNoResults": "lastWords"}, {"match": "last"}, []),
            ({"removeWordsIfNoResults": "allOptional"}, {"match": "auto"}, []),
            ({"removeWordsIfNoResults": "firstWords"}, {}, ["removeWordsIfNoResults firstWords"]),
            ({"synonyms": [["&", "and"]]}, {"synonyms": [["&", "and"]]}, []),
            ({"relevancyStrictness": 50}, {}, ["relevancyStrictness"]),
            (
                {"attributesForFaceting": ["a"], "sortFacetValuesBy": "alpha"},
                {"aggregations": {"a": {"conjunction": False, "sort": "term"}}},
                [],
            ),
        ],
    )
    def test_more_settings_are_taken_or_noted(
        self, tmp_path: Path, settings: Any, configuration: Any, noted: list[str]
    ) -> None:
        (one,) = algolia_export.read(
            write(tmp_path / "r.json", []), write(tmp_path / "s.json", settings)
        )

        assert valid(one) == {"geo_fields": ["_geoloc", "_geo"], **configuration}
        assert [note.partition(":")[0] for note in one.notes] == noted
