"""Keys as values."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from coordinator.http.security.access_control import _caller
from coordinator.http.security.api_keys import Action, create_key, hash_secret


def test_key_is_random_and_only_its_hash_is_stored() -> None:
    keys = [create_key({"actions": ["admin"]}, is_first=True) for _ in range(20)]

    assert len({token for _, token, _ in keys}) == 20
    for id_, token, stored in keys:
        prefix, token_id, secret = token.split("_", 2)
        assert (prefix, token_id) == ("fk", id_)
        assert len(secret) >= 43
        assert hash_secret(secret, bytes.fromhex(stored.salt)) == stored.hash
        assert secret not in str(stored)


def test_same_secret_has_another_hash_with_another_salt() -> None:
    assert hash_secret("x", b"a" * 16) != hash_secret("x", b"b" * 16)


@pytest.mark.parametrize(
    ("patterns", "right", "wrong"),
    [
        (["films"], ["films"], ["films2", "xfilms", "film"]),
        (["films*"], ["films", "films-2", "films\n"], ["xfilms"]),
        (["*-log", "a.b"], ["x-log", "-log", "a.b"], ["log", "aXb", "x-log2"]),
        (["*"], ["anything", "é"], []),
        (["a*c*e"], ["ace", "abcde"], ["ac", "aec"]),
        (["*ab*"], ["ab", "xaby", "aab"], ["a", "ba"]),
        (["*a" * 32], ["a" * 32, "ba" * 32], ["a" * 31, "a" * 64 + "b"]),
    ],
)
def test_index_patterns(patterns: list[str], right: list[str], wrong: list[str]) -> None:
    _, _, stored = create_key({"actions": ["search"], "indexes": patterns}, is_first=False)
    caller = _caller("id", stored)

    assert all(caller.may_use(name) for name in right)
    assert not any(caller.may_use(name) for name in wrong)
    assert caller.actions == {Action.SEARCH}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=6,
    )
    | st.fixed_dictionaries(
        {"actions": st.just(["admin"])},
        optional={
            "indexes": st.lists(st.text(max_size=3)) | st.integers(),
            "expires_at": st.text(max_size=12) | st.integers() | st.dates().map(str),
            "expires_in_seconds": st.integers() | st.booleans() | st.floats(),
            "filter": st.text(max_size=6),
        },
    )
)
def test_any_document_makes_a_key_or_is_refused(document: object) -> None:
    try:
        create_key(document, is_first=True)
    except InvalidRequest as error:
        code = error.code
    else:
        code = "made"

    assert code in ("made", "invalid_key", "invalid_body", "invalid_filter")


@pytest.mark.parametrize(
    "timestamp", ["2001-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "soon", 5]
)
def test_key_ends_in_the_future(timestamp: object) -> None:
    with pytest.raises(InvalidRequest, match="expires_at must"):
        create_key({"actions": ["admin"], "expires_at": timestamp}, is_first=True)


@pytest.mark.parametrize("timestamp", [True, "soon", "2001-01-01", {}])
def test_both_ends_of_a_key_are_read(timestamp: object) -> None:
    with pytest.raises(InvalidRequest, match="expires_at must"):
        create_key(
            {"actions": ["admin"], "expires_at": timestamp, "expires_in_seconds": 60}, is_first=True
        )


def test_key_ends_at_the_earlier_of_two_moments() -> None:
    ends = [
        create_key(
            {"actions": ["admin"], "expires_at": "2999-01-01", "expires_in_seconds": seconds},
            is_first=True,
        )[2].expires
        for seconds in (60, 10**10 - 1)
    ]
    late = create_key({"actions": ["admin"], "expires_at": "2200-01-01"}, is_first=True)[2].expires
    both = create_key(
        {"actions": ["admin"], "expires_at": "2200-01-01", "expires_in_seconds": 10**10 - 1},
        is_first=True,
    )[2].expires

    assert ends[0] == pytest.approx(time.time() + 60, abs=30)
    assert ends[1] == pytest.approx(time.time() + 10**10, abs=30)
    assert both == late
