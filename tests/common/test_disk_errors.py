"""What errors of the system say of the user and the owner."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from common import data_directory
from common.disk_errors import remedy_of, user_name

OTHER = 12_345_678
"""A user that no system has a name for."""


def refused(path: Path, number: int = errno.EACCES) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def test_a_user_without_a_name_has_a_number() -> None:
    assert user_name(0) == "root"
    assert user_name(OTHER) == str(OTHER)


def test_files_of_another_user_are_given_away_with_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "my data"
    file = data / "shard-0" / "lock"
    file.parent.mkdir(parents=True)
    file.touch()
    owner = user_name(os.geteuid())
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    for error in (refused(file), refused(file, errno.EPERM)):
        assert remedy_of(error, data) == (
            f"{file} belongs to {owner}, and this process runs as {OTHER}: start it as the owner, "
            f"or give {OTHER} the files (chown -R {OTHER} '{data}')"
        )
    assert remedy_of(refused(file)).endswith(f"(chown -R {OTHER} '{file}')")
    assert remedy_of(refused(file), tmp_path / "other").endswith(f"(chown -R {OTHER} '{file}')")


def test_a_folder_on_the_way_is_not_given_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chown -R` of /root was the advice for a data directory below it."""
    data = tmp_path / "data"
    stat = Path.stat

    def stop(path: Path, **options: bool) -> os.stat_result:
        if path.is_relative_to(data):
            raise refused(path)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", stop)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    for folder in (data, None):
        assert remedy_of(refused(data / "MANIFEST.json"), folder) == (
            f"let {OTHER}, who runs this process, pass through {tmp_path} (its permissions)"
        )


def test_what_does_not_exist_is_made_for_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert remedy_of(refused(tmp_path / "new")) == (
        f"make it for {OTHER}, who runs this process: install -d -o {OTHER} {tmp_path / 'new'}"
    )


def test_a_folder_that_lets_nothing_be_made_in_it_is_what_is_mended(tmp_path: Path) -> None:
    for missing in (tmp_path / "lock", tmp_path / "shard-0" / "lock"):
        assert remedy_of(refused(missing), tmp_path) == remedy_of(refused(tmp_path), tmp_path)


def test_an_own_folder_that_is_read_only_gets_other_permissions(tmp_path: Path) -> None:
    user = user_name(os.geteuid())
    assert remedy_of(refused(tmp_path)) == (
        f"let {user}, who owns it and runs this process, use it (chmod -R u+rwX {tmp_path})"
    )


def test_other_errors_have_remedies_of_their_own(tmp_path: Path) -> None:
    assert remedy_of(refused(tmp_path, errno.EROFS)) == "mount it for writing"
    assert remedy_of(refused(tmp_path, errno.ENOSPC)) == "make room on its disk"
    assert remedy_of(refused(tmp_path, errno.EIO)) == "look after its disk"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_data_directory_that_cannot_be_locked_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: Path, *_: object) -> int:
        raise refused(path, number)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(data_directory.DataDirectoryError) as caught:
        data_directory.acquire_lock(tmp_path)
    monkeypatch.undo()
    message = str(caught.value)
    assert message.startswith(f"cannot write to {tmp_path}: {os.strerror(number)}; ")
    assert message.endswith(("(chmod -R u+rwX " + str(tmp_path) + ")", "; mount it for writing"))
