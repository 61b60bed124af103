"""The lock, the files and the secrets of a data directory."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from common import data_directory
from common.data_directory import DataDirectoryError, acquire_lock, read_or_create_secret
from common.disk_errors import explaining_disk_failure
from common.durable_files import remove_unfinished_writes
from common.errors import InternalError, StorageFull, Unavailable


def test_a_folder_has_one_owner_and_says_who(tmp_path: Path) -> None:
    lock = acquire_lock(tmp_path)
    with pytest.raises(DataDirectoryError, match=f"process {os.getpid()}"):
        acquire_lock(tmp_path, wait_seconds=0)
    os.close(lock)
    os.close(acquire_lock(tmp_path, wait_seconds=0))


def test_a_path_that_is_not_text_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """The shards could make no index in it, and no response could name its snapshots."""
    folder = tmp_path / os.fsdecode(b"d\xe4ta")
    with pytest.raises(DataDirectoryError, match=r"LC_ALL=C\.UTF-8"):
        data_directory.create(folder)
    assert not folder.exists()


def test_a_locale_that_cannot_encode_a_path_is_refused(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from common import data_directory; "
        f"data_directory.create(pathlib.Path({str(tmp_path)!r}) / sys.argv[1])"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for environment in (ascii_only, {"LC_ALL": "C.UTF-8"}):
        made = subprocess.run(
            [sys.executable, "-c", code, "dät\N{SNOWMAN}"],
            env=os.environ | environment,
            capture_output=True,
            check=False,
        )
        assert (b"set a locale of UTF-8" in made.stderr) is (environment is ascii_only), made.stderr
        assert (tmp_path / "dät\N{SNOWMAN}").exists() is (environment is not ascii_only)


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = acquire_lock(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    os.close(lock)
    os.close(acquire_lock(tmp_path, wait_seconds=0))
    child.communicate()


def test_a_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = acquire_lock(tmp_path)
    pauses: list[float] = []

    def release(seconds: float) -> None:
        pauses.append(seconds)
        os.close(lock)

    monkeypatch.setattr("common.data_directory.time.sleep", release)
    os.close(acquire_lock(tmp_path, wait_seconds=5))
    assert len(pauses) == 1


def test_the_owner_removes_what_killed_processes_have_left(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED_WRITER.format(path=str(tmp_path / "state"))]
    )
    assert process.wait() == -9
    (left,) = tmp_path.glob(".state.*.tmp")
    others = (f".state.{os.getppid()}.tmp", "state.7.tmp", ".state.tmp")
    for name in others:
        (tmp_path / name).touch()
    os.close(acquire_lock(tmp_path))
    assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "state", *others}
    assert (tmp_path / "state").read_text() == "old"


_KILLED_WRITER = """
import os, signal
from pathlib import Path
from unittest.mock import Mock
from common.durable_files import write_atomically
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(Path({path!r}), b"new")
"""


def test_a_lock_is_that_of_the_folder_which_has_the_name_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    flock = fcntl.flock

    def exchange_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        folder.rename(tmp_path / "former")
        folder.mkdir()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", exchange_first)
    lock = acquire_lock(folder)
    assert os.path.samestat(os.fstat(lock), (folder / "lock").stat())
    with pytest.raises(DataDirectoryError, match="in use"):
        acquire_lock(folder, wait_seconds=0)
    os.close(lock)


def test_all_get_the_same_secret_and_other_users_cannot_read_it(tmp_path: Path) -> None:
    secret = read_or_create_secret(tmp_path)
    assert len(secret) == 64
    assert read_or_create_secret(tmp_path) == secret
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


def test_a_secret_that_found_no_room_leaves_nothing_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that is restarted repeatedly on a full disk would leave a file each time."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            read_or_create_secret(tmp_path)
    remove_unfinished_writes(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryError, match="--data-dir"):
        data_directory.create(tmp_path / "file" / "data")


def test_what_is_no_folder_is_said(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(tmp_path / "unmounted")
    for use in (data_directory.create, data_directory.read_manifest):
        with pytest.raises(DataDirectoryError, match=f"^{file} is not a folder; .*--data-dir$"):
            use(file)
    with pytest.raises(DataDirectoryError, match=r"link to .*/unmounted, which does not exist; "):
        data_directory.create(link)


@pytest.mark.parametrize(
    ("number", "expected", "message"),
    [
        (errno.ENOSPC, StorageFull, "is full: nothing was written"),
        (errno.EMFILE, Unavailable, r"Too many open files: nothing was written; .*ulimit -n"),
        (errno.EIO, InternalError, r"failed \(Input/output error\): nothing was written"),
    ],
)
def test_what_the_system_refuses_is_told_by_its_cause(
    number: int, expected: type[Exception], message: str
) -> None:
    with pytest.raises(expected, match=message), explaining_disk_failure("nothing was written"):
        raise OSError(number, os.strerror(number))
