"""A real PostgreSQL, where Debian's package is installed."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@contextmanager
def running_postgres(folder: Path, *options: str) -> Iterator[str]:
    """Run a server on a socket; yields its URL. Skips the test where it is not installed.

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
    programs = _PROGRAMS[-1].parent

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, user=user, cwd="/tmp")

    settings = ("listen_addresses=''", f"unix_socket_directories={folder}", "fsync=off", *options)
    try:
        data = str(folder / "data")
        run(str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
        run(
            *(str(programs / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log")),
            *("-o", " ".join(f"-c {setting}" for setting in settings), "start"),
        )
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
        finally:
            run(str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
