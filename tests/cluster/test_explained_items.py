"""`/{index}/explain`: a hit's score, or what keeps an item out; on 1, 2 and 3 shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import SHARD_COUNTS, Index, Services, error_of

ITEMS: list[dict[str, Any]] = [
    {"id": 1, "name": "The Dark Knight", "genres": ["Crime", "Drama"], "year": 2008},
    {"id": 2, "name": "Dark Water", "genres": ["Horror"], "year": 2005},
    {"id": "a/b", "name": "Knight and Day", "genres": ["Action"], "year": 2010},
    *({"id": 10 + n, "name": "other film", "genres": ["Drama"], "year": 1990} for n in range(9)),
]
CONFIGURATION: dict[str, Any] = {
    "aggregations": {"genres": {"conjunction": False}},
    "stop_words": ["the", "and"],
}


@pytest.fixture(scope="module", params=SHARD_COUNTS, ids=lambda count: f"{count}-shards")
def index(request: pytest.FixtureRequest, services: Services) -> Iterator[Index]:
    index = Index(services(request.param).client(), "explained")
    index.configure(CONFIGURATION)
    index.put(ITEMS)
    yield index
    index.client.delete(index.path)
    index.client.close()


def explained(index: Index, item_id: Any, **parameters: Any) -> Any:
    reply = index.post("explain", {"id": item_id, **parameters})
    assert reply.status == 200, reply.body
    data = reply.json["data"]
    assert data["is_hit"] == (item_id in index.ids(**parameters, per_page=100))
    assert data["is_hit"] == (data["reasons"] == [])
    return data


def reasons(index: Index, item_id: Any, **parameters: Any) -> list[str]:
    """What keeps an item out, in short."""
    return [
        " ".join(
            str(reason[name])
            for name in ("kind", "param", "text", "value", "rule")
            if name in reason and reason[name] != "query"
        )
        for reason in explained(index, item_id, **parameters)["reasons"]
    ]


def test_a_hit_has_its_score(index: Index) -> None:
    data = explained(index, 1, query="dark knight")

    (hit, *_) = index.search(query="dark knight", show=["score", "score_details"])["data"]["items"]
    assert (data["id"], data["score"]) == (1, hit["_score"])
    assert data["score_details"] == hit["_score_details"]
    assert explained(index, "a/b")["id"] == "a/b"


def test_every_filter_and_word_that_keeps_an_item_out_is_named(index: Index) -> None:
    assert reasons(index, 2, query="dark knight") == ["word knight"]
    assert reasons(index, 2, query="the knight water -dark") == ["word knight", "word -dark"]
    assert reasons(index, 1, query='"knight dark" dark') == ['word "knight dark"']
    assert reasons(index, 2, filters={"genres": ["Drama", "Crime"], "year": {"gte": 2005}}) == [
        "filter filters.genres ['Drama', 'Crime']"
    ]
    assert reasons(index, 2, not_filters={"genres": ["Horror"]}) == [
        "filter not_filters.genres ['Horror']"
    ]
    assert reasons(
        index,
        2,
        query="dark",
        filter='year > 2005 AND (genres = "x AND y" OR year = 2005) AND id = 1',
    ) == ["filter filter year > 2005", "filter filter id = 1"]
    assert reasons(index, 2, filter="year > 2005 OR genres = Drama") == [
        "filter filter year > 2005 OR genres = Drama"
    ]


def test_words_are_looked_for_as_the_search_does(index: Index) -> None:
    assert reasons(index, 1, query="knihgt da") == []
    assert reasons(index, 1, query="knihgt dark", typo=0) == []  # (a word of no item is ignored)
    assert reasons(index, 1, query="day knight") == ["word day"]
    assert reasons(index, 1, query="da knight", prefix="all") == []
    assert reasons(index, 2, query="knight other", match="any") == ["word knight", "word other"]
    assert reasons(index, 2, query="knight dark", search_fields=["genres"]) != []


def test_words_within_words_and_in_several_words_are_no_reason(index: Index) -> None:
    assert reasons(index, 1, query="nigh horror", infix=True) == ["word horror"]
    assert reasons(index, 1, query="dak horror", typo_lengths=[3, 9]) == ["word horror"]
    assert reasons(index, 1, query="other kn ight horror", match="any") == []
    assert reasons(index, 1, query="dark kn ight horror") == ["word horror"]


def test_the_words_wanted_of_one_item_are_those_wanted_of_all(index: Index) -> None:
    assert reasons(index, 1, query="dark water", match="auto") == ["word water"]
    assert reasons(index, 1, query="dark other", match="auto") == []
    assert reasons(index, 2, query="knight other", match="auto") == ["word knight"]


def test_words_that_a_search_can_do_without_are_no_reason(index: Index) -> None:
    drama = {"filters": {"genres": ["Drama"]}}
    assert reasons(index, 2, query="dark knight", match="any", **drama) == [
        "filter filters.genres ['Drama']"
    ]
    assert reasons(index, 2, query="dark knight water", match="50%", **drama) == [
        "filter filters.genres ['Drama']"
    ]
    # Words are dropped from the end: only the first must be there.
    assert reasons(index, 2, query="knight day", match="last") == ["word knight"]
    assert reasons(index, 2, query="dark knight -water", match="last") == ["word -water"]
    (reason,) = explained(index, 2, query="dark knight", match="any", min_score=1_000)["reasons"]
    assert reason["kind"] == "min_score"


def test_words_that_no_item_has_are_reasons_unless_another_word_is_left(index: Index) -> None:
    assert reasons(index, 1, query="zzzz") == ["word zzzz"]
    assert reasons(index, 1, query="the zzzz yyyy -dark") == [
        *("word zzzz", "word yyyy", "word -dark"),
    ]
    assert reasons(index, 1, query="zzzz", min_score=1) == ["word zzzz"]
    assert reasons(index, 1, query="zzzz", match="auto", min_score=1) == ["word zzzz"]
    assert reasons(index, 1, query="zzzz water") == ["word water"]
    assert reasons(index, 1, query="zzzz dark") == []


def test_rules_are_reasons_beside_words_and_filters(index: Index) -> None:
    rules = [
        {"name": "same", "when": {"query": "other"}, "hide": [2]},
        {"name": "same", "when": {"query": {"contains": "knight"}}, "filter": "year > 2006"},
        {"name": "top", "pin": [2]},
    ]
    assert reasons(index, 10, query="knight", rules=rules) == ["word knight", "rule same"]
    assert reasons(index, 1, query="knight", rules=rules, filters={"genres": ["Horror"]}) == [
        "filter filters.genres ['Horror']"
    ]
    # A pinned item needs neither words nor a score.
    assert reasons(index, 2, query="knight", rules=rules) == ["rule same"]
    assert reasons(index, 2, query="day", rules=rules[2:], min_score=9) == []
    assert reasons(index, 2, query="day", rules=rules[2:], filter="year > 2006") == [
        "filter filter year > 2006"
    ]


def test_an_item_that_a_configured_rule_hides_is_known(services: Services) -> None:
    index = Index(services(2).client(), "explained-rules")
    index.configure({**CONFIGURATION, "rules": [{"name": "gone", "hide": [2]}]})
    index.put(ITEMS)
    assert reasons(index, 2) == reasons(index, 2, query="dark") == ["rule gone"]
    index.client.delete(index.path)
    index.client.close()


def test_rules_and_thresholds_are_named(index: Index) -> None:
    rules = [{"name": "gone", "hide": [2]}, {"name": "late", "filter": "year > 1990"}]
    assert reasons(index, 2, query="dark", rules=rules) == ["rule gone"]
    assert reasons(index, 10, rules=rules) == ["rule late"]
    (reason,) = explained(index, 2, query="dark", min_score=1_000)["reasons"]
    assert (reason["kind"], reason["min_score"]) == ("min_score", 1_000)
    assert 0 < reason["score"] < 1_000


def test_parts_are_limited(index: Index) -> None:
    reply = index.post("explain", {"id": 1, "query": " ".join(["other", "film"] * 40)})
    assert error_of(reply)["code"] == "invalid_explanation"


def test_mistakes_are_named(index: Index) -> None:
    assert error_of(index.get("explain", query="dark"))["code"] == "invalid_id"
    assert error_of(index.get("explain", id=True))["code"] == "item_not_found"
    assert error_of(index.post("explain", {"id": [1]}))["param"] == "id"
    assert error_of(index.get("explain", id=99))["code"] == "item_not_found"
    assert error_of(index.post("explain", {"id": 1, "nope": 1}))["param"] == "nope"
    assert (
        error_of(index.post("explain", {"id": 1, "filters": {"x": 1}}))["code"] == "unknown_facet"
    )
    filters = index.get("explain", id="2", filters={"genres": ["Drama"]}).json["data"]["reasons"]
    assert filters == [{"kind": "filter", "param": "filters.genres", "value": ["Drama"]}]


def test_a_value_that_is_a_keyword_of_filters_does_not_part_them(index: Index) -> None:
    assert reasons(index, 2, filter="name = and AND year = 2005 AND id = 1") == [
        "filter filter name = and",
        "filter filter id = 1",
    ]
    assert reasons(index, 2, filter="name = OR AND year = 2005") == ["filter filter name = OR"]
    assert reasons(index, 2, filter="  ", query="nowhere") == ["word nowhere"]
