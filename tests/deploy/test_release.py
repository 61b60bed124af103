"""The release recipe refuses a commit that does not say which release it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CHANGES = "# Changelog\n\n## Unreleased\n\n## 1.2.3 (2026-11-22)\n\n### Added\n"


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with what the checks look at."""
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy" / "release", tmp_path / "deploy" / "release")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-qm", "release")
    return tmp_path


def _check(folder: Path, version: str = "1.2.3") -> str:
    """Return what the checks complain about."""
    command = ["bash", str(folder / "deploy" / "release"), "--check", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


def test_a_commit_that_names_its_release_passes(checkout: Path) -> None:
    assert _check(checkout) == ""


def test_the_version_of_the_package_decides(checkout: Path) -> None:
    assert "pyproject.toml names another version" in _check(checkout, "1.2.4")


def test_the_changelog_has_a_dated_section(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(CHANGES.replace(" (2026-11-22)", ""))
    assert "CHANGELOG.md has no section '## 1.2.3 (YYYY-MM-DD)'" in _check(checkout)


def test_uncommitted_changes_are_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(CHANGES + "- more\n")
    assert "there are uncommitted changes" in _check(checkout)


def test_a_tag_is_made_once(checkout: Path) -> None:
    _git(checkout, "tag", "-a", "v1.2.3", "-m", "facetd 1.2.3")
    assert "the tag v1.2.3 exists" in _check(checkout)
