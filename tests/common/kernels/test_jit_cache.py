"""Where nothing can be built, numba compiles, and keeps what it compiled in a folder of ours."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.kernels import jit_cache
from tests.service import ROOT

WITHOUT_PRIVILEGES = (
    ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.geteuid() == 0 else ()
)
"""Of a root: what a folder's mode forbids is forbidden."""


def test_the_cache_of_numba_is_a_folder_of_ours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content is executed: no other user may have put it there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ours = jit_cache.directory()
    assert ours.is_relative_to(tmp_path)
    assert jit_cache.directory() == ours
    ours.chmod(0o777)
    assert not jit_cache.directory().is_relative_to(tmp_path)
    ours.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    ours.symlink_to(elsewhere)
    made = jit_cache.directory()
    assert not made.is_relative_to(tmp_path)
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number that no user has."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert jit_cache.user_folder("kernels") is None


FEW_KERNELS = """
from common.kernels.decorator import kernel

@kernel
def doubled(number: int) -> int:
    return 2 * number
"""


def test_a_read_only_cache_of_numba_is_read(tmp_path: Path) -> None:
    """numba refuses a folder that it cannot write to; without any folder it compiles nothing."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv: to root, a folder's mode forbids nothing")
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    (home / "few_kernels.py").write_text(FEW_KERNELS)
    program = "from few_kernels import doubled; print(doubled(4), len(doubled.stats.cache_hits))"
    environment = {
        **os.environ,
        "FACETD_KERNELS": "numba",
        "HOME": str(home),
        "PYTHONPATH": f"{home}:{ROOT}",
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    environment.pop("NUMBA_CACHE_DIR", None)

    def run() -> str:
        command = [*WITHOUT_PRIVILEGES, sys.executable, "-B", "-c", program]
        return subprocess.check_output(command, text=True, env=environment)

    assert run() == "8 0\n"
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert run() == "8 1\n"
    finally:
        for folder in folders:
            folder.chmod(0o700)
