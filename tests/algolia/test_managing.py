"""Rules, synonyms, copies and moves by the Python package algoliasearch, and what has no page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.algolia.conftest import Shop
from tests.algolia.test_python import client_of, post
from tests.service import Client

pytest.importorskip("algoliasearch", reason="the package algoliasearch is not installed")


@pytest.fixture(scope="module")
def client(shop: Shop) -> Any:
    return client_of(shop.port)


def ids_of(client: Any, index: str, query: str = "") -> list[str]:
    return [hit.object_id for hit in client.search_single_index(index, {"query": query}).hits]


def save(client: Any, index: str, **names: str) -> None:
    objects = [{"objectID": id_, "name": name} for id_, name in names.items()]
    client.save_objects(index, objects, wait_for_tasks=True)


def test_synonyms(client: Any) -> None:
    save(client, "synonyms", a="red sofa", b="blue couch", c="ring", d="jewel")
    one = {"objectID": "s1", "type": "synonym", "synonyms": ["sofa", "couch"]}
    other = {"objectID": "s2", "type": "onewaysynonym", "input": "ring", "synonyms": ["jewel"]}

    answer = client.save_synonym("synonyms", "s1", one)
    client.wait_for_task("synonyms", answer.task_id)
    client.save_synonyms("synonyms", [other], forward_to_replicas=True)

    assert sorted(ids_of(client, "synonyms", "couch")) == ["a", "b"]
    assert sorted(ids_of(client, "synonyms", "ring")) == ["c", "d"]
    assert ids_of(client, "synonyms", "jewel") == ["d"]
    assert client.get_synonym("synonyms", "s1").synonyms == ["sofa", "couch"]
    assert [hit.object_id for hit in client.search_synonyms("synonyms", {"query": "jew"}).hits] == [
        "s2"
    ]
    seen: list[str] = []
    client.browse_synonyms("synonyms", lambda page: seen.extend(one.object_id for one in page.hits))
    assert seen == ["s1", "s2"]
    client.delete_synonym("synonyms", "s2")
    assert ids_of(client, "synonyms", "ring") == ["c"]
    third = {"objectID": "s3", "type": "synonym", "synonyms": ["x", "y"]}
    client.save_synonyms("synonyms", [third], replace_existing_synonyms=True)
    assert client.search_synonyms("synonyms").nb_hits == 1
    client.clear_synonyms("synonyms")
    assert client.search_synonyms("synonyms").nb_hits == 0
    with pytest.raises(Exception, match="placeholders"):
        client.save_synonym(
            "synonyms",
            "p",
            {"objectID": "p", "type": "placeholder", "placeholder": "n", "replacements": ["1"]},
        )
    with pytest.raises(Exception, match="does not exist"):
        client.get_synonym("synonyms", "s1")


def test_rules(client: Any) -> None:
    save(client, "rules", a="lamp one", b="lamp two", c="lamp three")
    pin = {
        "objectID": "pin",
        "description": "the third first",
        "conditions": [{"pattern": "lamp", "anchoring": "is"}],
        "consequence": {"promote": [{"objectID": "c", "position": 0}]},
    }
    hide = {"objectID": "hide", "consequence": {"hide": [{"objectID": "b"}]}, "enabled": False}

    client.wait_for_task("rules", client.save_rule("rules", "pin", pin).task_id)
    client.save_rules("rules", [hide])

    assert ids_of(client, "rules", "lamp")[0] == "c"
    assert len(ids_of(client, "rules", "lamp")) == 3, "it is off"
    client.save_rules("rules", [{**hide, "enabled": True}])
    assert sorted(ids_of(client, "rules", "lamp")) == ["a", "c"]
    assert client.get_rule("rules", "pin").description == "the third first"
    found = client.search_rules("rules", {"query": "third", "enabled": True})
    assert [hit.object_id for hit in found.hits] == ["pin"]
    seen: list[str] = []
    client.browse_rules("rules", lambda page: seen.extend(rule.object_id for rule in page.hits))
    assert seen == ["pin", "hide"]
    client.delete_rule("rules", "hide")
    assert len(ids_of(client, "rules", "lamp")) == 3
    client.save_rules("rules", [{**hide, "enabled": True}], clear_existing_rules=True)
    assert client.search_rules("rules").nb_hits == 1
    client.clear_rules("rules")
    assert client.search_rules("rules").nb_hits == 0
    with pytest.raises(Exception, match=r"rules\[0\].conditions\[0\].context cannot be honoured"):
        client.save_rules("rules", [{**pin, "conditions": [{"context": "mobile"}]}])


def test_all_objects_are_replaced(shop: Shop, client: Any) -> None:
    save(client, "replaced", old="first", older="second")
    client.set_settings("replaced", {"attributesForFaceting": ["name"], "hitsPerPage": 7})
    one = {"objectID": "s1", "type": "synonym", "synonyms": ["third", "last"]}
    client.save_synonym("replaced", "s1", one)
    native = Client(shop.port)
    assert native.post("/_aliases", {"aliases": {"current": "replaced"}}).status == 200

    client.replace_all_objects("replaced", [{"objectID": "new", "name": "third"}])

    assert ids_of(client, "replaced") == ["new"]
    assert ids_of(client, "replaced", "last") == ["new"]
    assert ids_of(client, "current") == ["new"], "aliases stay with the name"
    assert client.get_settings("replaced").hits_per_page == 7
    assert client.get_synonym("replaced", "s1").synonyms == ["third", "last"]
    names = [one.name for one in client.list_indices().items]
    assert not [name for name in names if "_tmp_" in name]
    assert native.delete("/replaced").status == 200
    native.close()
    client.replace_all_objects("replaced", [{"objectID": "1", "name": "of nothing"}])
    assert ids_of(client, "replaced") == ["1"]


def test_copies_and_moves(client: Any) -> None:
    save(client, "from", a="one", b="two")
    save(client, "to", c="three")
    client.set_settings("from", {"attributesForFaceting": ["name"]})
    client.save_rule("from", "r", {"objectID": "r", "consequence": {"hide": [{"objectID": "a"}]}})

    client.operation_index(
        "from", {"operation": "copy", "destination": "to", "scope": ["settings"]}
    )
    assert client.get_settings("to").attributes_for_faceting == ["name"]
    assert client.search_rules("to").nb_hits == 0
    assert ids_of(client, "to") == ["c"]

    done = client.operation_index("from", {"operation": "copy", "destination": "to"})
    client.wait_for_task("to", done.task_id)
    assert ids_of(client, "to") == ["b"], "with its rules, over what was there"
    assert ids_of(client, "from") == ["b"]

    client.operation_index("to", {"operation": "move", "destination": "moved"})
    assert ids_of(client, "moved") == ["b"]
    assert not client.index_exists("to")
    save(client, "moved", d="four")
    client.operation_index("nothing", {"operation": "copy", "destination": "moved"})
    assert ids_of(client, "moved") == []


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"operation": "copy", "destination": "shop"}, "the same index"),
        ({"operation": "swap", "destination": "x"}, "must be"),
        ({"operation": "move", "destination": "x", "scope": ["rules"]}, "moves as a whole"),
        ({"operation": "copy", "destination": "_x"}, "index name"),
        ({"operation": "copy", "destination": "x", "scope": ["all"]}, "some of settings"),
        ({"operation": "copy"}, "must name an index"),
        ({"operation": "copy", "destination": "x", "to": "y"}, "is not a member"),
    ],
)
def test_operations_that_cannot_be(shop: Shop, body: dict[str, Any], part: str) -> None:
    status, answer = post(shop.port, "/1/indexes/shop/operation", body)

    assert (status, part in answer["message"]) == (400, True), answer["message"]
    status, answer = post(
        shop.port, "/1/indexes/nothing/operation", {"operation": "move", "destination": "x"}
    )
    assert (status, answer["error"]["code"]) == (404, "index_not_found")


def test_every_other_call_reads_its_answer(client: Any) -> None:
    name = "others"
    client.set_settings(name, {"attributesForFaceting": ["name"]})
    save(client, name, a="one", b="two", c="three")
    client.wait_for_task(name, client.save_object(name, {"objectID": "d", "name": "four"}).task_id)
    client.add_or_update_object(name, "e", {"name": "five"})
    client.partial_update_object(name, "e", {"size": 5})
    client.partial_update_objects(name, [{"objectID": "f", "size": 6}], create_if_not_exists=True)
    client.multiple_batch(
        {"requests": [{"action": "deleteObject", "indexName": name, "body": {"objectID": "a"}}]}
    )
    client.delete_objects(name, ["b"], wait_for_tasks=True)
    client.delete_by(name, {"numericFilters": ["size>5"]})
    seen: list[str] = []
    client.browse_objects(name, lambda page: seen.extend(one.object_id for one in page.hits))
    asked = [{"indexName": name, "objectID": id_} for id_ in ("e", "zz")]
    found = client.get_objects({"requests": asked}).results
    both = client.search(
        {
            "requests": [
                {"indexName": name, "query": "five"},
                {"indexName": name, "type": "facet", "facet": "name", "facetQuery": "f"},
            ]
        }
    )
    client.clear_objects(name)
    client.wait_for_app_task(1)
    left = client.browse(name).hits
    client.delete_index(name)

    assert sorted(seen) == ["c", "d", "e"]
    assert (found[0]["name"], found[0]["size"], found[1]) == ("five", 5, None)
    assert both.results[0].actual_instance.nb_hits == 1
    assert left == []
    assert not client.index_exists(name)


def test_lists_have_the_form_that_clients_read(client: Any) -> None:
    listed = {one.name: one for one in client.list_indices().items}

    assert listed["shop"].entries == 30
    assert client.list_api_keys().keys == []


def test_answers_have_the_data_of_rules_and_not_of_the_settings(client: Any) -> None:
    """Pages read a list, which the object of the settings is not."""
    client.set_settings("data", {"userData": {"banner": 1}})
    condition = {"pattern": "lamp", "anchoring": "contains"}
    for object_id, data in (("a", {"banner": "a"}), ("b", {"banner": "b"})):
        rule = {"objectID": object_id, "conditions": [condition, {"pattern": "lamp 7",
                "anchoring": "is"}], "consequence": {"userData": data}}  # fmt: skip
        client.save_rule("data", object_id, rule)

    found = client.search_single_index("data", {"query": "lamp 7"})
    others = client.search_single_index("data", {"query": "sofa"})

    assert found.user_data == [{"banner": "a"}, {"banner": "b"}]
    assert found.applied_rules == [{"objectID": "a"}, {"objectID": "b"}]
    assert (others.user_data, others.applied_rules) == (None, None)
    assert client.get_settings("data").user_data == {"banner": 1}
    assert client.get_rule("data", "a").consequence.user_data == {"banner": "a"}


def test_pages_that_are_not_there_say_why(client: Any) -> None:
    calls: list[Callable[[], Any]] = [
        client.get_logs,
        client.get_dictionary_settings,
        client.get_sources,
        partial(client.update_api_key, "k", {"acl": ["search"]}),
        partial(client.restore_api_key, "k"),
    ]
    for call in calls:
        with pytest.raises(Exception, match="cannot be honoured: "):
            call()
