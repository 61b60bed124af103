"""Groups joined in one request, without those that a shard has applied."""

from __future__ import annotations

from array import array

from common.protocol.messages import ApplyRequest, JoinedGroups


def test_what_belongs_to_an_operation_stays_with_it_when_earlier_groups_are_left_out() -> None:
    request = ApplyRequest(
        index=3,
        seq=12,
        horizon=1,
        payload=b"abbccc",
        lengths=array("I", [1, 2, 3]).tobytes(),
        operations=bytes([0, 1, 2]),
        places=array("Q", [100, 101, 102]).tobytes(),
        versions={0: b"gone", 2: b"kept"},
        records={0: 70, 1: 71},
    )
    groups = JoinedGroups(request, 10, ((10, 1), (12, 2)))
    assert groups.after(9) == request
    left = groups.after(10)
    assert (left.payload, left.operations) == (b"bbccc", bytes([1, 2]))
    assert left.lengths == array("I", [2, 3]).tobytes()
    assert left.places == array("Q", [101, 102]).tobytes()
    assert left.versions == {1: b"kept"}
    assert left.records == {0: 71}
