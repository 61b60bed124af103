"""A last word typed close to the one before it, as in no item, is not a word yet."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from common.term_weights import COMPLETIONS_MAX
from tests.cluster.conftest import Index, Services

NAMED = [
    {"id": 1, "name": "nfs-ganesha", "text": "file server"},
    {"id": 2, "name": "manpages", "text": "nfs and the letter g"},
    {"id": 3, "name": "usb-c cable", "text": "a plug"},
    {"id": 4, "name": "usb-card reader", "text": "a slot"},
]


@pytest.fixture(scope="module", params=[1, 3], ids=["1-shard", "3-shards"])
def packages(request: pytest.FixtureRequest, services: Services) -> Iterator[Index]:
    """Packages, and more items with words that begin with g and c than are ranked near a word."""
    index = Index(services(request.param).client(), "fragments")
    index.configure({"searchable_fields": ["name", "text"]})
    others = [
        {"id": 10 + i, "name": "other", "text": "gnu compiler"} for i in range(COMPLETIONS_MAX + 9)
    ]
    body = "\n".join(json.dumps(item) for item in [*NAMED, *others])
    assert index.load(body.encode()).status == 200
    yield index
    index.client.delete(index.path)
    index.client.close()


def test_a_stray_letter_does_not_hide_what_is_being_typed(packages: Index) -> None:
    assert packages.ids(query="nfs-") == packages.ids(query="nfs-g") == [1, 2]
    # As two words, g is one.
    assert packages.ids(query="nfs g") == [2, 1]
    # Where items have both next to each other, it is a word.
    assert packages.ids(query="usb-c") == [3, 4]
    assert packages.ids(query="nfs-g", prefix="none") == [2]


def test_it_is_explained_and_highlighted_as_a_beginning(packages: Index) -> None:
    answer = packages.search(query="nfs-g", show=["score_details"], highlight=["name", "text"])
    first, second = answer["data"]["items"]
    for item in (first, second):
        parts = item["_score_details"]["parts"]
        assert [one["match"] for one in parts if one["kind"] == "word"] == ["typed", "prefix"]
    assert first["_highlight"]["name"] == "<em>nfs</em>-<em>ganesha</em>"
    assert second["_highlight"]["text"] == "<em>nfs</em> and the letter <em>g</em>"
