"""The Python client, blocking and asynchronous, against a server with scripted responses."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import pickle
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest

import facetd
from coordinator.http.api_description.schemas.components import SCHEMAS
from facetd import (
    ApiError,
    AsyncClient,
    BadRequest,
    Client,
    ConnectionFailed,
    FacetdError,
    NotFound,
    Retries,
    TooManyRequests,
    Unavailable,
    results,
    tenant_token,
)
from facetd.calls import address_of, encoded
from facetd.tokens import signing_key
from tests.facetd.scripted import serving

QUICK = Retries(first_wait=0.001)
PAGE = {
    "pagination": {"per_page": 10, "page": 1, "total": 1},
    "timings": {"total": 0},
    "data": {
        "items": [{"id": 1}],
        "aggregations": {
            "year": {
                "name": "year",
                "title": "Year",
                "position": 1,
                "buckets": [{"key": "1972", "doc_count": 1, "selected": False}],
            }
        },
    },
    "meta": {
        "request_id": "r",
        "seq": 3,
        "took_us": 9,
        "shards": {"total": 1, "ok": 1, "failed": 0},
    },
}
WRITTEN = {"status": "indexed", "created": 1, "updated": 0, "rejected": 0, "errors": [], "seq": 3}

Use = Callable[..., Any]


def blocking(url: str, use: Callable[[Any], Any], **options: Any) -> Any:
    with Client(url, **{"retries": QUICK, **options}) as client:
        return use(client)


def asynchronous(url: str, use: Callable[[Any], Any], **options: Any) -> Any:
    async def run() -> Any:
        async with AsyncClient(url, **{"retries": QUICK, **options}) as client:
            answer = use(client)
            if hasattr(answer, "__aiter__"):
                return [item async for item in answer]
            return await answer

    return asyncio.run(run())


@pytest.fixture(params=[blocking, asynchronous], ids=["blocking", "asynchronous"])
def use(request: pytest.FixtureRequest) -> Use:
    run: Use = request.param
    return run


def exported(client: Any, **parameters: Any) -> Any:
    items = client.export("a", **parameters)
    return list(items) if isinstance(client, Client) else items


def error(code: str, status: int, **more: Any) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"code": code, "message": "no", "status": status, **more}}


def test_search_is_typed(use: Use) -> None:
    with serving((200, PAGE)) as server:
        found = use(server.url, lambda c: c.search("a/b", query="x", per_page=3), key="fk_1_2")

    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/a%2Fb/search")
    assert asked.body == b'{"query":"x","per_page":3}'
    assert asked.headers["authorization"] == "Bearer fk_1_2"
    assert (found.total, found.items, found.facets["year"].counts) == (1, [{"id": 1}], {"1972": 1})


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (results.SearchPage, "SearchAnswer"),
        (results.Pagination, "SearchAnswer.pagination"),
        (results.SearchData, "SearchAnswer.data"),
        (results.Facet, "SearchAnswer.data.aggregations.*"),
        (results.Bucket, "SearchAnswer.data.aggregations.*.buckets.*"),
        (results.FacetStatistics, "SearchAnswer.data.aggregations.*.facet_stats"),
        (results.TreeNode, "TreeNode"),
        (results.Meta, "SearchAnswer.meta"),
        (results.Shards, "SearchAnswer.meta.shards"),
        (results.FacetPage, "FacetAnswer"),
        (results.Suggestion, "Suggestions.data.suggestions.*"),
        (results.Explanation, "Explanation.data"),
        (results.WriteResult, "WriteAnswer"),
        (results.ConfigurationResult, "ConfigurationAnswer"),
    ],
)
def test_results_have_all_that_the_service_describes(kind: type[msgspec.Struct], path: str) -> None:
    first, *names = path.split(".")
    described = SCHEMAS[first]
    for name in names:
        if name == "*":
            described = described.get("items") or described["additionalProperties"]
        else:
            described = described["properties"][name]

    unknown = {"timings", "id"} if kind is not results.Explanation else set()
    assert described["properties"].keys() - unknown <= set(kind.__struct_fields__)


def test_several_searches_are_typed(use: Use) -> None:
    with serving((200, {"results": [PAGE, PAGE]})) as server:
        found = use(server.url, lambda c: c.searches({"index": "a"}, {"index": "b"}))

    assert [page.total for page in found] == [1, 1]


def test_a_failed_search_among_several_raises_its_error(use: Use) -> None:
    status, failure = error("index_not_found", 404, param="searches[1].index")
    with serving((200, {"results": [PAGE, failure]})) as server, pytest.raises(NotFound) as caught:
        use(server.url, lambda c: c.searches({"index": "a"}, {"index": "b"}))

    assert (caught.value.status, caught.value.param) == (status, "searches[1].index")


def test_prefix_of_a_proxy_stands_before_every_path(use: Use) -> None:
    with serving((200, PAGE), prefix="/search/films") as server:
        use(server.url + "/", lambda c: c.search("a"))

    assert server.asked[0].path == "/search/films/a/search"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error("index_not_found", 404), NotFound),
        (error("invalid_page", 400, param="page"), BadRequest),
        ((418, b"<html>"), BadRequest),
        ((502, b"<html>"), facetd.ServerError),
        ((502, b'{"error": "\xff"}'), facetd.ServerError),
    ],
)
def test_errors_are_typed_and_final(use: Use, answer: Any, kind: type[ApiError]) -> None:
    with serving(answer) as server, pytest.raises(kind) as caught:
        use(server.url, lambda c: c.search("a"))

    assert type(caught.value) is kind
    assert caught.value.status == answer[0]
    assert len(server.asked) == 1
    if isinstance(answer[1], dict):
        assert caught.value.code == answer[1]["error"]["code"]
        assert caught.value.param == answer[1]["error"].get("param")


@pytest.mark.parametrize(
    "failure", ["hang up", error("shard_unavailable", 503), error("deadline_exceeded", 504)]
)
@pytest.mark.parametrize(
    ("call", "is_repeated"),
    [
        (lambda c: c.search("a"), True),
        (lambda c: c.get("a", 1), True),
        (lambda c: c.add("a", [{"id": 1}]), True),
        (lambda c: c.delete("a", [1]), True),
        (lambda c: c.update("a", 1, {"b": 2}), True),
        (lambda c: c.update_items("a", [{"id": 1, "b": 2}]), True),
        (lambda c: c.add("a", [{"id": 1}, {"name": "without id"}]), False),
        (lambda c: c.update("a", 1, {"b": 2}, version='"1"'), False),
        (lambda c: c.load("a", [{"id": 1}]), False),
        (lambda c: c.rename("a", "b"), False),
        (lambda c: c.copy("a", "b"), False),
    ],
)
def test_only_what_cannot_happen_twice_is_sent_again(
    use: Use, failure: Any, call: Callable[[Any], Any], is_repeated: bool
) -> None:
    good = (200, {**PAGE, **WRITTEN})
    with serving(failure, good) as server:
        if is_repeated:
            use(server.url, call)
        else:
            with pytest.raises((ConnectionFailed, Unavailable)) as caught:
                use(server.url, call)
            assert getattr(caught.value, "was_sent", True)

    assert len(server.asked) == 1 + is_repeated
    assert len({(asked.path, asked.body) for asked in server.asked}) == 1


def test_any_call_that_was_refused_unread_is_retried(use: Use) -> None:
    busy = error("overloaded", 503)
    limited = (*error("too_many_requests", 429), {"Retry-After": "0"})
    with serving(busy, limited, (200, WRITTEN)) as server:
        use(server.url, lambda c: c.add("a", [{"name": "without id"}]))
    assert len(server.asked) == 3

    with serving(*[limited] * 4) as server, pytest.raises(TooManyRequests):
        use(server.url, lambda c: c.search("a"))
    assert len(server.asked) == 4


def test_a_service_that_starts_is_waited_for(use: Use) -> None:
    starting = error("starting", 503)
    with serving(*[starting] * 8, (200, PAGE)) as server:
        assert use(server.url, lambda c: c.search("a")).total == 1
    assert len(server.asked) == 9

    patience = Retries(first_wait=0.001, tries_while_starting=6)
    with serving(*[starting] * 6) as server, pytest.raises(Unavailable):
        use(server.url, lambda c: c.search("a"), retries=patience)
    assert len(server.asked) == 6

    with serving(starting) as server, pytest.raises(Unavailable):
        use(server.url, lambda c: c.search("a"), retries=Retries(tries=1))


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (lambda c: c.add("a", {"id": 1}), b'[{"id":1}]'),
        (lambda c: c.add("a", ({"id": n} for n in range(2))), b'[{"id":0},{"id":1}]'),
        (lambda c: c.delete("a", "abc"), b'{"ids":["abc"]}'),  # not a, b and c
        (lambda c: c.delete("a", 5), b'{"ids":[5]}'),
        (lambda c: c.delete("a", range(2)), b'{"ids":[0,1]}'),
    ],
)
def test_one_item_and_one_id_need_no_list(
    use: Use, call: Callable[[Any], Any], body: bytes
) -> None:
    with serving((200, WRITTEN)) as server:
        use(server.url, call)
    assert server.asked[0].body == body


@pytest.mark.parametrize("items", [{"id": 1}, '{"id": 1}', b'{"id": 1}', ["{}"]])
def test_a_load_of_what_are_no_items_is_an_error_of_the_caller(use: Use, items: Any) -> None:
    with serving((200, WRITTEN)) as server, pytest.raises(TypeError, match="an item is a dict"):
        use(server.url, lambda c: c.load("a", items))


@pytest.mark.parametrize("code", ["starting", "overloaded"])
def test_a_stream_is_never_retried(use: Use, code: str) -> None:
    """What was read of it is gone: the rest alone would be loaded, and reported as success."""
    with serving(error(code, 503), (200, WRITTEN)) as server, pytest.raises(Unavailable):
        use(server.url, lambda c: c.load("a", ({"id": n} for n in range(3))))
    assert len(server.asked) == 1


def test_a_start_is_waited_for_while_the_port_changes_hands() -> None:
    """The refused connection is a part of the start, and neither counts as a failed try."""
    tries = Retries(tries=2).begin(is_repeatable=False, is_stream=False)
    starting = facetd.ApiError(503, {"code": "starting"})
    refused = ConnectionFailed("refused", was_sent=False)
    assert None not in [tries.wait_after(one) for one in (starting, starting, refused, starting)]
    assert tries.wait_after(facetd.ApiError(503, {"code": "overloaded"})) is not None
    assert tries.wait_after(ConnectionFailed("broke", was_sent=True)) is None


def test_a_long_retry_after_is_left_to_the_caller(use: Use) -> None:
    later = (*error("overloaded", 503), {"Retry-After": "60"})
    with serving(later) as server, pytest.raises(Unavailable) as caught:
        use(server.url, lambda c: c.search("a"))

    assert caught.value.retry_after == 60


@pytest.mark.parametrize(
    "call",
    [
        lambda use, url: use(url, lambda c: c.add("a", [{}])),
        lambda use, url: use(url, exported),
    ],
    ids=["add", "export"],
)
def test_an_unreachable_service_is_an_error_that_says_that_nothing_was_sent(
    use: Use, call: Callable[[Use, str], Any]
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectionFailed) as caught:
            call(use, url)

    assert not caught.value.was_sent
    assert url in str(caught.value)


@pytest.mark.parametrize("content", [b"<html>", b'{"results": "\xff"}'])
def test_another_server_is_named_as_such(use: Use, content: bytes) -> None:
    with serving((200, content)) as server, pytest.raises(ApiError, match="is not facetd"):
        use(server.url, lambda c: c.search("a"))


@pytest.mark.parametrize("content", [b"<html>\n</html>\n", b"OK", b"[1]\n"])
def test_an_export_from_another_server_is_an_error(use: Use, content: bytes) -> None:
    with serving((200, content)) as server, pytest.raises(ApiError, match="is not facetd"):
        list(use(server.url, exported))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    "call", [lambda c: c.search("a", query="x"), lambda c: exported(c)], ids=["search", "export"]
)
def test_a_redirect_is_an_error_that_names_where_to(
    use: Use, call: Callable[[Any], Any], status: int
) -> None:
    target = {"Location": "https://example.org/a/search"}
    with (
        serving((status, b"", target)) as server,
        pytest.raises(ApiError, match=r"redirects to https://example\.org/a/search"),
    ):
        list(use(server.url, call))

    assert len(server.asked) == 1


def test_a_service_that_does_not_accept_connections_is_left_after_the_timeout(use: Use) -> None:
    with contextlib.ExitStack() as sockets:
        full = sockets.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # fills its queue, so that the next connection is not answered
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(ConnectionFailed) as caught:
            use(url, lambda c: c.search("a"), timeout=0.1, retries=Retries(tries=1))

    assert not caught.value.was_sent
    assert time.monotonic() - begun < 20


def test_a_call_may_have_a_timeout_of_its_own(use: Use) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(ConnectionFailed):
            use(url, lambda c: c.with_timeout(0.1).search("a"), retries=Retries(tries=1))
    assert time.monotonic() - begun < 20
    with pytest.raises(ValueError, match="must be above 0 seconds, not 0"):
        use("http://127.0.0.1:1", lambda c: c.with_timeout(0))


def test_clients_of_several_timeouts_share_their_connections() -> None:
    with serving((200, PAGE), (200, PAGE)) as server:
        with Client(server.url) as client:
            client.search("a")
            (kept,) = client._idle
            other = client.with_timeout(7)
            other.search("a")
            assert client._idle == [kept]
            assert kept.sock.gettimeout() == 7
        assert (other._idle, kept.sock) == ([], None), "closed with the first"


def test_indexes_are_renamed_and_copied(use: Use) -> None:
    answer = {"status": "renamed", "index": "b", "from": "a"}
    with serving((200, answer), (200, answer)) as server:
        use(server.url, lambda c: c.rename("a", "b", replace=True))
        use(server.url, lambda c: c.copy("a", "b"))
    assert [(asked.path, asked.body) for asked in server.asked] == [
        ("/a/rename", b'{"to":"b","alias":false,"replace":true}'),
        ("/a/copy", b'{"to":"b"}'),
    ]


def test_an_export_waits_for_a_service_that_starts(use: Use) -> None:
    starting = error("starting", 503)
    with serving(starting, starting, (200, b'{"id":1}\n')) as server:
        assert use(server.url, exported) == [{"id": 1}]


@pytest.mark.parametrize("failure", [ValueError("mine"), FileNotFoundError(2, "mine")])
@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_an_error_of_the_items_that_are_sent_is_the_callers_own(
    use: Use, failure: Exception, is_asynchronous: bool
) -> None:
    def items() -> Iterator[dict[str, int]]:
        yield {"id": 1}
        raise failure

    async def asynchronous_items() -> AsyncIterator[dict[str, int]]:
        for item in items():
            yield item

    given = asynchronous_items if is_asynchronous and use is asynchronous else items
    with serving((200, WRITTEN)) as server, pytest.raises(type(failure)) as caught:
        use(server.url, lambda c: c.load("a", given()))

    assert caught.value is failure


def test_decimals_are_numbers() -> None:
    assert encoded({"price": Decimal("1.50")}) == b'{"price":1.50}'


@pytest.mark.parametrize(
    "raised",
    [
        ConnectionFailed("broke off", was_sent=True),
        NotFound(404, {"code": "item_not_found", "message": "no"}, 2.0),
    ],
)
def test_errors_can_be_sent_to_another_process(raised: FacetdError) -> None:
    copy = pickle.loads(pickle.dumps(raised))

    assert type(copy) is type(raised)
    assert (str(copy), vars(copy)) == (str(raised), vars(raised))


def test_load_streams(use: Use) -> None:
    items = ({"id": i, "text": "x" * 1_000} for i in range(1_000))
    with serving((200, WRITTEN)) as server:
        use(server.url, lambda c: c.load("a", items, skips_bad=True))

    (asked,) = server.asked
    assert asked.path == "/a/index?on_error=skip"
    assert asked.headers["transfer-encoding"] == "chunked"
    assert asked.body.count(b"\n") == 1_000


def test_export_yields_items(use: Use) -> None:
    lines = b'{"id":1}\n{"id":2}\n'
    with serving((200, lines)) as server:
        found = use(server.url, lambda c: exported(c, filter="b = 1", fields=["id"]))

    assert found == [{"id": 1}, {"id": 2}]
    assert server.asked[0].path == "/a/items?filter=b+%3D+1&fields=%5B%22id%22%5D"


def test_https_with_a_certificate_that_is_trusted(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    with serving((200, PAGE), certificate=both) as server:
        if use is blocking:  # aiohttp reads the trusted ones once, when it is imported
            with pytest.raises(ConnectionFailed, match="certificate"):
                use(server.url, lambda c: c.search("a"), retries=Retries(tries=1))
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            use(server.url, lambda c: c.search("a"))
        else:
            with pytest.raises(ConnectionFailed, match="certificate"):
                use(server.url, lambda c: c.search("a"), retries=Retries(tries=1))


@pytest.mark.parametrize(
    "url", ["ftp://a", "http://", "http://a?b=1", "http://a:b@c", "http://a:99999"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL must be") as caught:
        address_of(url)
    assert "b@c" not in str(caught.value)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_id_that_would_ask_for_something_else_is_refused(use: Use, name: str) -> None:
    """`GET /a/items/` is all items, and behind a proxy `/a/items/..` is the index."""
    with serving() as server:
        for call in (lambda c: c.get("a", name), lambda c: c.search(name)):
            with pytest.raises(ValueError, match="empty or dots"):
                use(server.url, call)
    assert server.asked == []


@pytest.mark.parametrize("key", ["fk_…", "fk_a b", "fk_a\n", "\ufefffk_a"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_invalid_key_is_refused_before_it_is_sent(kind: type, key: str) -> None:
    with pytest.raises(ValueError, match="no API key"):
        kind("http://127.0.0.1:1", key)


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(one).parameters)
            for name, one in vars(kind).items()
            if not name.startswith("_") and inspect.isfunction(one)
        }

    both = methods(Client)
    for name in ("send", "stream"):  # of the blocking one only
        del both[name]
    assert methods(AsyncClient) == both


def test_importing_it_starts_nothing() -> None:
    program = (
        "import sys, facetd; "
        "print([n for n in ('numpy', 'numba', 'common', 'coordinator', 'shard', 'aiohttp') "
        "if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_tenant_token_is_a_json_web_token() -> None:
    parent = "fk_0123456789ab_" + "s" * 43
    token = tenant_token(parent, filter="tenant = 7", indexes=["films"], expires_in=60)

    assert jwt.get_unverified_header(token)["kid"] == "0123456789ab"
    claims = jwt.decode(token, signing_key(parent), algorithms=["HS256"])
    assert claims["filter"] == "tenant = 7"
    assert claims["indexes"] == ["films"]
    assert claims["actions"] == ["search"]
    with pytest.raises(ValueError, match="whole key"):
        tenant_token("fk_0123456789ab")
