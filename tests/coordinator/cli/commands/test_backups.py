"""`facetd backup` of a service whose snapshots this user cannot read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from coordinator.command_line_client import Client
from tests.coordinator.cli.loads import run
from tests.service import Service


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_backup_of_another_users_service_says_what_it_has_left(
    service: Service, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_seen: bool
) -> None:
    """It said "Permission denied", and left a copy of all data without a word."""

    def stand_in(folder: Path) -> bool:
        if folder.name.startswith("backup-"):
            if is_seen:
                return False
            raise PermissionError(errno.EACCES, "Permission denied")
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", stand_in)
        result = run(service, "backup", str(tmp_path / "monday"))

    assert result.exit_code == 1
    assert "the service is on another host, or another user's: it has made" in result.stderr
    (made,) = (one["name"] for one in client.request("GET", "/_snapshots")["snapshots"])
    assert f"facetd snapshots delete {made} removes it" in result.stderr
    client.request("DELETE", f"/_snapshots/{made}")
