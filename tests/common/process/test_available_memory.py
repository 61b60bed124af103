"""The memory that a process may count on: what the machine has, within the limits of its groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.process.available_memory import available_bytes

MEMINFO = "MemTotal:  100 kB\nMemAvailable:   8192 kB\nCached: 1 kB\n"


def make_system(folder: Path, *, group: str, limits: dict[str, str]) -> tuple[Path, Path]:
    """Write what the kernel would say; limits by path of the control group."""
    proc, groups = folder / "proc", folder / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMINFO)
    (proc / "self" / "cgroup").write_text(f"0::/{group}\n")
    for name, limit in limits.items():
        (groups / name).mkdir(parents=True, exist_ok=True)
        (groups / name / "memory.max").write_text(f"{limit}\n")
        (groups / name / "memory.stat").write_text("anon 1048576\nfile 9999\nkernel 1024\n")
    return proc, groups


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 8 << 20),
        ({"a": "max", "a/b": "max"}, 8 << 20),
        ({"a": "max", "a/b": str(4 << 20)}, (3 << 20) - 1024),
        ({"a": str(2 << 20), "a/b": str(4 << 20)}, (1 << 20) - 1024),
        ({"a": str(1 << 19)}, 0),
        ({"a": str(1 << 40)}, 8 << 20),
    ],
)
def test_the_narrowest_limit_counts(tmp_path: Path, limits: dict[str, str], expected: int) -> None:
    proc, groups = make_system(tmp_path, group="a/b", limits=limits)
    assert available_bytes(proc, groups) == expected


def test_without_a_system_that_tells_nothing_is_available(tmp_path: Path) -> None:
    assert available_bytes(tmp_path / "proc", tmp_path / "groups") == 0
