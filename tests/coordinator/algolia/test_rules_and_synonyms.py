"""Rules and synonyms of Algolia's protocol mean the same in the configuration, or are refused."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import InvalidRequest
from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from coordinator.algolia.rule_translation import RULES
from coordinator.algolia.stored_rules_and_synonyms import (
    ObjectKind,
    copied,
    matching,
    read,
    stored_entry,
    written,
)
from coordinator.algolia.synonym_translation import SYNONYMS

TV: dict[str, Any] = {
    "objectID": "tv",
    "description": "week of the televisions",
    "conditions": [
        {"pattern": "tv", "anchoring": "contains", "filters": "category:tv AND shop:a"},
        {"pattern": "", "anchoring": "is"},
    ],
    "consequence": {
        "promote": [{"objectID": "7", "position": 0}, {"objectIDs": ["8", "9"], "position": 3}],
        "hide": [{"objectID": "13"}],
        "params": {"filters": "in_stock:true", "facetFilters": [["brand:a", "brand:b"]]},
        "filterPromotes": True,
    },
    "validity": [{"from": 1767225600, "until": 1767830400}],
}
HIDING: dict[str, Any] = {"objectID": "h", "consequence": {"hide": [{"objectID": "1"}]}}


def stored_in(
    document: dict[str, Any], kind: ObjectKind, *objects: dict[str, Any]
) -> dict[str, Any]:
    """Return a configuration with more objects."""
    entries = read(document, kind)
    entries |= dict(stored_entry(one, kind, kind.name) for one in objects)
    result = written(document, kind, entries.values())
    parse_configuration(result, DEFAULT_LIMITS)
    return result


def shown_in(document: dict[str, Any], kind: ObjectKind) -> list[dict[str, Any]]:
    return [entry.document for entry in read(document, kind).values()]


def test_a_rule_is_one_of_ours_for_each_condition() -> None:
    document = stored_in({"language": "english"}, RULES, TV)

    first, second = document["rules"]
    assert first == {
        "name": "tv",
        "when": {
            "query": {"contains": "tv"},
            "filters": {"category": ["tv"], "shop": ["a"]},
            "from": "2026-01-01T00:00:00Z",
            "until": "2026-01-08T00:00:00Z",
        },
        "pin": [
            {"id": "7", "position": 1},
            {"id": "8", "position": 4},
            {"id": "9", "position": 5},
        ],
        "hide": ["13"],
        "filter": '"in_stock" IN ["true"] AND "brand" IN ["a", "b"]',
    }
    assert second["when"]["query"] == {"is": ""}
    assert document["language"] == "english"
    assert shown_in(document, RULES) == [TV]


def test_a_rule_that_is_off_is_kept_and_does_nothing() -> None:
    document = stored_in({}, RULES, {**TV, "enabled": False}, HIDING)

    assert [rule["name"] for rule in document["rules"]] == ["h"]
    assert [one["objectID"] for one in shown_in(document, RULES)] == ["h", "tv"]
    on = stored_in(document, RULES, TV)
    assert [rule["name"] for rule in on["rules"]] == ["h", "tv", "tv"]


def test_what_the_native_interface_changed_is_shown_as_it_is_now() -> None:
    document = stored_in({}, RULES, TV, HIDING)
    document["rules"] = [
        {"name": "h", "hide": [1, 2]},
        {"pin": [5], "boost": [{"filter": "a = 1", "factor": 2}], "when": {"query": "x y"}},
    ]

    first, second = shown_in(document, RULES)

    assert first["objectID"] == "h"
    assert first["consequence"]["hide"] == [{"objectID": "1"}, {"objectID": "2"}]
    assert second["objectID"] == "rule 2"
    assert second["conditions"] == [{"pattern": "x y", "anchoring": "is"}]
    assert second["consequence"]["promote"] == [{"objectID": "5", "position": 0}]
    with pytest.raises(InvalidRequest, match=r"consequence\.params\.boost"):
        # else the boost would be lost
        stored_entry(second, RULES, "rule")
    after = stored_in(document, RULES, {**HIDING, "objectID": "new"})
    assert after["rules"][1]["boost"] == [{"filter": "a = 1", "factor": 2}]
    assert list(after["algolia"]["objects"]["rules"]) == ["new"]


@pytest.mark.parametrize("kind", [RULES, SYNONYMS])
def test_an_object_that_the_native_interface_posted_has_its_id(kind: ObjectKind) -> None:
    posted = HIDING if kind is RULES else {"type": "synonym", "synonyms": ["tv", "television"]}
    without = {name: value for name, value in posted.items() if name != "objectID"}
    document = {
        kind.name: kind.native_of({**without, "objectID": "a"}, "object"),
        "algolia": {"objects": {kind.name: {"a": without}}},
    }

    assert shown_in(document, kind) == [{**without, "objectID": "a"}]
    after = stored_in(document, kind, {**posted, "objectID": "b"})
    assert list(after["algolia"]["objects"][kind.name]) == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"consequence": {}}, "rule.consequence"),
        ({"consequence": {"userData": "a"}}, "rule.consequence.userData"),
        ({"consequence": {"params": {"query": "x"}}}, "rule.consequence.params.query"),
        ({"consequence": {"params": {"optionalFilters": ["a:1"]}}}, None),
        ({"consequence": {"params": {"filters": "a:"}}}, "rule.consequence.params.filters"),
        ({"consequence": {"promote": [{"objectID": "1"}]}}, None),
        ({"consequence": {"filterPromotes": False, **HIDING["consequence"]}}, None),
        ({"conditions": [{"context": "mobile"}]}, "rule.conditions[0].context"),
        ({"conditions": [{"pattern": "a", "anchoring": "startsWith"}]}, None),
        ({"conditions": [{"pattern": "{facet:brand}", "anchoring": "is"}]}, None),
        ({"conditions": [{"pattern": "a", "anchoring": "is", "alternatives": True}]}, None),
        ({"conditions": [{"filters": "a:1 OR b:2"}]}, "rule.conditions[0].filters"),
        ({"conditions": {}}, "rule.conditions"),
        ({"validity": [{"from": "2026"}]}, "rule.validity[0].from"),
        ({"validity": [{"from": 10**15}]}, "rule.validity[0].from"),
        ({"enabled": "no"}, "rule.enabled"),
        ({"description": {}}, "rule.description"),
        ({"conditions": [{"filters": {}}]}, "rule.conditions[0].filters"),
        ({"enabled": False, "consequence": {"hide": [{"objectID": "x" * 257}]}}, None),
        ({"weight": 3}, "rule.weight"),
        ({"objectID": "x" * 101}, "rule.objectID"),
    ],
)
def test_rules_without_an_equivalent_are_refused(change: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as error:
        stored_entry({**HIDING, **change}, RULES, "rule")

    assert error.value.param is not None
    assert error.value.param == (param or error.value.param)


def test_synonyms_of_both_interfaces_are_one_list() -> None:
    document: dict[str, Any] = {"synonyms": {"tv": ["telly"], "nyc": "new york"}}
    both: dict[str, Any] = {"objectID": "b", "type": "synonym", "synonyms": ["sofa", "couch"]}
    one_way: dict[str, Any] = {
        "objectID": "o",
        "type": "oneWaySynonym",
        "input": "ring",
        "synonyms": ["jewel"],
    }

    document = stored_in(document, SYNONYMS, both, one_way)

    assert document["synonyms"] == [
        {"from": "tv", "to": ["telly"]},
        {"from": "nyc", "to": ["new york"]},
        ["sofa", "couch"],
        {"from": "ring", "to": ["jewel"]},
    ]
    shown = shown_in(document, SYNONYMS)
    assert shown[2:] == [both, one_way]
    assert (shown[0]["type"], shown[0]["input"], shown[0]["synonyms"]) == (
        "onewaysynonym",
        "tv",
        ["telly"],
    )
    entries = read(document, SYNONYMS)
    del entries[shown[0]["objectID"]], entries["b"]
    rest = written(document, SYNONYMS, entries.values())
    assert [one["from"] for one in rest["synonyms"]] == ["nyc", "ring"]
    assert matching(read(document, SYNONYMS), " SOF") == [both]
    assert written(document, SYNONYMS, []) == {}


def test_equal_synonyms_of_two_ids_are_two() -> None:
    both: dict[str, Any] = {"type": "synonym", "synonyms": ["a", "b"]}
    document = stored_in({}, SYNONYMS, {"objectID": "1", **both}, {"objectID": "2", **both})

    assert [one["objectID"] for one in shown_in(document, SYNONYMS)] == ["1", "2"]
    entries = read(document, SYNONYMS)
    del entries["1"]
    assert written({}, SYNONYMS, entries.values())["synonyms"] == [["a", "b"]]


@pytest.mark.parametrize(
    "synonym",
    [
        {"type": "altCorrection1", "word": "a", "corrections": ["b"]},
        {"type": "placeholder", "placeholder": "<n>", "replacements": ["1"]},
        {"type": "synonym", "synonyms": ["a"]},
        {"type": "synonym", "synonyms": ["a", "b"], "input": "c"},
        {"type": "onewaysynonym", "synonyms": ["a"]},
        {"type": "other", "synonyms": ["a", "b"]},
        {"synonyms": ["a", "b"]},
    ],
)
def test_synonyms_without_an_equivalent_are_refused(synonym: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        stored_entry({"objectID": "x", **synonym}, SYNONYMS, "synonym")


def test_parts_of_a_configuration_are_copied() -> None:
    both: dict[str, Any] = {"objectID": "b", "type": "synonym", "synonyms": ["sofa", "couch"]}
    source = stored_in({"language": "english", "algolia": {"hitsPerPage": 3}}, RULES, HIDING)
    target = stored_in({"match": "any", "rules": [{"name": "old", "hide": [1]}]}, SYNONYMS, both)
    kinds = ("rules", "synonyms")

    rules = copied(source, target, ["rules"], kinds)
    settings = copied(source, target, ["settings"], kinds)
    everything = copied(source, target, ["settings", "rules", "synonyms"], kinds)

    assert (rules["match"], shown_in(rules, RULES), shown_in(rules, SYNONYMS)) == (
        "any",
        [HIDING],
        [both],
    )
    assert settings["language"] == "english"
    assert "match" not in settings
    assert settings["rules"] == target["rules"]
    assert shown_in(settings, SYNONYMS) == [both]
    assert settings["algolia"]["hitsPerPage"] == 3
    assert everything == source
