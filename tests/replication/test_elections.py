"""When a host requests an election: only if a majority answers and no server leads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.setting_conversion import SettingError
from coordinator.replication.log.jetstream_info import RaftGroup
from coordinator.replication.log.nats_elections import (
    Voter,
    can_elect,
    candidate_of,
    elections_of,
    is_without_leader,
    vote_request,
)
from coordinator.settings import Settings


def voter(id: str, **what: Any) -> Voter:
    peers = tuple({"a", "b", "c"} - {id})
    given = {"state": "FOLLOWER", "leader": "a", "term": 7, "vote": "a", "last_term": 6, **what}
    return Voter(id=id, quorum=2, peers=peers, **given)


def test_no_server_is_asked_while_there_is_a_leader() -> None:
    assert not is_without_leader([voter("b"), voter("c", state="LEADER")])


def test_no_server_is_asked_without_a_majority() -> None:
    assert not is_without_leader([])
    assert not is_without_leader([voter("b")])


def test_a_leader_that_does_not_answer_is_lost() -> None:
    found = [voter("b"), voter("c", vote="")]
    assert is_without_leader(found)
    assert not can_elect(found)
    assert candidate_of(found) == "a"


def test_a_server_that_was_asked_gets_time() -> None:
    assert can_elect([voter("b", vote=""), voter("c", vote="")])
    stands = voter("c", state="CANDIDATE", leader="", term=8, vote="c")
    assert can_elect([voter("b"), stands])
    assert can_elect([voter("b", term=8, vote=""), stands])


def test_a_leader_for_which_no_answering_server_has_voted_is_lost_too() -> None:
    emptied = voter("b", vote="", last_term=0)
    assert can_elect([emptied, voter("c", vote="")])
    found = [emptied, voter("c", vote="", last_term=7)]
    assert is_without_leader(found)
    assert not can_elect(found)
    asked = [voter(id, term=8, vote="", last_term=7) for id in ("b", "c")]
    assert can_elect(asked)


def test_candidates_that_have_all_voted_for_themselves_need_another_term() -> None:
    both = [voter(id, state="CANDIDATE", leader="", term=8, vote=id) for id in ("b", "c")]
    assert is_without_leader(both)
    assert not can_elect(both)
    assert can_elect([*both, voter("a", state="FOLLOWER", leader="", term=8, vote="")])


def test_a_leader_that_was_started_again_does_not_lead() -> None:
    found = [voter("a", leader=""), voter("b"), voter("c")]
    assert is_without_leader(found)
    assert not can_elect(found)
    assert candidate_of(found) == "a"


def test_a_host_asks_also_if_no_leader_is_known() -> None:
    found = [voter("b", leader="", state="CANDIDATE"), voter("c", leader="")]
    assert candidate_of(found) == "a"


def test_a_vote_is_asked_for_by_one_who_has_nothing() -> None:
    request = vote_request(8, "abcdefgh")
    assert request == (8).to_bytes(8, "little") + bytes(16) + b"abcdefgh"


def test_an_answer_of_a_server() -> None:
    group = RaftGroup("S-R3F-x", "$G", "$SYS")
    state = {
        "id": "b",
        "state": "FOLLOWER",
        "leader": "a",
        "term": 7,
        "pterm": 6,
        "quorum_needed": 2,
    }
    answer = {"data": {"$G": {"S-R3F-x": {**state, "peers": {"a": {}, "c": {}}}}}}
    assert Voter.read(answer, group) == Voter("b", "FOLLOWER", "a", 7, "", 6, 2, ("a", "c"))
    assert Voter.read({"error": {"code": 404}}, group) is None


def test_a_user_of_the_system_account(tmp_path: Path) -> None:
    url = "nats://somebody:secret@a:4222,b:4222"
    assert elections_of(Settings(log_url=url)) is None
    assert elections_of(Settings(log_url=url, log_system="user:pass:word")) is not None
    with pytest.raises(SettingError, match="USER:PASSWORD or a file"):
        elections_of(Settings(log_url=url, log_system=str(tmp_path / "missing")))
