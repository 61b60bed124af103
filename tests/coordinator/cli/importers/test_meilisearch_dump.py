"""Meilisearch's dumps."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from coordinator.cli.importers import meilisearch_dump
from coordinator.cli.sources.source import SourceError
from tests.coordinator.cli.importers.files import dump, valid, write

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
    def test_a_dump_becomes_items_and_a_configuration(self, tmp_path: Path) -> None:
        documents = '{"isbn":"a","title":"Sea"}\n{"isbn":7,"title":"Land"}\n'
        path = dump(
            tmp_path / "x.dump",
            {"books": ({"uid": "books", "primaryKey": "isbn"}, MEILISEARCH, documents),
             "empty": ({"uid": "empty", "primaryKey": None}, {}, "")},
        )  # fmt: skip
        books, empty = meilisearch_dump.read(path)
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

    def test_settings_of_the_current_version_are_read(self, tmp_path: Path) -> None:
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
        (one,) = meilisearch_dump.read(path)

        assert list(one.items()) == [{"id": 1}, {"id": 2}]
        assert one.remarks() == ["1 item had embeddings, which are left out"]
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

    def test_a_language_of_all_attributes_is_that_of_the_index(self, tmp_path: Path) -> None:
        rule = {"attributePatterns": ["*"], "locales": ["deu"]}
        path = dump(tmp_path / "x.dump", {"a": ({}, {"localizedAttributes": [rule]}, "")})
        (one,) = meilisearch_dump.read(path)
        assert (valid(one), one.notes) == ({"language": "german"}, [])

    def test_all_members_of_a_dump_are_read_past(self, tmp_path: Path) -> None:
        """As Meilisearch 1.13 and later write them: tasks and their documents are no index."""
        path = Path(dump(tmp_path / "x.dump", {"a": ({"primaryKey": "id"}, {}, '{"id":1}\n')}))
        members = {
            "./batches/queue.jsonl": '{"uid":0}\n',
            "./tasks/queue.jsonl": '{"uid":1}\n',
            "./tasks/update_files/1.jsonl": '{"id":2}\n',
            "./tasks/update_files/documents.jsonl": '{"id":3}\n',
            "./experimental-features.json": '{"metrics":false}',
            "./instance_uid.uuid": "f5f2ab3b-1b2c-4d3e-8f4a-5b6c7d8e9f00",
            "./keys.jsonl": '{"name":"admin"}\n',
            "./network.json": '{"self":null,"remotes":{}}',
        }
        with tarfile.open(path) as before:
            kept = [(one, before.extractfile(one)) for one in before.getmembers()]
            kept_bytes = [(one, stream.read()) for one, stream in kept if stream is not None]
        with tarfile.open(path, "w:gz") as archive:
            for member, content in kept_bytes:
                archive.addfile(member, io.BytesIO(content))
            for name, text in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        (one,) = meilisearch_dump.read(str(path))
        assert (one.name, list(one.items())) == ("a", [{"id": 1}])

    def test_a_dump_that_is_cut_off_is_refused(self, tmp_path: Path) -> None:
        documents = "".join(f'{{"id":{i},"text":"{i * 7919}"}}\n' for i in range(5_000))
        path = Path(dump(tmp_path / "x.dump", {"books": ({}, {}, documents)}))
        path.write_bytes(path.read_bytes()[:-2_000])
        with pytest.raises(SourceError, match="is cut off or damaged"):
            meilisearch_dump.read(str(path))
        wrong = dump(tmp_path / "y.dump", {"books": ({}, {}, '{"id":1}\n{"id"\n')})
        with pytest.raises(SourceError, match=r"documents\.jsonl, line 2: "):
            list(meilisearch_dump.read(wrong)[0].items())

    def test_what_is_no_dump_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is not a Meilisearch dump") as raised:
            meilisearch_dump.read(write(tmp_path / "a", "no"))
        assert "\n" not in str(raised.value)
        with pytest.raises(SourceError, match=r"no indexes/…/documents\.jsonl"):
            meilisearch_dump.read(dump(tmp_path / "b", {}))

    def test_a_dump_of_an_older_form_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "old.dump"
        with tarfile.open(path, "w:gz") as archive:
            for name in ("meta.json", "documents.jsonl"):
                member = tarfile.TarInfo(f"indexes/22c269d8/{name}")
                member.size = 2
                archive.addfile(member, io.BytesIO(b"{}"))
        with pytest.raises(SourceError, match=r"without its metadata\.json, as dumps before V6"):
            meilisearch_dump.read(str(path))
