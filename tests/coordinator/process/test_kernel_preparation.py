"""Kernels of a changed checkout are compiled beside the supervisor, before anything else starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.kernels import extension_loading, source_digests
from common.process.python_command import python_command
from coordinator.http.security.cors import AllowedOrigins
from coordinator.process.kernel_preparation import prepare_kernels
from coordinator.process.startup_listener import StartupListener


class Aside:
    """Runs nothing; notes the commands, and ends them as it is told."""

    def __init__(self, *ends: bool) -> None:
        self.commands: list[list[str]] = []
        self._ends = list(ends)

    async def __call__(self, command: list[str]) -> bool:
        self.commands.append(command)
        return self._ends.pop(0)


@pytest.fixture
def listener() -> StartupListener:
    return StartupListener(AllowedOrigins(()))


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> Path:
    """An extension that its sources have outdated."""
    monkeypatch.setenv("FACETD_KERNELS", "")  # and so restored, whatever a test makes of it
    monkeypatch.setattr(source_digests, "is_current", lambda path: False)
    monkeypatch.setattr(extension_loading, "can_build", lambda path: True)
    return source_digests.EXTENSION


async def test_numba_needs_no_extension(
    listener: StartupListener, stale: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACETD_KERNELS", "numba")
    aside = Aside()
    assert await prepare_kernels(listener, aside)
    assert aside.commands == []


async def test_changed_kernels_are_compiled_and_the_listener_says_so(
    listener: StartupListener, stale: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([False, True])
    monkeypatch.setattr(source_digests, "is_current", lambda path: next(found))
    vouched: list[Path] = []
    monkeypatch.setattr(extension_loading, "vouch", vouched.append)
    monkeypatch.setattr(extension_loading, "prepare", vouched.append)
    aside = Aside(True)
    assert await prepare_kernels(listener, aside)
    assert aside.commands == [extension_loading.build_command(stale)]
    assert vouched == [stale, stale]
    assert "compiled" in str(listener.doing)


async def test_a_stop_while_kernels_are_compiled_ends_the_start(
    listener: StartupListener, stale: Path
) -> None:
    aside = Aside(False)
    assert not await prepare_kernels(listener, aside)
    assert len(aside.commands) == 1


async def test_numba_compiles_what_cannot_be_built(listener: StartupListener, stale: Path) -> None:
    aside = Aside(True, True)
    assert await prepare_kernels(listener, aside)
    assert aside.commands[1:] == [python_command("common.kernels.jit_cache")]
    assert os.environ["FACETD_KERNELS"] == "numba"  # inherited by all processes


async def test_without_kernels_nothing_can_start(
    listener: StartupListener, stale: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACETD_KERNELS", "quick")
    with pytest.raises(extension_loading.KernelsMissing, match="use checked or numba"):
        await prepare_kernels(listener, Aside())
