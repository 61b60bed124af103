"""Every state that a search may still name can be had, kept or restored."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from common.errors import InvalidRequest
from common.protocol.messages import FacetRequest
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from common.query_syntax_tree import Exists, Same
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.facets.facet_counts import count_facets, facet_counter
from shard.partition.merge_and_flush import work
from shard.partition.reindex import Reindex
from shard.query.matches import Matches
from tests.shard.partition.local_shard import (
    Shard,
    facet_counts,
    index_entry,
    live_items,
    put_all,
    reconfigure,
    write_group,
)


def test_horizon_sees_the_groups_up_to_it_also_after_a_restart(shard: Shard) -> None:
    shard.writer.apply(write_group(3, put_all([{"id": 1, "v": 1}, {"id": 2}]), horizon=0))
    shard.writer.apply(write_group(5, put_all([{"id": 1, "v": 2}, {"id": 3}]), horizon=3))
    shard.writer.apply(write_group(8, [(Operation.DELETE, "2")], horizon=3))

    def states() -> list[dict[str, Any]]:
        partition = shard.partition
        return [
            {key: item for key, (item, _) in live_items(partition.snapshot_at(horizon)).items()}
            for horizon in (9, 7, 4, 3)
        ]

    before = states()
    newer, older = ["1", "2", "3"], ["1", "2"]
    assert [sorted(state) for state in before] == [["1", "3"], newer, older, older]
    assert [state["1"]["v"] for state in before] == [2, 2, 1, 1]
    shard.merge()
    assert states() == before
    shard.crash()
    shard.open()
    assert states() == before
    shard.close()
    shard.open()
    shard.merge()
    assert states() == before


def test_the_oldest_state_that_can_be_had_is_known_after_a_restart(shard: Shard) -> None:
    old, new = ([{"id": number, "v": v} for number in range(3_000)] for v in (1, 2))
    shard.writer.apply(write_group(3, put_all(old), horizon=0))
    shard.writer.apply(write_group(5, put_all(new[1:]), horizon=3))
    shard.crash()
    shard.open()
    assert shard.partition.kept_from == 0
    shard.writer.apply(write_group(8, put_all([{"id": 1, "v": 3}]), horizon=5))
    shard.merge()  # drops the first versions, between items that stay
    shard.crash()
    shard.open()
    assert shard.partition.kept_from == 5
    live = live_items(shard.partition.snapshot_at(5))
    assert len(live) == len(new)
    assert {item["v"] for item, _ in live.values()} == {1, 2}


def test_every_state_since_the_oldest_horizon_in_use_can_be_had(shard: Shard) -> None:
    states: dict[int, dict[str, Any]] = {}
    generator = random.Random(2)
    for seq in range(1, 60):
        operations: list[tuple[Operation, dict[str, Any] | str]] = [
            (Operation.DELETE, str(generator.randrange(90)))
            if generator.random() < 0.2
            else (Operation.PUT, {"id": generator.randrange(90), "seq": seq})
            for _ in range(generator.choice([1, 5, 70]))
        ]
        shard.writer.apply(write_group(seq, operations, horizon=min(seq - 1, 10)))
        shard.seq = seq
        states[seq] = shard.live()
        if seq % 7 == 0:
            work(shard.partition, is_idle=True)
        if seq == 40:
            shard.close()
            shard.open()
    for seq in generator.sample(range(10, 60), 50):
        live = live_items(shard.partition.snapshot_at(seq))
        assert {key: item for key, (item, _) in live.items()} == states[seq]
    assert shard.partition.num_states <= 10


def test_older_states_share_the_merged_segment(shard: Shard) -> None:
    """So that the parts, and the pages that a merge has touched, can go."""
    for start in (0, 200, 400):
        shard.put(*[{"id": number} for number in range(start, start + 200)])
    shard.put({"id": 0, "v": 1}, {"id": "new"})
    shard.put({"id": 1, "v": 1})
    partition = shard.partition
    before = {seq: live_items(partition.snapshot_at(seq)) for seq in (4, 5)}
    shard.merge()

    assert {seq: live_items(partition.snapshot_at(seq)) for seq in (4, 5)} == before
    uids = {view.segment.uid for seq in (4, 5) for view in partition.snapshot_at(seq).views}
    assert len(uids) == 1


def test_state_keeps_what_died_in_it_for_the_states_before(shard: Shard) -> None:
    """A state may have nothing of a merged segment to show; the one before is restored from it."""
    shard.held = 1
    shard.put(*[{"id": number} for number in range(200)])
    shard.put({"id": "short-lived"})
    shard.writer.retire_open_segment()
    assert shard.apply((Operation.DELETE, "short-lived")) == [Outcome.DELETED]
    for number in range(8):
        shard.put({"id": f"later {number}"})
        shard.writer.retire_open_segment()
    partition = shard.partition
    assert "short-lived" not in live_items(partition.snapshot_at(3))
    shard.merge()
    assert [view.segment.num_docs for view in partition.newest.views] == [200, 9]

    assert "short-lived" in live_items(partition.snapshot_at(2))
    assert "short-lived" not in live_items(partition.snapshot_at(3))


def test_state_that_was_compacted_is_refused(shard: Shard) -> None:
    for _ in range(600):
        shard.put({"id": 1})
    shard.crash()
    shard.open()

    with pytest.raises(InvalidRequest, match="cursor"):
        shard.partition.snapshot_at(20)


def test_states_before_a_configuration_are_whole_after_a_restart(shard: Shard) -> None:
    """What died shortly before is hidden in the new segments, not left out of them."""
    shard.put({"id": 0, "v": 1}, {"id": 1})
    shard.put({"id": 0, "v": 2})
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"color": {}, "v": {}}))
    reindex.run()
    reindex.finish()
    shard.close()
    shard.open()

    before = {key: item for key, (item, _) in live_items(shard.partition.snapshot_at(1)).items()}
    assert before == {"0": {"id": 0, "v": 1}, "1": {"id": 1}}
    assert shard.live() == {"0": {"id": 0, "v": 2}, "1": {"id": 1}}


def test_older_state_knows_all_values_of_a_segment_that_it_shares(shard: Shard) -> None:
    """A merged segment has later documents too, hidden; what counts begins with all of them."""
    shard.put({"id": 0, "color": "r"}, {"id": 1, "color": "g"})
    shard.held = 1
    older = shard.partition.snapshot_at(1)
    before = facet_counts(older, "color")
    for number in range(2, 90):
        shard.put({"id": number, "color": f"new {number}"})
        shard.partition.snapshot_at(1)
    shard.merge()

    older = shard.partition.snapshot_at(1)
    counter = facet_counter(older, "color")
    assert counter is not None
    (view,) = older.views
    field = older.registry.number("color")
    assert int(view.segment[f"facet.{field}.codes"].max()) > 2
    assert int(view.segment[f"facet.{field}.codes"].max()) <= counter.num_values
    assert counter.totals.num_present == 2
    assert facet_counts(older, "color") == before == {"r": 1, "g": 1}


def test_counts_of_elements_that_a_newer_state_has_kept_are_those_of_an_older_one(
    shard: Shard,
) -> None:
    """The newer one knows more values, of other segments."""
    configuration = {"nested": ["variants"], "aggregations": {"variants.color": {}}}
    reconfigure(shard, 2, **configuration)
    shard.held = 1
    shard.put(*[{"id": i, "variants": [{"color": "r", "size": i}] * 2} for i in range(200)])
    shard.put(*[{"id": i, "variants": [{"color": f"new {i}"}]} for i in range(200, 210)])
    condition = Same("variants", Exists("variants.color"))
    request = FacetRequest("variants.color", False, 0, within=condition)
    for seq, num_present in ((2, 11), (1, 1)):
        state = shard.partition.snapshot_at(seq)
        matches = [Matches(view, is_all=True) for view in state.views]
        ((counts,), packed) = count_facets(state, (request,), CountedMatches.of(matches))
        assert counts.num_values == num_present
        form, _, length, _ = np.frombuffer(packed, np.uint16)[:4].tolist()
        assert (form, length) == (0, num_present)


def test_state_before_a_configuration_is_restored_from_its_own_segments(shard: Shard) -> None:
    """The kept states of the former configuration have other numbers for the same values."""
    shard.held = 0
    for number in range(12):
        shard.put({"id": number, "color": f"c{number}"})
    shard.apply((Operation.DELETE, "0"))
    reindex = Reindex(shard.partition, index_entry(2, aggregations={"color": {}, "id": {}}))
    reindex.run()
    reindex.finish()

    for seq in (2, 5, 8):  # of the newest ones, those of the former configuration are kept
        state = shard.partition.snapshot_at(seq, 2)
        assert state.revision == 2
        assert facet_counts(state, "color") == {f"c{number}": 1 for number in range(seq)}
