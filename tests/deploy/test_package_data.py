"""The files beside the modules that a wheel has: those of the repository, and nothing else."""

from __future__ import annotations

import glob
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.service import ROOT

SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
PACKAGES = ("common", "coordinator", "facetd", "shard")
FOR_READERS = {"shard/storage/FORMAT.md", "coordinator/replication/README.md"}
LEFT_BY_TOOLS = ("app.js~", "app.js.orig", "#app.js#", ".app.js.swp", "4913", "notes.bak")


def packaged(root: Path) -> set[str]:
    """Return what the patterns of pyproject.toml find, as setuptools does."""
    return {
        path
        for package, patterns in SETUPTOOLS["package-data"].items()
        for each in (PACKAGES if package == "*" else [package])
        for pattern in patterns
        for path in glob.glob(f"{each}/{pattern}", root_dir=root, recursive=True)
        if (root / path).is_file()
    }


def test_a_wheel_has_the_data_of_the_repository_and_nothing_that_tools_leave(
    tmp_path: Path,
) -> None:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    data = {name for name in listed.stdout.split() if not name.endswith(".py")} - FOR_READERS
    for name in data:
        path = tmp_path / name
        (path.parent / "__pycache__").mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        for junk in (*LEFT_BY_TOOLS, "__pycache__/app.cpython-311.pyc"):
            (path.parent / junk).write_bytes(b"")
    assert packaged(tmp_path) == data


def test_the_free_threaded_build_of_python_is_refused_with_the_remedy() -> None:
    code = (
        "import runpy, sysconfig; "
        "sysconfig.get_config_var = {'Py_GIL_DISABLED': 1}.get; "
        "runpy.run_path('setup.py')"
    )
    refused = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "use the usual build of the same version" in refused.stderr, refused.stderr
