"""A plan has the same effect on a shard as the operations, in order, on a dict."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InternalError
from common.item_ids import shown_id
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from shard.partition.write_operation_effects import (
    Change,
    Stored,
    WritePlan,
    merge_items,
    version_of,
)
from shard.partition.write_operation_effects import plan_writes as plan_with_ids


def plan_writes(
    changes: list[Change], stored: dict[bytes, Stored], read: Callable[[int], bytes]
) -> WritePlan:
    return plan_with_ids(changes, [change.id for change in changes], stored, read)


def test_example_of_the_module() -> None:
    changes = [
        Change(Operation.PUT, b'{"id":5}', 100),
        Change(Operation.PUT, b'{"id":9}', 101),
        Change(Operation.DELETE, b"5", 102),
        Change(Operation.PUT, b'{"id":"9","a":1}', 103),
    ]

    plan = plan_writes(changes, {b"5": Stored(7, 50)}, {7: b'{"id":5}'}.__getitem__)

    assert plan.outcomes == [Outcome.UPDATED, Outcome.CREATED, Outcome.DELETED, Outcome.UPDATED]
    assert plan.deleted == [7]
    assert [(one.content, one.place) for one in plan.documents] == [(b'{"id":"9","a":1}', 101)]


def test_merge_keeps_untouched_values_digit_for_digit() -> None:
    merged = merge_items(
        '{"id":5,"price":1.50,"big":1e2,"t":"ä\\u00e4"}'.encode(), b'{"t":null,"id":"5"}'
    )

    assert merged == b'{"id":5,"price":1.50,"big":1e2,"t":null}'


def test_merge_that_breaks_a_limit_is_invalid_and_changes_nothing() -> None:
    many = orjson.dumps({f"f{i}": 1 for i in range(400)})
    more = orjson.dumps({"id": 1} | {f"g{i}": 1 for i in range(400)})
    stored = b'{"id":1,' + many[1:]

    plan = plan_writes(
        [Change(Operation.MERGE, more, 1)], {b"1": Stored(0, 0)}, lambda record: stored
    )

    assert plan.outcomes == [Outcome.INVALID]
    assert plan.deleted == []
    assert plan.documents == []


def test_a_damaged_item_fails_what_needs_its_content_and_nothing_else() -> None:
    def read(record: int) -> bytes:
        if record == 0:
            raise InternalError("damaged", code="item_corrupt")
        return b'{"id":2,"a":1}'

    changes = [
        Change(Operation.MERGE, b'{"id":1,"b":1}', 1),
        Change(Operation.MERGE, b'{"id":2,"b":1}', 2),
        Change(Operation.DELETE, b"1", 3, version_of(b"{}")),
        Change(Operation.PUT, b'{"id":1}', 4),
    ]

    plan = plan_writes(changes, {b"1": Stored(0, 10), b"2": Stored(1, 11)}, read)

    assert plan.outcomes == [Outcome.CORRUPT, Outcome.UPDATED, Outcome.CORRUPT, Outcome.UPDATED]
    assert [one.content for one in plan.documents] == [b'{"id":2,"a":1,"b":1}', b'{"id":1}']
    assert plan.deleted == [1, 0]


def test_delete_and_put_again_takes_the_new_place() -> None:
    changes = [Change(Operation.DELETE, b"1", 8), Change(Operation.PUT, b'{"id":1}', 9)]

    plan = plan_writes(changes, {b"1": Stored(3, 2)}, lambda record: b'{"id":1}')

    assert plan.outcomes == [Outcome.DELETED, Outcome.CREATED]
    assert plan.deleted == [3]
    assert plan.documents[0].place == 9


def test_precondition_must_be_the_version_that_is_there() -> None:
    stored = b'{"id":1,"a":2}'
    right, wrong = version_of(stored), version_of(b"{}")
    operations = (Operation.PUT, Operation.REPLACE, Operation.MERGE, Operation.DELETE)
    for operation in operations:
        content = b"1" if operation == Operation.DELETE else b'{"id":1}'
        for version, is_right in ((right, True), (wrong, False)):
            plan = plan_writes(
                [Change(operation, content, 1, version)],
                {b"1": Stored(0, 0)},
                lambda record: stored,
            )
            assert (plan.outcomes[0] == Outcome.CONFLICT) is not is_right
            assert bool(plan.deleted) is is_right


def test_put_with_a_precondition_needs_the_item() -> None:
    plan = plan_writes([Change(Operation.PUT, b'{"id":1}', 1, bytes(8))], {}, lambda record: b"")

    assert plan.outcomes == [Outcome.CONFLICT]


CHANGING = (Operation.MERGE_CHANGES, Operation.UPSERT_CHANGES)
ADDING = (
    Operation.PUT,
    Operation.UPSERT,
    Operation.UPSERT_CHANGES,
    Operation.PUT_KEEPING_ID,
)
MERGING = (Operation.MERGE, Operation.UPSERT, *CHANGING)
KEEPING_ID = (Operation.REPLACE_KEEPING_ID, Operation.PUT_KEEPING_ID)

_ids = st.sampled_from([None, 0, 1, "1", "b"])
_changes = st.lists(st.tuples(st.sampled_from(Operation), _ids, st.integers(0, 3)), max_size=12)


@given(_changes, st.sets(st.sampled_from(["0", "1", "b"])))
def test_plan_equals_a_dict(steps: list[tuple[Operation, object, int]], there: set[str]) -> None:
    stored = {one.encode(): Stored(record, record + 10) for record, one in enumerate(sorted(there))}
    documents = {
        one.record: orjson.dumps({"id": key.decode(), "old": 1}) for key, one in stored.items()
    }
    model = {
        key.decode(): (orjson.loads(documents[s.record]), s.place) for key, s in stored.items()
    }
    anonymous = []
    changes, expected = [], []
    for position, (operation, id, number) in enumerate(steps):
        place = 100 + position
        if operation == Operation.DELETE:
            key = str(id if id is not None else "none")
            changes.append(Change(operation, key.encode(), place))
            expected.append(Outcome.DELETED if key in model else Outcome.NOT_FOUND)
            model.pop(key, None)
            continue
        item: dict[str, object] = {"n": number}
        if id is not None:
            # (The id that only names an item has the form in which ids are shown.)
            is_kept = operation in KEEPING_ID
            item = {"id": shown_id(str(id).encode()) if is_kept else id, **item}
        changes.append(Change(operation, orjson.dumps(item), place))
        key = str(id)
        if id is None and operation in ADDING:
            anonymous.append((item, place))
            expected.append(Outcome.CREATED)
        elif id is not None and key in model:
            old, old_place = model[key]
            if operation in MERGING:
                item = {**old, **item, "id": old["id"]}
            if operation in KEEPING_ID:
                item = {**item, "id": old["id"]}
            model[key] = (item, old_place)
            expected.append(Outcome.UPDATED)
        elif id is not None and operation in ADDING:
            model[key] = (item, place)
            expected.append(Outcome.CREATED)
        else:
            expected.append(Outcome.NOT_FOUND)

    plan = plan_writes(changes, stored, documents.__getitem__)

    assert plan.outcomes == expected
    survivors = [
        (orjson.loads(documents[one.record]), one.place)
        for one in stored.values()
        if one.record not in plan.deleted
    ]
    added = [(orjson.loads(one.content), one.place) for one in plan.documents]
    by_place = sorted(survivors + added, key=lambda one: one[1])
    assert by_place == sorted([*model.values(), *anonymous], key=lambda one: one[1])
    assert len(set(plan.deleted)) == len(plan.deleted)
