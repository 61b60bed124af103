"""The JavaScript packages, unchanged but for their host: algoliasearch v4 and v5."""

from __future__ import annotations

from typing import Any

import pytest

from tests.algolia.conftest import Shop, run_node

SECONDS = "{ connect: 60, read: 60, write: 60 }"
MILLISECONDS = "{ connect: 60_000, read: 60_000, write: 60_000 }"
"""By default a client gives up after a second or two, which a busy machine may need."""
CLIENTS = {
    "v5": f"""
        import {{ algoliasearch }} from "algoliasearch";
        const host = {{ url: process.argv[2], accept: "readWrite", protocol: "http" }};
        const options = {{ hosts: [host], timeouts: {MILLISECONDS} }};
        const client = algoliasearch("app", "key", options);
    """,
    "v5 lite": f"""
        import {{ liteClient }} from "algoliasearch/lite";
        const host = {{ url: process.argv[2], accept: "readWrite", protocol: "http" }};
        const options = {{ hosts: [host], timeouts: {MILLISECONDS} }};
        const client = liteClient("app", "key", options);
    """,
    "v4 lite": f"""
        import algoliasearch from "algoliasearch4/lite.js";
        const host = {{ url: process.argv[2], protocol: "http" }};
        const options = {{ hosts: [host], timeouts: {SECONDS} }};
        const client = algoliasearch("app", "key", options);
    """,
}


def run(client: str, shop: Shop, program: str) -> Any:
    """Run a program with a client; it returns what `answer` is."""
    return run_node(f"{CLIENTS[client]}\nlet answer;{program}\nconsole.log(JSON.stringify(answer))",
                    shop.host)  # fmt: skip


FLAT = '{ indexName: "shop", query: "lamp 7", hitsPerPage: 5, facets: ["brand"] }'
NESTED = '{ indexName: "shop", params: { query: "lamp 7", hitsPerPage: 5, facets: ["brand"] } }'


@pytest.mark.parametrize(
    ("client", "asked"),
    [
        ("v5", f"{{ requests: [{FLAT}] }}"),
        ("v5", f"[{NESTED}]"),
        ("v5 lite", f"{{ requests: [{FLAT}] }}"),
        ("v5 lite", f"[{NESTED}]"),
        ("v4 lite", f"[{NESTED}]"),
    ],
)
def test_search(shop: Shop, client: str, asked: str) -> None:
    answer = run(client, shop, f"answer = await client.search({asked});")

    (result,) = answer["results"]
    assert [hit["objectID"] for hit in result["hits"]] == ["7"]
    assert result["nbHits"] == 1
    assert result["facets"] == {"brand": {"B": 1}}
    name = result["hits"][0]["_highlightResult"]["name"]
    assert name["value"] == "<em>Lamp</em> <em>7</em>"
    assert name["matchLevel"] == "full"


@pytest.mark.parametrize("client", ["v5", "v4 lite"])
def test_what_cannot_be_honoured_is_named(shop: Shop, client: str) -> None:
    answer = run(
        client,
        shop,
        """
        const one = { indexName: "shop", params: { query: "x", aroundLatLngViaIP: true } };
        try { await client.search([one]); } catch (error) {
            answer = { message: error.message, status: error.status };
        }
        """,
    )

    assert answer["status"] == 400
    assert "aroundLatLngViaIP cannot be honoured" in answer["message"]


def test_facet_values_and_orders(shop: Shop) -> None:
    answer = run(
        "v5",
        shop,
        """
        const values = await client.searchForFacetValues({
            indexName: "shop", facetName: "brand",
            searchForFacetValuesRequest: { facetQuery: "b" },
        });
        const sorted = await client.searchSingleIndex({
            indexName: "shop:price:desc", searchParams: { hitsPerPage: 2 },
        });
        answer = { values, sorted };
        """,
    )

    assert answer["values"]["facetHits"] == [
        {"value": "B", "highlighted": "<em>B</em>", "count": 10}
    ]
    assert [hit["price"] for hit in answer["sorted"]["hits"]] == [29, 28]


def test_a_page_of_several_indexes_filters_each_by_the_fields_of_all(shop: Shop) -> None:
    """As InstantSearch does: widgets beside `index` widgets concern their indexes as well."""
    answer = run(
        "v5",
        shop,
        """
        await client.saveObjects({ indexName: "js-words", objects: [{ objectID: "lamp" }] });
        const narrowed = { facets: ["brand"], facetFilters: [["brand:B"]], filters: "price > 0" };
        answer = await client.search(["shop", "js-words"].map(
            (indexName) => ({ indexName, params: narrowed })));
        answer.missing = await client.getObjects({ requests: ["lamp", "x", "y"].map(
            (objectID) => ({ indexName: "js-words", objectID })) });
        """,
    )

    products, words = answer["results"]
    assert products["facets"] == {"brand": {"B": 10}}
    assert "message" not in products
    assert (words["nbHits"], words["facets"]) == (0, {})
    assert "facets names 'brand', which is not a facet" in words["message"]
    assert "facetFilters names 'brand', in which no item has a value" in words["message"]
    assert "filters names 'price', in which no item has a value" in words["message"]
    assert [one and one["objectID"] for one in answer["missing"]["results"]] == ["lamp", None, None]
    assert answer["missing"]["message"] == "ObjectID x does not exist; 2 of 3 are missing"


def test_operations_of_partial_updates(shop: Shop) -> None:
    """Each at once from as many requests as there are: none is lost."""
    answer = run(
        "v5",
        shop,
        """
        const indexName = "js-counted";
        const change = (name, _operation, value) => client.partialUpdateObject({ indexName,
            objectID: "x", attributesToUpdate: { [name]: { _operation, value } } });
        await client.saveObjects({ indexName, objects: [{ objectID: "x", n: 1, tags: ["a"] }] });
        await Promise.all(Array.from({ length: 40 }, () => change("n", "Increment", 1)));
        await change("tags", "AddUnique", "b");
        await client.partialUpdateObjects({ indexName, createIfNotExists: true, objects: [
            { objectID: "x", tags: { _operation: "Remove", value: "a" } },
            { objectID: "y", version: { _operation: "IncrementSet", value: 3 } },
        ] });
        let refused;
        try { await change("tags", "Increment", 1); } catch (error) { refused = error; }
        const got = async (objectID) => client.getObject({ indexName, objectID });
        answer = { x: await got("x"), y: await got("y"),
            status: refused.status, message: refused.message };
        """,
    )

    assert answer["x"] == {"objectID": "x", "id": "x", "n": 41, "tags": ["b"]}
    assert answer["y"]["version"] == 3
    assert answer["status"] == 400
    assert "object: the stored object cannot take the change" in answer["message"]


def test_rules_synonyms_and_copies(shop: Shop) -> None:
    answer = run(
        "v5",
        shop,
        """
        const indexName = "js-managed";
        await client.saveObjects({ indexName, objects: [
            { objectID: "a", name: "red sofa" }, { objectID: "b", name: "blue couch" }] });
        await client.saveSynonym({ indexName, objectID: "s",
            synonymHit: { objectID: "s", type: "synonym", synonyms: ["sofa", "couch"] } });
        await client.saveRule({ indexName, objectID: "pin", rule: { objectID: "pin",
            conditions: [{ pattern: "sofa", anchoring: "is" }],
            consequence: { promote: [{ objectID: "b", position: 0 }] } } });
        const found = async (indexName) => (await client.searchSingleIndex({ indexName,
            searchParams: { query: "sofa" } })).hits.map((hit) => hit.objectID);
        const before = await found(indexName);
        const copied = await client.operationIndex({ indexName,
            operationIndexParams: { operation: "copy", destination: "js-copied" } });
        await client.waitForTask({ indexName, taskID: copied.taskID });
        await client.deleteRule({ indexName, objectID: "pin" });
        const rules = await client.searchRules({ indexName: "js-copied" });
        const synonyms = await client.searchSynonyms({ indexName: "js-copied" });
        await client.operationIndex({ indexName: "js-copied",
            operationIndexParams: { operation: "move", destination: "js-moved" } });
        answer = { before, moved: await found("js-moved"), after: await found(indexName),
            rules: rules.nbHits, synonyms: synonyms.nbHits };
        """,
    )

    assert answer == {
        "before": ["b", "a"],
        "moved": ["b", "a"],
        "after": ["a", "b"],
        "rules": 1,
        "synonyms": 1,
    }


def test_version_4_replaces_rules_and_synonyms(shop: Shop) -> None:
    answer = run_node(
        f"const timeouts = {SECONDS};"
        """
        import algoliasearch from "algoliasearch4";
        const host = { url: process.argv[2], protocol: "http" };
        const index = algoliasearch("app", "key", { hosts: [host], timeouts }).initIndex("js-v4");
        const forward = { forwardToReplicas: true };
        const pair = (objectID) => ({ objectID, type: "synonym", synonyms: ["a", objectID] });
        const rule = (objectID) => ({ objectID, consequence: { userData: { objectID } } });
        await index.saveSynonyms([pair("x"), pair("y")], forward).wait();
        await index.saveRules([rule("x"), rule("y")], forward).wait();
        await index.saveSynonyms([pair("z")], { replaceExistingSynonyms: true }).wait();
        await index.saveRules([rule("z")], { clearExistingRules: true }).wait();
        const kept = [await index.searchSynonyms(""), await index.searchRules("")];
        await index.replaceAllSynonyms([]).wait();
        await index.replaceAllRules([]).wait();
        const left = [await index.searchSynonyms(""), await index.searchRules("")];
        const answer = [kept.map(({ hits }) => hits.map((hit) => hit.objectID)),
            left.map((one) => one.nbHits)];
        console.log(JSON.stringify(answer));
        """,
        shop.host,
    )

    assert answer == [[["z"], ["z"]], [0, 0]]


def test_objects_settings_and_tasks(shop: Shop) -> None:
    answer = run(
        "v5",
        shop,
        """
        const indexName = "made";
        const settings = await client.setSettings({ indexName, indexSettings: {
            searchableAttributes: ["name", "text"],
            attributesForFaceting: ["searchable(kind)", "filterOnly(owner)"],
            hitsPerPage: 2, attributeForDistinct: "kind",
        } });
        await client.waitForTask({ indexName, taskID: settings.taskID });
        const objects = [1, 2, 3, 4].map((i) => (
            { objectID: `o${i}`, name: `thing ${i}`, kind: i % 2 ? "odd" : "even", owner: "me" }));
        const saved = await client.saveObjects({ indexName, objects, waitForTasks: true });
        const before = await client.searchSingleIndex({ indexName,
            searchParams: { query: "thing", facets: ["kind"], filters: "owner:me" } });
        const distinct = await client.searchSingleIndex({ indexName,
            searchParams: { query: "thing", distinct: true } });
        await client.partialUpdateObject({ indexName, objectID: "o1",
            attributesToUpdate: { name: "changed" } });
        await client.partialUpdateObjects({ indexName, createIfNotExists: true,
            objects: [{ objectID: "o9", name: "new" }] });
        await client.partialUpdateObjects({ indexName, createIfNotExists: false,
            objects: [{ objectID: "o10", name: "not made" }] });
        const one = await client.getObject({ indexName, objectID: "o1" });
        const many = await client.getObjects({ requests: [
            { indexName, objectID: "o9" }, { indexName, objectID: "o10" }] });
        await client.deleteObjects({ indexName, objectIDs: ["o2"] });
        await client.deleteBy({ indexName, deleteByParams: { filters: "kind:odd" } });
        const seen = [];
        await client.browseObjects({ indexName, browseParams: { hitsPerPage: 1 },
            aggregator: (page) => seen.push(...page.hits.map((hit) => hit.objectID)) });
        const shown = await client.getSettings({ indexName });
        await client.clearObjects({ indexName });
        const cleared = await client.searchSingleIndex({ indexName });
        const listed = await client.listIndices();
        await client.deleteIndex({ indexName });
        answer = { saved: saved[0].objectIDs, before, distinct, one, many, seen, shown,
            cleared: cleared.nbHits, listed: listed.items.map((item) => item.name) };
        """,
    )

    assert answer["saved"] == ["o1", "o2", "o3", "o4"]
    assert answer["before"]["nbHits"] == 4
    assert len(answer["before"]["hits"]) == 2, "the setting is the default of searches"
    assert answer["before"]["facets"] == {"kind": {"even": 2, "odd": 2}}
    assert len(answer["distinct"]["hits"]) == 2
    assert (answer["one"]["name"], answer["one"]["objectID"]) == ("changed", "o1")
    assert answer["many"]["results"][0]["name"] == "new"
    assert answer["many"]["results"][1] is None
    assert sorted(answer["seen"]) == ["o4", "o9"]
    assert answer["shown"]["searchableAttributes"] == ["name", "text"]
    assert answer["shown"]["attributesForFaceting"] == ["searchable(kind)", "filterOnly(owner)"]
    assert answer["shown"]["hitsPerPage"] == 2
    assert answer["cleared"] == 0
    assert {"made", "shop"} <= set(answer["listed"])
