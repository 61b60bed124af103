"""`facetd cluster status`: what it says about hosts that do not answer."""

from __future__ import annotations

from typing import Any

from coordinator.cli.commands.cluster import _host_row, problems_of


def _host(**changes: Any) -> dict[str, Any]:
    return {
        "name": "b:3000", "is_here": False, "is_serving": True, "is_away": False, "silent_s": 0,
        "trouble": "", "difference": "", "seq": 7, "lag_ms": 40, "compared_seq": 0, "num_equal": 0,
        "digest": "", "snapshot_at": "", "shards": 2, **changes,
    }  # fmt: skip


def _problems(host: dict[str, Any]) -> list[str]:
    return problems_of({"log": {"is_up": True, "servers": []}, "hosts": [host]})


def test_a_host_that_has_answered_serves() -> None:
    assert _host_row(_host(silent_s=1))[1:4] == ("serves", "7", "40 ms")
    assert not _problems(_host(silent_s=1))


def test_a_host_that_was_killed_a_moment_ago_is_not_shown_as_serving() -> None:
    host = _host(silent_s=3)

    assert _host_row(host)[1:4] == ("SILENT 3 s", "7", "-")
    assert _problems(host) == ["host b:3000 has not answered for 3 s"]


def test_a_host_that_is_gone_is_away() -> None:
    assert _host_row(_host(silent_s=75, is_away=True))[1:4] == ("AWAY 75 s", "7", "-")


def test_hosts_of_the_same_name_need_attention() -> None:
    hosts = [_host(name=name) for name in ("vm:3000", "b:3000", "vm:3000")]
    found = problems_of({"log": {"is_up": True, "servers": []}, "hosts": hosts})
    assert found == ["2 hosts are called vm:3000: give each its own name (log_host)"]
