"""Installs the packages of package.json into an ignored folder: `python -m tests.npm.install`.

Tests call `packages()`, which installs them when they are not there, and skips the test, saying so,
where Node, npm or the registry is missing. No lock file is kept: versions are exact.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
INSTALL_SECONDS_MAX = 150


class NotInstalled(Exception):
    """Packages could not be installed; says why."""


def wanted() -> dict[str, str]:
    """Return the packages and their versions."""
    found: dict[str, str] = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    return found


def is_installed() -> bool:
    """Return whether each package is there in the version that is wanted."""
    for name, version in wanted().items():
        described = FOLDER / "node_modules" / name / "package.json"
        if not described.exists():
            return False
        if json.loads(described.read_text())["version"] != version.rpartition("@")[2]:
            return False
    return True


def install() -> None:
    """Install the packages.

    Raises:
        NotInstalled: there is no Node or npm, or the registry does not answer.
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NotInstalled("Node and npm are not installed")
    if is_installed():
        return
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    command += ["--fetch-retries=1", "--fetch-timeout=30000"]
    try:
        run = subprocess.run(
            command,
            cwd=FOLDER,
            env={**os.environ, "npm_config_update_notifier": "false"},
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {INSTALL_SECONDS_MAX} s") from None
    if run.returncode != 0 or not is_installed():
        raise NotInstalled(f"npm could not install them: {run.stderr[-300:]}")


@cache
def _problem() -> str:
    try:
        install()
    except NotInstalled as error:
        return str(error)
    return ""


def packages() -> Path:
    """Return the folder whose node_modules has the packages; skips the test where it has not."""
    if problem := _problem():
        pytest.skip(f"npm packages are not there: {problem}")
    return FOLDER


if __name__ == "__main__":
    try:
        install()
    except NotInstalled as error:
        sys.exit(f"tests/npm: {error}")
