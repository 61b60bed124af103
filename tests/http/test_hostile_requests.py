"""The catalogue of hostile requests against the HTTP side and write path, on model shards."""

from __future__ import annotations

import pytest

from tests.http.conftest import Web
from tests.http.hostile import GROUPS
from tests.http.hostile.case import Case
from tests.http.raw_client import Reply
from tests.http.raw_requests import get


def check(case: Case, reply: Reply) -> str | None:
    """Return what is wrong with an answer, or None."""
    if reply.status not in case.statuses:
        return f"status {reply.status}, not {sorted(case.statuses)}: {reply.body[:300]!r}"
    if reply.status < 400 or case.request.startswith(b"HEAD"):
        return None
    if reply.headers["content-type"] != "application/json":
        return f"content type {reply.headers['content-type']}"
    error = reply.json["error"]
    if error["status"] != reply.status or not error["code"] or not error["request_id"]:
        return f"envelope {error}"
    if not error["message"] or "Traceback" in error["message"]:
        return f"message {error['message']!r}"
    if case.code is not None and error["code"] != case.code:
        return f"code {error['code']}, not {case.code}: {error['message'][:300]}"
    if reply.status == 405 and "allow" not in reply.headers:
        return "405 without Allow"
    return None


@pytest.mark.parametrize("group", GROUPS)
async def test_hostile_requests_are_refused_or_answered(web: Web, group: str) -> None:
    wrong = []
    for case in GROUPS[group]:
        try:
            reply = await web.send(case.request, half_closes=case.half_closes)
            problem = check(case, reply)
        except Exception as error:  # whatever happens, the other cases are to be tried
            problem = f"no answer: {error!r}"
        if problem is not None:
            wrong.append(f"{case.name}: {problem}")
        neighbour = await web.send(get("/films/search", query="star"))
        assert neighbour.status == 200, case.name

    assert not wrong, "\n".join(wrong)


def test_catalogue_is_large_and_its_names_are_unique_enough() -> None:
    assert sum(len(cases) for cases in GROUPS.values()) > 400
