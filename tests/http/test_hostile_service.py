"""The same catalogue against the real service, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.fakes import CONFIGURATION
from tests.http.hostile import GROUPS
from tests.http.raw_client import exchange
from tests.http.raw_requests import get, post, request
from tests.http.test_hostile_requests import check
from tests.service import Service

RESIDENT_BYTES_MAX = 1 << 30
"""Of any process; a bomb or a wide answer would take far more."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("hostile") / "data", 2) as running:
        yield running


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def prepare(service: Service) -> None:
    """Bring the index to what the catalogue expects."""
    for raw in (
        request("DELETE", "/films"),
        post("/films/configuration", CONFIGURATION),
        post(
            "/films/items",
            [
                {
                    "id": i,
                    "name": f"star {i}",
                    "tags": ["a", "b"],
                    "year": 1990 + i,
                    "rating": i / 2,
                }
                for i in range(1, 21)
            ],
        ),
    ):
        reply = await exchange(service.port, raw)
        assert reply.status in (200, 404), reply.body


@pytest.mark.parametrize("group", GROUPS)
async def test_hostile_requests_leave_the_service_well(service: Service, group: str) -> None:
    await prepare(service)
    pids = service.pids()
    log_start = len(service.log())
    wrong = []
    for case in GROUPS[group]:
        try:
            reply = await exchange(service.port, case.request, half_closes=case.half_closes)
            problem = check(case, reply)
        except Exception as error:  # whatever happens, the other cases are to be tried
            problem = f"no answer: {error!r}"
        if problem is not None:
            wrong.append(f"{case.name}: {problem}")
        neighbour = await exchange(
            service.port, get("/films/search", query="star", filters={"tags": ["a"]})
        )
        if neighbour.status != 200 or neighbour.json["pagination"]["total"] < 1:
            wrong.append(
                f"{case.name}: the next search got {neighbour.status} {neighbour.body!r:.300}"
            )

    assert not wrong, "\n".join(wrong)
    assert service.pids() == pids, service.log()[-3000:]
    assert max(map(resident_bytes, pids)) < RESIDENT_BYTES_MAX
    log = service.log()[log_start:]
    assert "traceback" not in log, log[log.index("traceback") :][:3000]
