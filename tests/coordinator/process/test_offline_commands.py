"""Check, rebuild, backup, restore and reshard by the command line, with real services."""

from __future__ import annotations

import errno
import fcntl
import gzip
import http.client
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
import zstandard

from common.data_directory import DataDirectoryError, acquire_lock
from coordinator.process import offline_commands
from coordinator.snapshots.snapshots_on_disk import ServiceSnapshot, SnapshotError, verify
from tests.service import ROOT, Service, run_command

CONFIGURATION = {"aggregations": {"tags": {"conjunction": False}, "year": {}}}
NUM_ITEMS = 300


def fill(service: Service) -> None:
    """Store items with and without id; replace and delete some, so that there are tombstones."""
    client = service.client()
    assert client.post("/things/configuration", CONFIGURATION).status == 200
    lines = b"".join(
        b'{%b"title":"thing number %d","tags":["t%d","all"],"year":%d}\n'
        % (b"" if i % 7 == 0 else b'"id":%d,' % i, i, i % 5, 1990 + i % 9)
        for i in range(NUM_ITEMS)
    )
    assert client.post_text("/things/index", lines).status == 200
    changed = [{"id": i, "title": f"changed {i}", "tags": ["new"]} for i in range(1, 60, 2)]
    assert client.post("/things/items", changed).status == 200
    for i in (2, 3, 4):
        assert client.delete(f"/things/items/{i}").status == 200
    client.close()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a service of two shards that was stopped."""
    service = Service(tmp_path_factory.mktemp("maintenance") / "data", 2)
    service.start()
    fill(service)
    assert service.terminate() == 0
    return service.data


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the backup of a service of one shard."""
    folder = tmp_path_factory.mktemp("backup")
    with Service(folder / "data", 1) as service:
        fill(service)
        made = run_command("backup", str(folder / "copy"), "--data-dir", str(service.data))
        assert made.returncode == 0, made.stderr
    return folder / "copy"


class TestCheck:
    def test_data_that_are_right(self, stopped: Path) -> None:
        checked = run_command("check", "--data-dir", str(stopped))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert checked.stdout.count(b", 0 problems") == 2

    def test_a_damaged_segment_is_told_and_rebuilt(self, stopped: Path) -> None:
        segment = next(stopped.glob("shard-0/index-*/segment-*.seg"))
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
        checked = run_command("check", "--data-dir", str(stopped))
        assert checked.returncode == 1
        assert b"PROBLEM" in checked.stdout
        rebuilt = run_command("rebuild", "--data-dir", str(stopped))
        assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
        assert run_command("check", "--data-dir", str(stopped)).returncode == 0

    def test_a_shard_that_is_missing(self, stopped: Path) -> None:
        folder = stopped / "shard-1"
        folder.rename(stopped / "gone")
        try:
            checked = run_command("check", "--data-dir", str(stopped))
        finally:
            (stopped / "gone").rename(folder)
        assert checked.returncode == 1
        assert b"shard-1/shard.json is missing" in checked.stdout

    def test_a_shard_whose_list_of_indexes_is_damaged(self, stopped: Path) -> None:
        """The check ended there without a word on which shard it was, and on what helps."""
        path = stopped / "shard-0" / "shard.json"
        content = path.read_bytes()
        path.write_bytes(content[:-5])
        try:
            checked = run_command("check", "--data-dir", str(stopped))
            resharded = run_command("reshard", "--shards", "3", "--data-dir", str(stopped))
        finally:
            path.write_bytes(content)
        what = f"{path} cannot be read (shard.json: checksum differs); restore it from a backup\n"
        assert checked.returncode == resharded.returncode == 1
        assert f"shard-0: PROBLEM {what}" in checked.stdout.decode()
        assert b"shard-1/index-1: " in checked.stdout, "the other one is checked"
        assert resharded.stderr.decode() == f"facetd: {what}"

    def test_a_check_that_does_not_come_to_its_end(
        self, stopped: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As when a kernel, or the database, meets what it cannot survive."""
        monkeypatch.setattr(offline_commands.OwnedData, "run", lambda *_, **__: -signal.SIGSEGV)
        assert offline_commands.check(stopped) == 1
        assert "PROBLEM the check was ended by SIGSEGV" in capsys.readouterr().out

    def test_no_data(self, tmp_path: Path) -> None:
        checked = run_command("check", "--data-dir", str(tmp_path))
        assert checked.returncode == 1
        assert b"has no data" in checked.stderr

    @pytest.mark.parametrize("command", ["check", "rebuild"])
    def test_not_while_a_service_runs(self, tmp_path: Path, command: str) -> None:
        with Service(tmp_path / "data", 1) as service:
            refused = run_command(command, "--data-dir", str(service.data))
        assert refused.returncode == 1
        assert b"in use by another facetd" in refused.stderr

    def test_a_service_that_is_about_to_end_is_waited_for(self, stopped: Path) -> None:
        lock = acquire_lock(stopped)
        ending = threading.Timer(0.2, os.close, (lock,))
        ending.start()
        with offline_commands.owned(stopped) as ours:
            assert ours.folder == stopped.resolve()
        ending.join()


def answers(service: Service) -> list[object]:
    """Return what a client sees of the index, without what differs between two runs."""
    client = service.client()
    found: list[object] = []
    for parameters in (
        {"per_page": 1000},
        {"query": "thing 1", "per_page": 50},
        {"query": "chnaged", "per_page": 20},
        {"filters": {"tags": ["t1", "new"]}, "sort": "year:desc", "per_page": 100},
        {"query": "number", "filters": {"year": [1993]}, "per_page": 30, "page": 2},
    ):
        reply = client.search("things", **parameters)
        found.append({name: reply[name] for name in ("data", "pagination")})
    found.append(client.get("/things/items").body)
    client.close()
    return found


class TestBackup:
    def test_a_backup_has_one_moment_while_it_is_written_to(self, tmp_path: Path) -> None:
        """Every write sets all items to one number: a copy of two moments would have two."""
        stop = threading.Event()
        with Service(tmp_path / "data", 2) as service:
            client = service.client()
            assert client.post("/things/configuration", {}).status == 200
            acknowledged = 0

            def write() -> None:
                nonlocal acknowledged
                writer = service.client()
                number = 0
                while not stop.is_set():
                    number += 1
                    items = [{"id": i, "n": number} for i in range(40)]
                    assert writer.post("/things/items", items).status == 200
                    acknowledged = number
                writer.close()

            thread = threading.Thread(target=write)
            thread.start()
            try:
                for copy in range(3):
                    before = acknowledged
                    made = run_command(
                        "backup", str(tmp_path / f"b{copy}"), "--data-dir", str(service.data)
                    )
                    assert made.returncode == 0, made.stderr
            finally:
                stop.set()
                thread.join()
            assert client.get("/_snapshots").json == {"snapshots": []}
            client.close()
        restored = run_command(
            "restore", str(tmp_path / "b2"), "--data-dir", str(tmp_path / "again")
        )
        assert restored.returncode == 0, restored.stderr
        with Service(tmp_path / "again", 2) as service:
            client = service.client()
            items = [json.loads(line) for line in client.get("/things/items").body.splitlines()]
            assert len(items) == 40
            assert len({item["n"] for item in items}) == 1
            assert items[0]["n"] >= before > 0
            written = client.post("/things/items", [{"id": 1, "n": 0}]).json
            assert written["seq"] > json.loads(restored.stdout)["indexes"][0]["seq"]
            client.close()
            assert service.terminate() == 0
        checked = run_command("check", "--data-dir", str(tmp_path / "again"))
        assert checked.returncode == 0, checked.stdout

    def test_a_stream_comes_back_byte_for_byte(self, tmp_path: Path) -> None:
        with Service(tmp_path / "data", 2) as service:
            fill(service)
            expected = answers(service)
            stream = run_command("backup", "-", "--data-dir", str(service.data))
            assert stream.returncode == 0, stream.stderr
        again = tmp_path / "again"
        for cut in (0, 1000, len(stream.stdout) // 2):
            refused = run_command(
                "restore", "-", "--data-dir", str(again), text=stream.stdout[:cut]
            )
            assert refused.returncode == 1
            assert b"Traceback" not in refused.stderr
            assert not again.exists()
        restored = run_command("restore", "-", "--data-dir", str(again), text=stream.stdout)
        assert restored.returncode == 0, restored.stderr
        (tmp_path / "monday.tar").write_bytes(stream.stdout)
        file, third = str(tmp_path / "monday.tar"), str(tmp_path / "third")
        assert run_command("restore", file, "--data-dir", third).stdout == restored.stdout.replace(
            str(again).encode(), third.encode()
        )
        with Service(again, 2) as service:
            assert answers(service) == expected

    @pytest.mark.parametrize("is_stream", [False, True])
    def test_files_are_synced_by_who_wrote_them_before_they_are_compared(
        self, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stream: bool
    ) -> None:
        """A sync by another descriptor may not be told of a write that the disk has refused."""
        synced: set[Path] = set()
        sync = os.fsync

        def note_sync(descriptor: int) -> None:
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
            sync(descriptor)

        def verify_synced(folder: Path, snapshot: ServiceSnapshot) -> None:
            assert {folder / file.path for file in snapshot.files} <= synced
            verify(folder, snapshot)

        monkeypatch.setattr(os, "fsync", note_sync)
        monkeypatch.setattr(offline_commands, "verify", verify_synced)
        source: Path | io.BytesIO = backup
        if is_stream:
            source = io.BytesIO()
            offline_commands.write_archive(backup, source)
            source.seek(0)

        restored = offline_commands.restore(source, tmp_path / "data")

        assert restored.indexes[0].name == "things"

    def test_a_folder_packed_by_another_program_comes_back(
        self, backup: Path, tmp_path: Path
    ) -> None:
        """Its names begin with ./, and folders have entries of their own."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w|") as archive:
            archive.add(backup, ".")
        packed.seek(0)

        restored = offline_commands.restore(packed, tmp_path / "data")

        listed = {tmp_path / "data" / file.path for file in restored.files}
        files = {path for path in (tmp_path / "data").rglob("*") if path.is_file()}
        assert files - {tmp_path / "data" / "lock"} == listed

    def test_a_stream_is_unpacked_without_the_filters_of_later_releases_of_python(
        self, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Debian 12 has 3.11.2, and `extractall` knows `filter` from 3.11.4 on."""

        def extractall(self: tarfile.TarFile, path: Path, *, numeric_owner: bool = False) -> None:
            raise AssertionError

        monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
        stream = io.BytesIO()
        offline_commands.write_archive(backup, stream)
        stream.seek(0)
        offline_commands.restore(stream, tmp_path / "data")
        assert offline_commands.check(tmp_path / "data") == 0

    @pytest.mark.parametrize("is_stream", [False, True])
    def test_a_full_disk_is_named_and_left_as_it_was(
        self, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stream: bool
    ) -> None:
        source: Path | io.BytesIO = backup
        if is_stream:
            source = io.BytesIO()
            offline_commands.write_archive(backup, source)
            source.seek(0)

        def refuse(content: IO[bytes], target: Path) -> None:
            target.write_bytes(content.read(100))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(offline_commands, "copy_synced", refuse)
        before = sorted(tmp_path.iterdir())
        with pytest.raises(DataDirectoryError, match=f"no room for {tmp_path / 'data'}: No space"):
            offline_commands.restore(source, tmp_path / "data")
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (tarfile.SYMTYPE, "shard-0/x"),
            (tarfile.LNKTYPE, "shard-0/x"),
            (tarfile.FIFOTYPE, "shard-0/x"),
            (tarfile.REGTYPE, "../x"),
            (tarfile.REGTYPE, "/tmp/x"),
        ],
    )
    def test_a_stream_of_anything_but_files_within_is_refused(
        self, tmp_path: Path, kind: bytes, name: str
    ) -> None:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            strange = tarfile.TarInfo(name)
            strange.type, strange.linkname = kind, "/etc/passwd"
            archive.addfile(strange)
        stream.seek(0)
        with pytest.raises(SnapshotError, match="unexpected file"):
            offline_commands.restore(stream, tmp_path / "data")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("compress", "command"), [(gzip.compress, "gzip -dc"), (zstandard.compress, "zstd -dc")]
    )
    def test_a_compressed_stream_is_refused_with_the_command_that_reads_it(
        self, tmp_path: Path, compress: Callable[[bytes], bytes], command: str
    ) -> None:
        (tmp_path / "monday.tar.x").write_bytes(compress(bytes(10_240)))
        with pytest.raises(SnapshotError, match=rf"; {command} FILE \| facetd restore -"):
            offline_commands.restore(tmp_path / "monday.tar.x", tmp_path / "data")
        assert not (tmp_path / "data").exists()

    def test_snapshots_by_http(self, tmp_path: Path) -> None:
        with Service(tmp_path / "data", 1) as service:
            fill(service)
            client = service.client()
            made = client.post("/_snapshots", {"name": "monday"})
            assert made.status == 200, made.body
            assert made.json["indexes"][0]["name"] == "things"
            listed = client.get("/_snapshots").json["snapshots"]
            assert [one["name"] for one in listed] == ["monday"]
            for name in ("monday", "", "../x", "a/b", "a.b", 5, None, "x" * 65):
                refused = client.post("/_snapshots", {"name": name})
                assert (refused.status, refused.json["error"]["code"]) == (400, "invalid_snapshot")
            assert client.post("/_snapshots", {"directory": "/tmp/x"}).status == 400
            assert client.post("/_snapshots", {"name": "tuesday"}).status == 200
            assert client.delete("/_snapshots/tuesday").json == {
                "status": "deleted",
                "name": "tuesday",
            }
            for name, status, code in (
                ("tuesday", 404, "snapshot_not_found"),
                ("monday.partial", 400, "invalid_snapshot"),
                ("..%2Fshard-0", 400, "invalid_snapshot"),
            ):
                refused = client.delete(f"/_snapshots/{name}")
                assert (refused.status, refused.json["error"]["code"]) == (status, code)
            client.close()
        folder = service.data / "snapshots"
        assert [entry.name for entry in folder.iterdir()] == ["monday"]
        secret = (service.data / "secret").read_bytes().strip()
        for path in folder.rglob("*"):
            assert path.is_dir() or secret not in path.read_bytes()


class TestBackupFaults:
    def test_a_failed_snapshot_leaves_nothing(self, tmp_path: Path) -> None:
        faults = {"FACETD_FAULTS": "backup.copy=error@1,snapshot.finish=error@1"}
        with Service(tmp_path / "data", 1, environment=faults) as service:
            fill(service)
            client = service.client()
            folder = service.data / "snapshots"
            for _ in range(2):
                failed = client.post("/_snapshots", {"name": "one"})
                assert (failed.status, failed.json["error"]["code"]) == (500, "internal")
                assert list(folder.iterdir()) == []
            assert client.post("/_snapshots", {"name": "one"}).status == 200
            assert [entry.name for entry in folder.iterdir()] == ["one"]
            client.close()

    def test_a_destination_that_fails_leaves_no_snapshot(self, tmp_path: Path) -> None:
        """One more for each night would fill the disk of the data."""
        (tmp_path / "file").touch()
        with Service(tmp_path / "data", 1) as service:
            fill(service)
            target = tmp_path / "file" / "copy"
            failed = run_command("backup", str(target), "--data-dir", str(service.data))
            assert failed.stderr.startswith(f"facetd: cannot make {target}: ".encode())
            assert list((service.data / "snapshots").iterdir()) == []

    @pytest.mark.parametrize("point", ["backup.copy", "snapshot.finish"])
    def test_a_process_that_dies_leaves_no_snapshot(self, tmp_path: Path, point: str) -> None:
        faults = {"FACETD_FAULTS": f"{point}=kill"}
        with Service(tmp_path / "data", 1, environment=faults) as service:
            fill(service)
            client = service.client()
            if point == "backup.copy":
                failed = client.post("/_snapshots", {"name": "one"})
                assert (failed.status, failed.json["error"]["code"]) == (503, "shard_unavailable")
            else:
                with pytest.raises((OSError, http.client.HTTPException)):
                    client.post("/_snapshots", {"name": "one"})
            service.wait_ready()
            assert client.get("/_snapshots").json == {"snapshots": []}
            client.close()
            service.environment = {}
            service.restart()
            assert client.get("/_snapshots").json == {"snapshots": []}
            assert client.post("/_snapshots", {"name": "one"}).status == 200
            assert [entry.name for entry in (service.data / "snapshots").iterdir()] == ["one"]
            client.close()


class TestRestore:
    @pytest.mark.parametrize("parts", ["copy", "a/b/copy"])
    def test_a_folder_that_cannot_be_made_is_named_as_it_was_given(
        self, backup: Path, tmp_path: Path, parts: str
    ) -> None:
        (tmp_path / "file").touch()
        target = tmp_path / "file" / parts
        refused = run_command("restore", str(backup), "--data-dir", str(target))
        assert refused.stderr.decode().startswith(f"facetd: cannot make {target}: Not a directory;")
        assert refused.returncode == 1

    @pytest.mark.parametrize("reason", ["it is a mount point", "may not write to"])
    def test_a_folder_that_no_rename_can_replace_is_refused_before_the_work(
        self, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
    ) -> None:
        target = tmp_path / "data"
        target.mkdir()
        monkeypatch.setattr(Path, "is_mount", lambda path: reason == "it is a mount point")
        monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
        for work in (offline_commands.restore, offline_commands.move_snapshot):
            with pytest.raises(DataDirectoryError, match=reason) as refused:
                work(backup, target)
            assert str(refused.value).endswith(f"name a folder in it, such as {target}/data")
        with pytest.raises(DataDirectoryError, match=reason):
            offline_commands.check_place(target)
        assert [entry.name for entry in tmp_path.iterdir()] == ["data"]
        assert (backup / "snapshot.json").exists()

    def test_a_link_is_refused_with_where_it_leads(self, backup: Path, tmp_path: Path) -> None:
        (tmp_path / "private").mkdir()
        (tmp_path / "link").symlink_to("private")
        refused = run_command("restore", str(backup), "--data-dir", str(tmp_path / "link"))
        line = f"facetd: {tmp_path}/link is a link; name {tmp_path}/private, where it leads\n"
        assert (refused.returncode, refused.stderr.decode()) == (1, line)

    def test_a_folder_that_is_not_empty_is_refused(self, backup: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        refused = run_command("restore", str(backup), "--data-dir", str(tmp_path))
        assert refused.returncode == 1
        assert b"is not empty" in refused.stderr
        assert [entry.name for entry in tmp_path.iterdir()] == ["file"]

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("shard-0/index-1/data.mdb", b"differs"),
            ("catalog.json", b"differs"),
            ("snapshot.json", b"damaged"),
        ],
    )
    def test_damage_is_noticed(
        self, backup: Path, tmp_path: Path, path: str, message: bytes
    ) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(backup, copy)
        content = bytearray((copy / path).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / path).write_bytes(content)
        refused = run_command("restore", str(copy), "--data-dir", str(tmp_path / "data"))
        assert refused.returncode == 1
        assert message in refused.stderr
        assert not (tmp_path / "data").exists()
        assert not (tmp_path / "data.restoring").exists()

    def test_an_unfinished_backup_is_refused(self, backup: Path, tmp_path: Path) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(backup, copy)
        (copy / "snapshot.json").unlink()
        refused = run_command("restore", str(copy), "--data-dir", str(tmp_path / "data"))
        assert refused.returncode == 1
        assert b"not finished" in refused.stderr

    def test_what_a_killed_restore_has_left_does_not_matter(
        self, backup: Path, tmp_path: Path
    ) -> None:
        left = tmp_path / "data.restoring"
        shutil.copytree(backup, left)
        (left / "shard-0/index-1/data.mdb").write_bytes(b"half")
        (left / "shard-7").mkdir()
        restored = run_command("restore", str(backup), "--data-dir", str(tmp_path / "data"))
        assert restored.returncode == 0, restored.stderr
        assert not left.exists()
        assert not (tmp_path / "data" / "shard-7").exists()
        assert run_command("check", "--data-dir", str(tmp_path / "data")).returncode == 0


class TestReshard:
    def test_answers_stay_the_same_whatever_dies(self, tmp_path: Path) -> None:
        data = tmp_path / "data"
        with Service(data, 2) as service:
            fill(service)
            expected = answers(service)
            client = service.client()
            assert client.post("/_snapshots", {"name": "kept"}).status == 200
            seq = client.post("/things/items", []).json["seq"]
            client.close()
            refused = run_command("reshard", "--shards", "3", "--data-dir", str(data))
            assert refused.returncode == 1
            assert b"in use by another facetd" in refused.stderr
        # The service was killed: the log of groups has not been folded.
        for fault in ("batch", "built", "switch"):
            killed = run_command(
                *("reshard", "--shards", "3", "--data-dir", str(data)),
                FACETD_FAULTS=f"reshard.{fault}=kill",
            )
            assert killed.returncode != 0
            assert b"in use" not in killed.stderr
            assert json.loads((data / "MANIFEST.json").read_text())["shards"] == 2
        assert run_command("check", "--data-dir", str(data)).returncode == 0
        killed = run_command(
            *("reshard", "--shards", "3", "--data-dir", str(data)),
            FACETD_FAULTS="reshard.switched=kill",
        )
        assert killed.returncode != 0
        again = run_command("reshard", "--shards", "3", "--data-dir", str(data))
        assert again.returncode == 0, again.stderr
        assert b"has 3 shards already" in again.stdout
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["data"]
        checked = run_command("check", "--data-dir", str(data))
        assert checked.returncode == 0, checked.stdout
        assert checked.stdout.count(b" 0 problems") == 3
        with Service(data, 3) as service:
            assert answers(service) == expected
            client = service.client()
            assert [one["name"] for one in client.get("/_snapshots").json["snapshots"]] == ["kept"]
            changed = client.post("/things/items", [{"id": 1, "title": "new"}, {"id": "x"}]).json
            assert (changed["created"], changed["updated"]) == (1, 1)
            assert changed["seq"] > seq
            client.close()

    def test_to_another_folder(self, stopped: Path, tmp_path: Path) -> None:
        output = tmp_path / "one"
        made = run_command(
            *("reshard", "--shards", "1", "--data-dir", str(stopped), "--output", str(output))
        )
        assert made.returncode == 0, made.stderr
        assert b"items on 1 shard" in made.stdout
        assert json.loads((stopped / "MANIFEST.json").read_text())["shards"] == 2
        assert run_command("check", "--data-dir", str(output)).returncode == 0
        assert [path.name for path in tmp_path.iterdir()] == ["one"]


def run_failing(call: str, nth: int, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command whose n-th call of a kind fails, in each of its threads and processes.

    Every call and every n: tests/faults/test_failing_commands.py.
    """
    return subprocess.run(
        [
            *("strace", "-f", "-qq", "-o", "/dev/null"),
            *("-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={nth}"),
            *(sys.executable, "-m", "coordinator", *arguments),
        ],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
class TestFailingCalls:
    def _fails_safely(self, backup: Path, folder: Path, call: str, nth: int) -> bool:
        """Let the n-th call fail in a restore and in a reshard; returns whether one failed."""
        data = folder / "data"
        restored = run_failing(call, nth, "restore", str(backup), "--data-dir", str(data))
        if restored.returncode != 0:
            assert b"Traceback" not in restored.stderr
            shutil.rmtree(data, ignore_errors=True)  # if there, it is whole: the last sync failed
            assert run_command("restore", str(backup), "--data-dir", str(data)).returncode == 0
        resharded = run_failing(call, nth, "reshard", "--shards", "2", "--data-dir", str(data))
        assert run_command("check", "--data-dir", str(data)).returncode == 0
        again = run_command("reshard", "--shards", "2", "--data-dir", str(data))
        assert again.returncode == 0, again.stderr
        checked = run_command("check", "--data-dir", str(data))
        assert (checked.returncode, checked.stdout.count(b" 0 problems")) == (0, 2)
        shutil.rmtree(data)
        return restored.returncode != 0 or resharded.returncode != 0

    @pytest.mark.parametrize(
        ("call", "nth"), [("fsync", 3), pytest.param("pwrite64", 2, marks=pytest.mark.long)]
    )
    def test_a_failing_call_leaves_old_or_new(
        self, backup: Path, tmp_path: Path, call: str, nth: int
    ) -> None:
        assert self._fails_safely(backup, tmp_path, call, nth)
