"""Changes of another system are stored together with its position."""

from __future__ import annotations

from tests.cluster.conftest import Index, error_of


def _positions(index: Index) -> object:
    return index.get("positions").json["positions"]


def test_position_is_stored_with_its_changes(index: Index) -> None:
    index.configure({})
    assert _positions(index) == {}
    items = [{"id": n, "name": f"item {n}"} for n in range(20)]
    reply = index.post("items/changes", {"put": items, "source": "shop", "position": "1"})
    assert (reply.status, reply.json["created"]) == (200, 20)
    assert _positions(index) == {"shop": "1"}
    change = {"put": [{"id": 3, "name": "changed"}], "delete": [4, "none"]}
    reply = index.post("items/changes", {**change, "source": "shop", "position": "2"})
    assert (reply.json["updated"], reply.json["deleted"]) == (1, 1)
    assert _positions(index) == {"shop": "2"}
    assert index.search(query="changed")["pagination"]["total"] == 1
    assert index.search()["pagination"]["total"] == 19
    # A position alone; another source; forgetting one.
    assert index.post("items/changes", {"source": "shop", "position": "3"}).status == 200
    assert index.post("items/changes", {"source": "queue", "position": "x"}).status == 200
    assert _positions(index) == {"queue": "x", "shop": "3"}
    index.post("items/changes", {"source": "shop", "position": None})
    assert _positions(index) == {"queue": "x"}
    # Other writes leave it as it is.
    index.put([{"id": 99}])
    assert _positions(index) == {"queue": "x"}


def test_changes_for_an_index_are_not_stored_in_another_one_of_its_name(index: Index) -> None:
    """It lacks the changes before, and would have a position after them."""
    index.configure({})
    number = index.get("positions").json["index_number"]
    change = {"put": [{"id": 1}], "source": "shop", "position": "2", "index_number": number}
    assert index.post("items/changes", change).status == 200
    index.client.delete(index.path)
    index.configure({})
    reply = index.post("items/changes", change)
    assert (reply.status, error_of(reply)["code"]) == (409, "index_replaced")
    assert index.search()["pagination"]["total"] == 0
    assert _positions(index) == {}
    change["index_number"] = index.get("positions").json["index_number"]
    assert index.post("items/changes", change).status == 200
    assert index.post("items/changes", {**change, "index_number": None}).status == 200


def test_a_further_source_replaces_the_one_that_wrote_least_recently(index: Index) -> None:
    index.configure({})
    for number in range(16):
        index.post("items/changes", {"source": f"s{number}", "position": "a"})
    index.post("items/changes", {"source": "s0", "position": "b"})
    index.post("items/changes", {"source": "new", "position": "c"})
    names = {"new", *(f"s{number}" for number in range(16))} - {"s1"}
    assert set(index.get("positions").json["positions"]) == names


def test_a_mistake_changes_nothing(index: Index) -> None:
    index.configure({})
    for document, code, text in (
        ({"put": [{"id": 1}, {"name": "no id"}]}, "invalid_id", "put[1]"),
        ({"put": [{"id": 1}], "delete": [-1]}, "invalid_id", "delete[0]"),
        ({"put": [{"id": 1}], "delete": [1]}, "invalid_body", "twice"),
        ({"put": [{"id": 1}], "delete": ["1"]}, "invalid_body", "twice"),
        ({"put": {"id": 1}}, "invalid_body", "put must be a list"),
        ({"put": [{"id": 1}], "source": "shop"}, "invalid_body", "belong together"),
        ({"put": [{"id": 1}], "position": "1"}, "invalid_body", "belong together"),
        ({"put": [{"id": 1}], "source": "", "position": "1"}, "invalid_body", "source must"),
        ({"put": [{"id": 1}], "source": None, "position": "1"}, "invalid_body", "source must"),
        (
            {"put": [{"id": 1}], "source": "s" * 101, "position": "1"},
            "invalid_body",
            "source_chars_max",
        ),
        (
            {"put": [{"id": 1}], "source": "s", "position": "1" * 1001},
            "invalid_body",
            "position_chars_max",
        ),
        ({"put": [{"id": 1}], "index_number": "1"}, "invalid_body", "index_number must"),
        ({"puts": []}, "unknown_parameter", "puts"),
        ([], "invalid_body", "must be an object"),
    ):
        error = error_of(index.post("items/changes", document))
        assert (error["code"], text in error["message"]) == (code, True), error
    assert index.search()["pagination"]["total"] == 0
    assert _positions(index) == {}
    surrogate = b'{"source": "\\ud800", "position": "1"}'
    headers = {"content-type": "application/json"}
    path = f"{index.path}/items/changes"
    assert index.client.request("POST", path, surrogate, headers).status == 400
    for body, code in (
        (b'{"\xff": 1}', "invalid_body"),
        (b'{"delete": ["\xff"]}', "invalid_id"),
        (b'{"source": "\xff", "position": "1"}', "invalid_body"),
        (b'{"source": "s", "position": "\xff"}', "invalid_body"),
    ):
        response = index.client.request("POST", path, body, headers)
        assert (response.status, error_of(response)["code"]) == (400, code), body
