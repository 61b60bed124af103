"""Who may do what: keys, their reach and filters, hosts, origins."""

from __future__ import annotations

import asyncio
import hmac
import time
from base64 import b64encode
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

from common.deadline import Deadline
from common.errors import Unavailable
from common.protocol.messages import FilterClause
from coordinator.cluster.read_only_cluster_and_catalog import ReaderCatalog
from coordinator.http import middleware
from coordinator.http.app import HttpApp
from coordinator.http.metrics import UNROUTED
from coordinator.http.reader_coordinator_forwarding import ReaderMiddleware
from coordinator.http.security.api_keys import Action, StoredKey, shown_key
from coordinator.http.security.listening_without_api_keys import UnsafeAddress
from coordinator.parameters.filter_parser import parse_filter
from coordinator.replication.host.seq_waiters import SeqWaiters
from coordinator.replication.peers.host_and_log_status import HostStatus
from coordinator.routes import ROUTES
from coordinator.settings import Settings
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_client import exchange
from tests.http.raw_requests import request
from tests.waiting import until


async def make_key(web: Web, token: str | None = None, **document: Any) -> str:
    """Create a key; returns its token."""
    headers = [f"X-API-Key: {token}"] if token else []
    reply = await web.post("/_keys", document, *headers)
    assert reply.status == 200, reply.body
    key: str = reply.json["key"]
    return key


async def status(
    web: Web, method: str, target: str, token: str | None, body: bytes | None = None
) -> int:
    headers = [f"Authorization: Bearer {token}"] if token else []
    return (await web.send(request(method, target, body, *headers))).status


async def test_first_key_closes_the_service(web: Web) -> None:
    assert await status(web, "GET", "/films/search", None) == 200

    admin = await make_key(web, actions=["admin"])

    assert await status(web, "GET", "/films/search", None) == 401
    assert await status(web, "GET", "/films/search", "fk_000000000000_" + "x" * 43) == 401
    assert await status(web, "GET", "/films/search", admin[:-1] + "?") == 401
    assert await status(web, "GET", "/films/search", admin) == 403  # admin is not search
    assert await status(web, "GET", "/_keys", admin) == 200
    for target in ("/_health", "/_ready", "/status", "/dashboard", "/_openapi.json"):
        assert await status(web, "GET", target, None) == 200


@pytest.mark.parametrize(
    ("document", "param"),
    [
        ({"actions": ["search"]}, "actions"),
        ({"actions": ["admin"], "indexes": ["films"]}, "indexes"),
        ({"actions": ["admin"], "filter": "year > 1990"}, "filter"),
    ],
)
async def test_first_key_must_be_able_to_make_others(
    web: Web, document: dict[str, Any], param: str
) -> None:
    reply = await web.post("/_keys", document)

    assert (reply.status, reply.code) == (400, "invalid_key")
    assert reply.json["error"]["param"] == param
    assert await status(web, "GET", "/films/search", None) == 200


async def test_key_reaches_its_actions_and_indexes_only(web: Web) -> None:
    for name in ("films-2", "books"):
        assert (await web.post(f"/{name}/configuration", {})).status == 200
    assert (await web.post("/_aliases", {"aliases": {"library": "books"}})).status == 200
    admin = await make_key(web, actions=["admin"])
    reader = await make_key(web, admin, actions=["search"], indexes=["films*", "library"])

    assert await status(web, "GET", "/films/search", reader) == 200
    assert await status(web, "GET", "/films-2/search", reader) == 200
    assert await status(web, "GET", "/library/search", reader) == 200
    assert await status(web, "GET", "/books/search", reader) == 403
    assert await status(web, "GET", "/nope/search", reader) == 403
    assert await status(web, "POST", "/films/items", reader, b"[]") == 403
    assert await status(web, "DELETE", "/films", reader) == 403
    assert await status(web, "GET", "/_stats", reader) == 403


@pytest.mark.parametrize("name", ["x-algolia-api-key", "X-Algolia-API-Key", "X-ALGOLIA-API-KEY"])
async def test_algolias_clients_name_their_key_in_the_query_string(web: Web, name: str) -> None:
    key = await make_key(web, actions=["admin", "search"])
    target = f"/1/indexes/films?query=a&X-Algolia-Application-Id=app&{name}={key}"

    reply = await web.get(target)

    assert reply.status == 200, reply.body
    assert reply.json["params"] == "query=a"
    assert (await web.get(target[:-1])).status == 401


async def test_algolias_clients_may_send_the_whole_address(web: Web) -> None:
    key = await make_key(web, actions=["admin", "search"])
    target = "http://127.0.0.1/1/indexes/films?query=a"

    reply = await web.send(request("GET", target, None, f"X-Algolia-API-Key: {key}"))

    assert reply.status == 200, reply.body
    refused = await web.send(request("GET", target, None, f"X-Algolia-API-Key: {key[:-1]}"))
    assert (refused.status, refused.json["status"]) == (401, 401)


@pytest.mark.parametrize("kind", ["foreign", "unknown"])
async def test_other_indexes_look_like_none(web: Web, kind: str) -> None:
    admin = await make_key(web, actions=["admin"])
    if kind == "foreign":
        maker = await make_key(web, admin, actions=["configure"])
        body = request("POST", "/books/configuration", b"{}", f"X-API-Key: {maker}")
        assert (await web.send(body)).status == 200
        aliases = b'{"aliases":{"library":"books","top":"films"}}'
        assert await status(web, "POST", "/_aliases", admin, aliases) == 200
    else:
        assert await status(web, "POST", "/_aliases", admin, b'{"aliases":{"top":"films"}}') == 200
    reader = await make_key(web, admin, actions=["search"], indexes=["films*"])
    key = f"X-API-Key: {reader}"

    for name in ("books", "library"):
        for target in (f"/{name}/search", f"/{name}/facet?name=x", f"/{name}/status"):
            reply = await web.send(request("GET", target, None, key))
            assert (reply.status, reply.code) == (403, "forbidden"), target
            assert reply.json["error"]["message"] == f"the API key is not for index '{name}'"
        searches = b'{"searches":[{"index":"films"},{"index":"%b"}]}' % name.encode()
        reply = await web.send(request("POST", "/_search", searches, key))
        assert reply.status == 200
        good, bad = reply.json["results"]
        assert "data" in good
        assert bad["error"]["code"] == "forbidden"
        assert bad["error"]["message"] == f"the API key is not for index '{name}'"
        assert bad["error"]["param"] == "searches[1]"
        searches = b'{"searches":[{"index":"%b"}]}' % name.encode()
        assert await status(web, "POST", "/_search", reader, searches) == 403
    listed = await web.send(request("GET", "/_aliases", None, key))
    assert listed.json == {"aliases": {"top": "films"}}


async def test_one_bad_search_of_many_fails_alone(web: Web) -> None:
    searches: list[dict[str, Any]] = [
        {"index": "films", "page": 0},
        {"index": "films"},
        {"index": "nope"},
    ]

    reply = await web.post("/_search", {"searches": searches})

    assert reply.status == 200
    wrong, right, missing = reply.json["results"]
    assert wrong["error"]["status"] == 400
    assert wrong["error"]["param"] == "searches[0].page"
    assert right["data"]["items"]
    assert (missing["error"]["status"], missing["error"]["code"]) == (404, "index_not_found")
    reply = await web.post("/_search", {"searches": [searches[2], searches[0]]})
    assert (reply.status, reply.code) == (404, "index_not_found")


async def test_admin_of_some_indexes_is_held_to_them(web: Web) -> None:
    root = await make_key(web, actions=["admin", "configure"])
    for name in ("pub-a", "secret"):
        made = request("POST", f"/{name}/configuration", b"{}", f"X-API-Key: {root}")
        assert (await web.send(made)).status == 200
    foreign = await make_key(web, root, actions=["search"], indexes=["secret"])
    actions = ["admin", "configure", "search", "write"]
    admin = await make_key(web, root, actions=actions, indexes=["pub*", "top"])
    key = f"X-API-Key: {admin}"

    for wanted in (["*"], ["pub*", "secret"], ["p*"], ["*pub"], ["pu*b"], [], None):
        document: dict[str, Any] = {"actions": ["search"]}
        if wanted is not None:
            document["indexes"] = wanted
        reply = await web.post("/_keys", document, key)
        assert reply.status == (400 if wanted == [] else 403), wanted
    for wanted in (["pub*"], ["pub-*", "pub-a"], ["pub*x*"], ["top"]):
        token = await make_key(web, admin, actions=["search", "admin"], indexes=wanted)
        assert await status(web, "DELETE", f"/_keys/{token.split('_')[1]}", admin) == 200

    listed = await web.send(request("GET", "/_keys", None, key))
    assert [one["id"] for one in listed.json["keys"]] == [admin.split("_")[1]]
    listed = await web.send(request("GET", "/1/keys", None, key))
    assert [one["value"] for one in listed.json["keys"]] == [admin.split("_")[1]]
    assert await status(web, "GET", f"/1/keys/{admin}", admin) == 200
    for other in (foreign, root):
        for named in (other, other.split("_")[1]):
            for method in ("GET", "DELETE"):
                assert await status(web, method, f"/1/keys/{named}", admin) == 404
        reply = await web.send(request("DELETE", f"/_keys/{other.split('_')[1]}", None, key))
        assert (reply.status, reply.code) == (404, "key_not_found")

    for changes in ({"pub-x": "secret"}, {"pub-x": "nope"}, {"secret-x": "pub-a"}, {"other": None}):
        reply = await web.post("/_aliases", {"aliases": changes}, key)
        assert (reply.status, reply.code) == (403, "forbidden"), changes
    assert (await web.post("/_aliases", {"aliases": {"top": "pub-a"}}, key)).status == 200

    for method, target, body in (
        ("GET", "/_stats", None),
        ("GET", "/_metrics", None),
        ("GET", "/_snapshots", None),
        ("POST", "/_snapshots", b'{"name":"mine"}'),
        ("DELETE", "/_snapshots/mine", None),
        ("POST", "/_snapshots/mine/restore", b"{}"),
        ("POST", "/_snapshots/mine/restore", b'{"indexes":["secret"]}'),
        ("POST", "/_snapshots/mine/restore", b'{"indexes":["pub-a"],"rename":{"pub-a":"x"}}'),
    ):
        assert await status(web, method, target, admin, body) == 403, target
    for action in ("rename", "copy"):
        for index, new_name in (("pub-a", "secret-2"), ("secret", "pub-b")):
            made = request("POST", f"/{index}/{action}", b'{"to":"%b"}' % new_name.encode(), key)
            assert (await web.send(made)).status in (403, 404), (action, index)
    body = b'{"indexes":["pub-a"],"rename":{"pub-a":"pub-b"}}'
    assert await status(web, "POST", "/_snapshots/mine/restore", admin, body) == 404


@pytest.mark.parametrize("action", ["rename", "copy"])
async def test_what_gives_items_another_name_needs_the_right_to_read_and_write_them(
    web: Web, action: str
) -> None:
    root = await make_key(web, actions=["admin"])
    needed = ["configure", "search", "write"]
    body = b'{"to":"films-2"}'
    for missing in (*needed, None):
        actions = [one for one in needed if one != missing]
        key = f"X-API-Key: {await make_key(web, root, actions=actions, indexes=['films*'])}"
        reply = await web.send(request("POST", f"/films/{action}", body, key))
        assert (reply.status == 403) is bool(missing), missing
        if missing:
            message = reply.json["error"]["message"]
            assert message.startswith(f"the API key does not allow {missing}; it allows ")


async def test_foreign_indexes_of_algolias_protocol_tell_nothing(web: Web) -> None:
    root = await make_key(web, actions=["admin", "configure"])
    for name in ("secret", "secret:year:desc"):
        made = request("POST", f"/{name}/configuration", b"{}", f"X-API-Key: {root}")
        assert (await web.send(made)).status == 200
    key = f"X-API-Key: {await make_key(web, root, actions=['search'], indexes=['pub*'])}"

    messages = []
    for name in ("secret", "nope"):
        for order in ("", ":year:desc", ":year:asc"):
            reply = await web.post(f"/1/indexes/{name}{order}/query", {}, key)
            assert reply.status == 403
            messages.append(reply.json["message"].replace(name, "?"))

    assert messages[:3] == messages[3:]


async def test_expiry_that_no_date_shows_is_refused(web: Web) -> None:
    admin = await make_key(web, actions=["admin"])
    for moment in ("9999-12-31T23:59:59.999999", "9999-12-31T23:59:59.5+00:00"):
        reply = await web.post(
            "/_keys", {"actions": ["search"], "expires_at": moment}, f"X-API-Key: {admin}"
        )
        assert (reply.status, reply.code) == (400, "invalid_key")
        assert "9999-12-31T23:59:59+00:00" in reply.json["error"]["message"]
    await make_key(web, admin, actions=["search"], expires_at="9999-12-31T23:59:59Z")

    listed = await web.send(request("GET", "/_keys", None, f"X-API-Key: {admin}"))

    expiries = {one["expires_at"] for one in listed.json["keys"]}
    assert expiries == {None, "9999-12-31T23:59:59+00:00"}


@pytest.mark.parametrize("expires", [253402300799.999999, 1e12, 1e300])
def test_stored_expiry_beyond_all_dates_is_shown(expires: float) -> None:
    stored = StoredKey("", "", (Action.SEARCH,), ("*",), "2026-01-01", expires)

    assert shown_key("0", stored)["expires_at"] == "9999-12-31T23:59:59+00:00"


async def test_filter_of_a_key_narrows_every_search(web: Web) -> None:
    admin = await make_key(web, actions=["admin"])
    tenant = await make_key(
        web, admin, actions=["search", "write"], filter="tenant = 7 AND NOT tags = secret"
    )
    forced = FilterClause(parse_filter("tenant = 7 AND NOT tags = secret"))

    for target in (
        "/films/search?filter=year%20>%201",
        "/films/facet?name=tags",
        "/films/items",
        "/films/items/1",
        "/1/indexes/films/1",
    ):
        assert await status(web, "GET", target, tenant) == 200
        asked: Any = web.search.asked[-1]
        search = getattr(asked, "search", asked)
        assert search.filters[-1] == forced
        assert all(spec.configuration.hide_zero for spec in search.facets)
    assert await status(web, "POST", "/films/items", tenant, b"[]") == 403
    assert await status(web, "PATCH", "/films/items", tenant, b'[{"id":1,"tenant":8}]') == 403
    assert await status(web, "GET", "/films/stats", tenant) == 403
    assert await status(web, "POST", "/films/items/delete", tenant, b'{"ids":[1]}') == 403


@pytest.mark.parametrize(
    ("condition", "field", "is_refused"),
    [
        ("tenant = 7", "tenant", True),
        ("tenant = 7", "tenants", False),
        ("NOT (year < 2 OR tags IN [a, b])", "tags", True),
        ("owner.id = 7", "owner", True),
        ("owner.id = 7", "owner.id", True),
        ("owner EXISTS", "owner.id", True),
        ("owner.id = 7", "owner.name", False),
        ("owners{id = 7 AND role = editor}", "owners", True),
        ("_geoRadius(1, 2, 3)", "_geo", True),
        ("_count(tags) > 1", "tags", True),
        ("id = 1", "name", False),
    ],
)
async def test_a_key_with_a_filter_gives_no_item_away(
    web: Web, condition: str, field: str, *, is_refused: bool
) -> None:
    facets = ("tags", "owners.id", "owners.role")
    configuration = {"aggregations": {name: {} for name in facets}, "nested": ["owners"]}
    assert (await web.post("/films/configuration", configuration)).status == 200
    admin = await make_key(web, actions=["admin"])
    tenant = await make_key(web, admin, actions=["write"], filter=condition)
    change = {"filter": "", "fields": {field: 8}}

    reply = await web.post("/films/items/update", change, f"X-API-Key: {tenant}")

    if is_refused:
        assert (reply.status, reply.code) == (403, "forbidden"), reply.body
        assert reply.json["error"]["param"] == f"fields.{field}"
    else:
        assert reply.status == 200, reply.body


async def test_a_secured_key_of_algolias_clients_is_told_what_it_is_here(web: Web) -> None:
    key = await make_key(web, actions=["admin"])
    parameters = "filters=tenant%3A7&validUntil=1999999999"
    signature = hmac.new(key.encode(), parameters.encode(), "sha256").hexdigest()
    secured = b64encode(f"{signature}{parameters}".encode()).decode()

    refused = await web.send(request("GET", "/films/search", None, f"X-API-Key: {secured}"))
    wrong = await web.send(request("GET", "/films/search", None, "X-API-Key: YWJj"))

    assert (refused.status, wrong.status) == (401, 401)
    assert "facetd.tenant_token" in refused.json["error"]["message"]
    assert "ask an operator" in wrong.json["error"]["message"]


async def test_a_key_with_a_filter_learns_no_sizes_of_indexes(web: Web) -> None:
    admin = await make_key(web, actions=["admin"])
    tenant = await make_key(web, admin, actions=["search"], filter="tenant = 7")

    reply = await web.send(request("GET", "/_indexes", None, f"X-API-Key: {tenant}"))

    assert reply.status == 200
    (films,) = reply.json["indexes"]
    assert films.keys() == {"name", "facets", "revision", "aliases"}


async def test_expired_key_is_refused(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = await make_key(web, actions=["admin"])
    short = await make_key(web, admin, actions=["search"], expires_in_seconds=60)
    assert (await web.send(request("GET", "/status", None, f"X-API-Key: {short}"))).status == 200
    now = time.time()
    monkeypatch.setattr("coordinator.http.security.access_control.time.time", lambda: now + 61)

    reply = await web.send(request("GET", "/films/search", None, f"X-API-Key: {short}"))

    assert reply.status == 401
    assert "expired" in reply.json["error"]["message"]
    assert reply.headers["www-authenticate"].startswith("Bearer")


async def test_keys_are_hashed_at_rest_and_never_shown_again(web: Web) -> None:
    admin = await make_key(web, actions=["admin"], description="for operators")
    secret = admin.split("_", 2)[2]

    stored = (web.services.settings.data_dir / "catalog.json").read_bytes()
    listed = await web.send(request("GET", "/_keys", None, f"X-API-Key: {admin}"))

    assert secret.encode() not in stored
    assert secret.encode() not in listed.body
    assert listed.json["keys"][0]["description"] == "for operators"


async def test_last_admin_key_goes_last(web: Web) -> None:
    admin = await make_key(web, actions=["admin"])
    reader = await make_key(web, admin, actions=["search"])

    assert await status(web, "DELETE", f"/_keys/{admin.split('_')[1]}", admin) == 400
    assert await status(web, "DELETE", f"/_keys/{reader.split('_')[1]}", admin) == 200
    assert await status(web, "DELETE", f"/_keys/{admin.split('_')[1]}", admin) == 200
    assert await status(web, "GET", "/films/search", None) == 200


async def test_a_key_that_has_expired_administers_nothing(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = await make_key(web, actions=["admin"])
    other = await make_key(web, admin, actions=["admin"], expires_in_seconds=3_600)
    path, of_other = (f"/_keys/{key.split('_')[1]}" for key in (admin, other))

    later = time.time() + 3_601
    monkeypatch.setattr(time, "time", lambda: later)
    assert await status(web, "DELETE", path, admin) == 400
    assert await status(web, "DELETE", of_other, admin) == 200
    assert await status(web, "DELETE", path, admin) == 200


@pytest.mark.parametrize("path", ["/_keys", "/1/keys"])
async def test_last_key_stays_where_everyone_could_connect(
    web: Web, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(Settings, "is_exposed", True)
    admin = await make_key(web, actions=["admin"])
    reader = await make_key(web, admin, actions=["search"])
    key = f"X-API-Key: {admin}"

    # Both at once: when the deletion of the last key is asked for, it is not the last one yet.
    first, second = await asyncio.gather(
        web.send(request("DELETE", f"{path}/{reader.split('_')[1]}", None, key)),
        web.send(request("DELETE", f"{path}/{admin.split('_')[1]}", None, key)),
    )

    assert (first.status, second.status, second.code) == (200, 400, "invalid_key")
    assert await status(web, "GET", "/films/search", None) == 401


async def test_a_client_without_a_key_does_not_wait_for_fresh_data(web: Web) -> None:
    waited: list[int] = []

    async def wait_for(seq: int, _: object) -> None:
        waited.append(seq)

    log = SimpleNamespace(serving=SimpleNamespace(wait_for=wait_for, shown_seq=7))
    object.__setattr__(web.services, "shared_log", log)
    admin = await make_key(web, actions=["admin", "search"])

    refused = await web.send(request("GET", "/films/search", None, "X-Min-Seq: 9"))
    assert (refused.status, waited) == (401, [])
    key = f"X-API-Key: {admin}"
    answered = await web.send(request("GET", "/films/search", None, "X-Min-Seq: 9", key))
    assert (answered.status, waited) == (200, [9])


async def test_a_key_made_on_another_host_is_waited_for_by_its_seq(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused at once, whatever the request required."""
    monkeypatch.setattr(middleware, "KEY_WAIT_MS", 50)
    serving = SimpleNamespace(shown_seq=7)
    waiters = SeqWaiters(lambda: serving.shown_seq)

    async def wait_for(seq: int, deadline: Deadline) -> None:
        if serving.shown_seq < seq:
            await waiters.wait(seq, deadline)

    serving.wait_for = wait_for
    object.__setattr__(web.services, "shared_log", SimpleNamespace(serving=serving))
    admin = await make_key(web, actions=["admin"])
    key = f"X-API-Key: {admin}"
    callers = web.services.guard._callers
    known = dict(callers)
    del callers[admin.split("_")[1]]
    callers["other"] = next(iter(known.values()))

    async def answer(seq: int) -> int:
        return (await web.send(request("GET", "/_keys", None, key, f"X-Min-Seq: {seq}"))).status

    assert await answer(7) == 401  # this host has the entry: nothing is to come
    assert await answer(9) == 401  # it did not come in time
    monkeypatch.setattr(middleware, "KEY_WAIT_MS", 20_000)
    asking = asyncio.ensure_future(answer(9))
    await until(lambda: bool(waiters._waiters) or asking.done())
    callers.update(known)
    serving.shown_seq = 9
    waiters.reach(9)
    assert await asking == 200


async def test_changes_without_a_seq_in_their_body_name_it_in_a_header(web: Web) -> None:
    """With several hosts: the next request names the entry that another host must have."""
    paths = ("/other/configuration", "/other/items", "/other/search")
    alone = [await web.post(path, {}) for path in paths]
    log = SimpleNamespace(serving=SimpleNamespace(shown_seq=7))
    object.__setattr__(web.services, "shared_log", log)
    shared = [await web.post(path, {}) for path in paths]

    assert [reply.status for reply in (*alone, *shared)] == [200] * 6
    assert [reply.headers.get("x-seq") for reply in alone] == [None] * 3
    assert [reply.headers.get("x-seq") for reply in shared] == ["7", None, None]


async def test_health_names_indexes_to_admins_alone(web: Web) -> None:
    numbers: dict[str, Any] = dict.fromkeys(HostStatus._fields, 0)
    state = HostStatus(**{**numbers, "trouble": "", "difference": "b: index 'secret' is missing"})
    object.__setattr__(
        web.services,
        "shared_log",
        SimpleNamespace(state=state, serving=SimpleNamespace(shown_seq=7)),
    )
    assert (await web.get("/_health")).json["replica"]["difference"] == state.difference
    admin = await make_key(web, actions=["admin"])
    reader = await make_key(web, admin, actions=["search"])

    def health(*headers: str) -> bytes:
        return request("GET", "/_health", None, *headers)

    for key in ((), (f"X-API-Key: {reader}",)):
        replica = (await web.send(health(*key))).json["replica"]
        assert "secret" not in replica["difference"]
        assert replica["difference"]
        assert not replica["trouble"]
    told = (await web.send(health(f"X-API-Key: {admin}"))).json["replica"]
    assert told["difference"] == state.difference


async def test_network_address_needs_a_key_or_a_word(make_web: MakeWeb) -> None:
    with pytest.raises(UnsafeAddress, match="--insecure"):
        await make_web(host="0.0.0.0")


async def test_insecure_is_a_word(make_web: MakeWeb) -> None:
    web = await make_web(host="0.0.0.0", insecure=True)

    assert await status(web, "GET", "/films/search", None) == 200


async def test_key_holder_may_use_any_host_name(web: Web) -> None:
    host = b"Host: search.example\r\n"
    assert (await web.send(request("GET", "/films/search", host=host))).status == 403

    admin = await make_key(web, actions=["admin", "search"])
    reply = await web.send(request("GET", "/films/search", None, f"X-API-Key: {admin}", host=host))

    assert reply.status == 200


async def test_allowed_hosts_are_a_setting(make_web: MakeWeb) -> None:
    web = await make_web(allowed_hosts=("search.example",))

    reply = await web.send(request("GET", "/status", host=b"Host: SEARCH.example:80\r\n"))

    assert reply.status == 200


async def test_the_message_names_a_host_as_the_setting_takes_it(make_web: MakeWeb) -> None:
    web = await make_web()
    refused = await web.send(request("GET", "/status", host=b"Host: facetd:3000\r\n"))
    message = refused.json["error"]["message"]
    assert "'facetd' need an API key" in message
    assert "FACETD_ALLOWED_HOSTS" in message


async def test_pages_of_other_origins_get_no_cors_by_default(web: Web) -> None:
    reply = await web.send(request("GET", "/films/search", None, "Origin: https://shop.example"))

    assert "access-control-allow-origin" not in reply.headers


async def test_configured_origin_may_read_and_write(make_web: MakeWeb) -> None:
    web = await make_web(allowed_origins=("https://shop.example",))
    origin = "Origin: https://shop.example"

    read = await web.send(request("GET", "/films/search", None, origin))
    write = await web.send(request("POST", "/films/items", b"[]", origin))
    preflight = await web.send(
        request("OPTIONS", "/films/items", None, origin, "Access-Control-Request-Method: POST")
    )
    stranger = await web.send(
        request(
            "OPTIONS",
            "/films/items",
            None,
            "Origin: https://x.example",
            "Access-Control-Request-Method: POST",
        )
    )
    failed = await web.send(request("GET", "/nope/search", None, origin))

    for reply in (read, write, preflight, failed):
        assert reply.headers["access-control-allow-origin"] == "https://shop.example"
    assert preflight.status == 204
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "access-control-allow-origin" not in stranger.headers
    assert "access-control-allow-methods" not in stranger.headers


async def test_a_preflight_is_answered_for_a_host_that_its_request_may_name(
    make_web: MakeWeb,
) -> None:
    """A preflight never has a key; with one, a request may name any host."""
    web = await make_web(allowed_origins=("https://shop.example",))
    key = await make_key(web, actions=["admin", "search"])
    host, origin = b"Host: search.example\r\n", "Origin: https://shop.example"
    asks = ("Access-Control-Request-Method: GET", "Access-Control-Request-Headers: x-api-key")

    preflight = await web.send(request("OPTIONS", "/films/search", None, origin, *asks, host=host))
    real = await web.send(
        request("GET", "/films/search", None, origin, f"X-API-Key: {key}", host=host)
    )
    keyless = await web.send(request("GET", "/films/search", None, origin, host=host))

    assert (preflight.status, real.status) == (204, 200)
    assert "X-API-Key" in preflight.headers["access-control-allow-headers"]
    assert (keyless.status, keyless.code) == (403, "host_not_allowed")
    assert keyless.headers["access-control-allow-origin"] == "https://shop.example"


async def test_a_page_may_read_what_a_reader_refuses_at_once(make_web: MakeWeb) -> None:
    web = await make_web(allowed_origins=("https://shop.example",))
    catalog = create_autospec(ReaderCatalog, instance=True, is_current=False)
    catalog.catch_up.side_effect = Unavailable("the owner is away")
    reader = replace(web.services, outbox=Mock(), catalog=catalog)
    app = HttpApp(reader, ReaderMiddleware(reader, ROUTES))
    port = await app.start(reader.settings.host, 0)
    reply = await exchange(
        port, request("GET", "/films/search", None, "Origin: https://shop.example")
    )
    await app.stop(0.0)

    assert reply.status == 503
    assert reply.headers["access-control-allow-origin"] == "https://shop.example"
    assert web.services.metrics.route(UNROUTED).statuses == {503: 1}


async def test_algolias_clients_may_come_from_configured_origins(make_web: MakeWeb) -> None:
    web = await make_web(allowed_origins=("https://shop.example",))
    ours, other = "Origin: https://shop.example", "Origin: https://x.example"
    asks = "Access-Control-Request-Method: PUT"
    preflight = await web.send(request("OPTIONS", "/1/indexes/films/1", None, ours, asks))
    body = b'{"requests":[{"indexName":"films"}]}'

    def sent(target: str, origin: str) -> bytes:
        return request("POST", target, body, origin, content_type="text/plain")

    search = await web.send(sent("/1/indexes/*/queries", ours))
    write = await web.send(sent("/1/indexes/films/batch", other))

    assert "PUT" in preflight.headers["access-control-allow-methods"]
    assert "X-Algolia-API-Key" in preflight.headers["access-control-allow-headers"]
    assert "If-None-Match" in preflight.headers["access-control-allow-headers"]
    assert search.status == 200
    assert search.headers["access-control-allow-origin"] == "https://shop.example"
    # What a browser sends without asking first changes nothing from another origin.
    assert (write.status, write.code) == (403, "origin_not_allowed")


async def test_rate_of_a_client_is_limited_where_the_setting_says_so(make_web: MakeWeb) -> None:
    web = await make_web(client_requests_per_second=0.01, client_burst=4)
    search = request("GET", "/films/search")
    # The fixture has written one item already.
    replies = [await web.send(search) for _ in range(4)]

    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    assert replies[-1].code == "too_many_requests"
    assert 90 <= int(replies[-1].headers["retry-after"]) <= 100
    assert (await web.get("/_health")).status == (await web.get("/_docs")).status == 200
    assert (await web.send(request("POST", "/films/items", b"[]"))).status == 429


async def test_each_key_has_a_rate_of_its_own(make_web: MakeWeb) -> None:
    web = await make_web(client_requests_per_second=0.01, client_burst=3)
    admin = await make_key(web, actions=["admin", "search"])
    reader = await make_key(web, admin, actions=["search"])

    asked = [await status(web, "GET", "/films/search", admin) for _ in range(3)]
    assert asked == [200, 200, 429]
    assert await status(web, "GET", "/films/search", reader) == 200


async def test_visitors_with_the_same_key_have_rates_of_their_own(make_web: MakeWeb) -> None:
    web = await make_web(
        client_requests_per_second=0.01, client_burst=2, trusted_proxies=("127.0.0.1",)
    )
    key = await make_key(web, actions=["admin", "search"])

    async def asked(address: str) -> list[int]:
        search = request(
            "GET", "/films/search", None, f"X-API-Key: {key}", f"X-Forwarded-For: {address}"
        )
        return [(await web.send(search)).status for _ in range(3)]

    assert await asked("192.0.2.1") == [200, 200, 429]
    assert await asked("192.0.2.2") == [200, 200, 429]
