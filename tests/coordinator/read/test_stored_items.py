"""A page of hits has all its items, or fails with the reason of the shard that lacks one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from common.deadline import Deadline
from common.errors import DeadlineExceeded, ServiceError, Unavailable
from common.protocol.messages import FetchResponse, HighlightRequest
from coordinator.cluster.all_shards import DEFAULT_TIMEOUTS
from coordinator.read.stored_items import page_items


class Shard:
    """Answers each call alike."""

    def __init__(self, outcome: FetchResponse | ServiceError) -> None:
        self.outcome = outcome

    def call(self, *_: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(self.outcome, ServiceError):
            future.set_exception(self.outcome)
        else:
            future.set_result(self.outcome)
        return future

    def give_up_cancelled(self) -> None:
        """End nothing: all calls are answered."""


@pytest.mark.parametrize(
    "error",
    [
        DeadlineExceeded("shard 1 did not answer fetch in time"),
        Unavailable("shard 1 has too much to do", code="overloaded"),
        Unavailable("shard 1 is not connected"),
    ],
)
async def test_a_page_fails_with_the_reason_of_the_shard(error: ServiceError) -> None:
    shards = [Shard(FetchResponse((b'{"id":1}',), ())), Shard(error)]
    cluster: Any = SimpleNamespace(shards=shards, num_shards=2, timeouts=DEFAULT_TIMEOUTS)
    outcome: Any = SimpleNamespace(
        parameters=SimpleNamespace(marks=None),
        state=SimpleNamespace(
            index=SimpleNamespace(number=1, revision=1),
            horizon=1,
            deadline=Deadline.after_ms(5_000),
        ),
        scored=SimpleNamespace(query=None),
    )
    answer = SimpleNamespace(documents=[])
    hits: Any = [SimpleNamespace(shard=one, record=7, rank=0, answer=answer) for one in (0, 1)]

    with pytest.raises(type(error)) as raised:
        await page_items(cluster, outcome, hits)

    assert raised.value is error


async def test_documents_and_marks_are_fetched_only_if_they_did_not_come_with_the_hits() -> None:
    fetching = Shard(FetchResponse((b'{"id":2}',), ({"_highlight": {"t": "b"}},)))
    cluster: Any = SimpleNamespace(
        shards=[Shard(Unavailable("asked for nothing")), fetching],
        num_shards=2,
        timeouts=DEFAULT_TIMEOUTS,
    )
    marks = HighlightRequest(("t",), (), "[", "]", "…", 1 << 20, 1 << 20)
    parameters = SimpleNamespace(
        marks=marks, fields=None, exclude_fields=None, distance_key=None, show=frozenset()
    )
    outcome: Any = SimpleNamespace(
        parameters=parameters,
        state=SimpleNamespace(
            index=SimpleNamespace(number=1, revision=1),
            horizon=1,
            deadline=Deadline.after_ms(5_000),
        ),
        scored=SimpleNamespace(query=None),
    )
    sent = SimpleNamespace(
        documents=[b'{"id":0}', b'{"id":1}'],
        marks=[{"_highlight": {}}, {"_highlight": {"t": "a"}}],
        explanations=(),
    )
    kept_back = SimpleNamespace(documents=(), marks=(), explanations=())
    hits: Any = [
        SimpleNamespace(shard=1, record=9, rank=0, answer=kept_back),
        SimpleNamespace(shard=0, record=7, rank=1, answer=sent),
    ]

    assert await page_items(cluster, outcome, hits) == [
        b'{"id":2,"_highlight":{"t":"b"}}',
        b'{"id":1,"_highlight":{"t":"a"}}',
    ]
