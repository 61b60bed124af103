"""Tenant tokens: what they allow is never more than their parent key allows."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from common.errors import Forbidden, Unauthorized
from common.limits import Limits
from common.query_syntax_tree import And, AnyOf
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_state import KEYS_SECTION
from coordinator.http.security import access_control
from coordinator.http.security.access_control import Guard
from coordinator.http.security.api_keys import Action, Caller, create_key
from coordinator.http.security.tenant_tokens import read_token, signing_key
from coordinator.settings import Settings
from facetd import tenant_token
from facetd.tokens import signing_key as signing_key_of_the_client


class Door:
    """A guard with one key."""

    def __init__(self, folder: Path, **document: Any) -> None:
        self.id, self.key, stored = create_key(
            {"actions": ["admin", "search", "write"], **document}, is_first=False
        )
        self.stored = stored
        self.catalog = Catalog.open(folder, 1)
        self.guard = Guard(Settings(data_dir=folder), self.catalog)
        self.put({self.id: stored})

    def put(self, keys: Any) -> None:
        """Let the catalog have these keys."""
        section = {id_: msgspec.to_builtins(one) for id_, one in keys.items()}
        self.catalog.state = self.catalog.state.with_section(KEYS_SECTION, section)
        self.guard._take_keys()

    def ask(self, token: str) -> Caller:
        """Return who comes with a token."""
        headers = CIMultiDictProxy(CIMultiDict({"Authorization": f"Bearer {token}"}))
        return self.guard.identify(headers)

    def sign(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Sign claims by a library, as any backend can."""
        claims = {"exp": int(time.time()) + 60, **claims}
        key = signing_key(self.key)
        return jwt.encode(claims, key, "HS256", headers={"kid": self.id, **(header or {})})


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def test_token_of_our_client_and_of_any_library(door: Door) -> None:
    ours = tenant_token(door.key, filter="tenant = 7", indexes=["films*"])
    theirs = door.sign(filter="tenant = 7", indexes=["films*"])
    for token in (ours, theirs, theirs):  # the second time from memory
        caller = door.ask(token)

        assert caller.actions == {Action.SEARCH}
        assert caller.filter == AnyOf("tenant", ("7",))
        assert caller.may_use("films-2")
        assert not caller.may_use("books")
        assert caller.key_id == door.id
    assert signing_key_of_the_client(door.key) == door.stored.signing


def test_a_token_allows_no_more_than_its_parent(tmp_path: Path) -> None:
    door = Door(tmp_path, indexes=["films*", "books"], filter="country = US")
    door.stored = msgspec.structs.replace(door.stored, actions=(Action.SEARCH,))
    door.put({door.id: door.stored})
    caller = door.ask(door.sign(actions=["search", "write"], indexes=["*s"], filter="tenant = 7"))

    assert caller.actions == {Action.SEARCH}
    assert [caller.may_use(name) for name in ("films", "books", "films-2", "shoes")] == [
        True,
        True,
        False,
        False,
    ]
    assert caller.filter == And((AnyOf("country", ("US",)), AnyOf("tenant", ("7",))))
    without = door.ask(door.sign())
    assert without.filter == AnyOf("country", ("US",))
    assert not without.may_use("shoes")
    with pytest.raises(Forbidden):
        door.guard.check_action(caller, Action.WRITE)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 5}, "has expired"),
        ({"exp": int(time.time()) + 10**7}, "tenant_token_seconds_max"),
        ({"nbf": int(time.time()) + 10**6}, "not valid"),
        ({"exp": [1]}, "not valid"),
        ({"exp": {}}, "not valid"),
        ({"exp": "soon"}, "not valid"),
        ({"nbf": [1]}, "not valid"),
        ({"iat": {}}, "not valid"),
        ({"filters": "tenant = 7"}, "unknown claim 'filters'"),
        ({"filter": "tenant ="}, "wrong filter"),
        ({"filter": ""}, "must have a filter"),
        ({"filter": 7}, "must have a filter"),
        ({"indexes": []}, "indexes"),
        ({"indexes": "films"}, "indexes"),
        ({"actions": ["admin"]}, "actions"),
        ({"actions": ["configure"]}, "actions"),
        ({"actions": []}, "actions"),
        ({"actions": [["search"]]}, "actions"),
    ],
)
def test_claims_that_are_wrong_are_named(door: Door, claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        door.ask(door.sign(**claims))
    assert reason in caught.value.message


def test_a_header_that_is_nested_deep_is_no_error_of_ours(door: Door) -> None:
    """It is decoded before its signature is verified, so any client can send one."""
    header = b'{"alg":"HS256","a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    first = base64.urlsafe_b64encode(header).rstrip(b"=").decode()
    _, body, signature = door.sign().split(".")
    with pytest.raises(Unauthorized, match="not valid"):
        door.ask(f"{first}.{body}.{signature}")


def test_a_token_is_verified_once_until_the_keys_change(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = []

    def counted(token: str, *more: Any) -> Any:
        verified.append(token)
        return read_token(token, *more)

    monkeypatch.setattr(access_control, "read_token", counted)
    token = door.sign()
    for _ in range(2):
        door.ask(token)
        door.guard._take_keys()  # as after any change of the catalog
    assert len(verified) == 1

    door.put({door.id: msgspec.structs.replace(door.stored, filter="tenant = 7")})
    assert door.ask(token).filter == AnyOf("tenant", ("7",))
    assert len(verified) == 2


def test_lifetime_at_its_edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    limits = Limits(tenant_token_seconds_max=90)
    door = Door(tmp_path)
    door.guard = Guard(Settings(data_dir=tmp_path, limits=limits), door.catalog)

    assert door.ask(door.sign(exp=now + 90)).expires == now + 90
    with pytest.raises(Unauthorized, match="tenant_token_seconds_max"):
        door.ask(door.sign(exp=now + 91))


def test_unsigned_tokens_are_refused(door: Door) -> None:
    claims = {"exp": int(time.time()) + 60}
    header = {"kid": door.id}
    head, body, signature = door.sign().split(".")
    wrong = [
        jwt.encode(claims, None, "none", headers=header),  # type: ignore[arg-type]
        jwt.encode(claims, "x" * 32, "HS256", headers=header),
        jwt.encode(claims, door.stored.hash, "HS256", headers=header),
        jwt.encode(claims, signing_key(door.key), "HS512", headers=header),
        jwt.encode(claims, signing_key(door.key), "HS256"),
        door.sign({"kid": "0" * 12}),
        f"{head}.{body}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}",
        f"{head}.{'A' * 8}.{signature}",
        "a.b.c",
        jwt.encode({}, signing_key(door.key), "HS256", headers=header),
        jwt.encode({"exp": "soon"}, signing_key(door.key), "HS256", headers=header),
        jwt.encode({"exp": float("inf")}, signing_key(door.key), "HS256", headers=header),
    ]
    for token in wrong:
        with pytest.raises(Unauthorized):
            door.ask(token)


def test_a_token_dies_with_its_parent(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    token = door.sign()
    assert door.ask(token).may(Action.SEARCH)
    other, _, stored = create_key({"actions": ["admin"]}, is_first=True)
    door.put({other: stored})
    with pytest.raises(Unauthorized, match="kid"):
        door.ask(token)

    door.put({door.id: door.stored})
    assert door.ask(token).may(Action.SEARCH)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(Unauthorized, match="expired"):
        door.ask(token)


def test_a_key_of_an_older_version_cannot_sign(door: Door) -> None:
    door.put({door.id: msgspec.structs.replace(door.stored, signing=None)})
    with pytest.raises(Unauthorized, match="can sign"):
        door.ask(door.sign())
    assert door.ask(door.key).may(Action.ADMIN)


def test_what_is_stored_does_not_open_the_door(door: Door) -> None:
    for part in (door.stored.signing, door.stored.hash):
        with pytest.raises(Unauthorized):
            door.ask(f"fk_{door.id}_{part}")
