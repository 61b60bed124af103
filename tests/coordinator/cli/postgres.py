"""A real PostgreSQL, where Debian's package is installed."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.service import process_tree

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


class PostgresServer:
    """A server on a socket.

    Args:
        folder: of its socket, log and data.
        user: to run as; None for ours.
        options: settings, `name=value`.

    Attributes:
        url: of its database.
    """

    def __init__(self, folder: Path, user: str | None, options: tuple[str, ...]) -> None:
        self._data = folder / "data"
        self._log = folder / "log"
        self._user = user
        settings = ("listen_addresses=''", f"unix_socket_directories={folder}", "fsync=off")
        self._settings = " ".join(f"-c {setting}" for setting in (*settings, *options))
        self.url = f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"

    def make(self) -> None:
        """Make its data."""
        self._run("initdb", "-U", "postgres", "-A", "trust", "--no-sync")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._run("pg_ctl", "-w", "-l", str(self._log), "-o", self._settings, "start")

    def stop(self, mode: str) -> None:
        """Stop it: `smart` waits for sessions, `fast` ends them, `immediate` is a crash."""
        self._run("pg_ctl", "-m", mode, "stop")

    def require_password(self, role: str) -> None:
        """Let a role connect by its password only."""
        path = self._data / "pg_hba.conf"
        path.write_text(f"local all {role} scram-sha-256\n{path.read_text()}")
        self._run("pg_ctl", "reload")

    def send_signal(self, number: int) -> None:
        """Send a signal to all of its processes."""
        for pid in process_tree(int((self._data / "postmaster.pid").read_text().split()[0])):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _run(self, program: str, *arguments: str) -> None:
        command = (str(_PROGRAMS[-1].with_name(program)), "-D", str(self._data), *arguments)
        subprocess.run(command, check=True, capture_output=True, user=self._user, cwd="/tmp")


@contextmanager
def running_postgres(folder: Path, *options: str) -> Iterator[PostgresServer]:
    """Run a server. Skips the test where it is not installed.

    Args:
        folder: for its data, unless this runs as root.
        options: settings, `name=value`.
    """
    if not _PROGRAMS:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    pytest.importorskip("psycopg")
    user = None
    if os.geteuid() == 0:  # it refuses to run as root
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        folder = Path("/tmp") / f"facetd-postgres-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        shutil.chown(folder, user)
    server = PostgresServer(folder, user, options)
    try:
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
