"""Random damage to one file of a stopped service, and the commands for data at rest.

    a data directory ──▶ one file is damaged ──▶ check, rebuild, reshard, restore
                                                 ├─ 0   what was written has no problem
                                                 └─ 1   the output says what helps

No command ends by a signal or with a traceback. All are given the same damage.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.faults.test_random_damage import REMEDIES, Bench
from tests.service import run_command

SAID = (*REMEDIES, "built again", "snapshot.json is damaged")
"""What is to be done, or that nothing is."""


class CommandBench(Bench):
    """A data directory that is damaged repeatedly, and given to commands.

    Args:
        folder: for everything.
        seed: of the chance.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.folder = folder
        self.ended: Counter[tuple[str, int]] = Counter()

    def round(self) -> None:
        """Damage a file, and run all commands."""
        path, where = self.damaged()
        data, damaged = self.service.data, path.read_bytes()
        is_snapshot = "snapshots" in path.parts

        def again() -> None:
            shutil.rmtree(data)
            shutil.copytree(self.pristine, data)
            path.write_bytes(damaged)

        self.run(where, data, "check")
        for words in (("rebuild",), ("reshard", "--shards", "3")):
            again()
            if self.run(where, data, *words).returncode == 0 and not is_snapshot:
                self.check(where, data)
        if is_snapshot:
            again()
            restored = self.folder / "restored"
            snapshot = data / "snapshots" / "s"
            if self.run(where, restored, "restore", str(snapshot)).returncode == 0:
                self.check(where, restored)
                shutil.rmtree(restored)
            assert not restored.exists(), where

    def run(self, where: str, data: Path, *words: str) -> CompletedProcess[bytes]:
        """Run a command; it must succeed, or say what is wrong."""
        ended = run_command(*words, "--data-dir", str(data))
        said = (ended.stdout + ended.stderr).decode()
        assert ended.returncode in (0, 1), (where, words, ended.returncode, said)
        assert "Traceback" not in said, (where, words, said)
        if ended.returncode == 1:
            assert any(word in said for word in SAID), (where, words, said)
        self.ended[words[0], ended.returncode] += 1
        return ended

    def check(self, where: str, data: Path) -> None:
        """Check what a command has written."""
        checked = self.run(where, data, "check")
        assert checked.returncode == 0, (where, checked.stdout)


@pytest.mark.timeout(300)
def test_commands_repair_or_refuse_damage(tmp_path: Path) -> None:
    bench = CommandBench(tmp_path, seed=3)
    for _ in range(4):
        bench.round()


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", [11, 12])
def test_commands_repair_or_refuse_damage_hundreds_of_times(tmp_path: Path, seed: int) -> None:
    bench = CommandBench(tmp_path, seed)
    for _ in range(150):
        bench.round()
    commands = ("check", "rebuild", "reshard", "restore")
    assert bench.ended.keys() == {(name, status) for name in commands for status in (0, 1)}
