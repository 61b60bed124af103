"""The wall clock of some processes, which a test sets forward and back: builds wall_clock.c.

libfaketime would do this too, but with it each `time.sleep` of Python fails (EINVAL), and threads
that wait for a lock or for the interpreter use a core meanwhile: in six rounds of kills, the writes
of three hosts paused for up to 8.7 s instead of 0.14 s. It needs a C compiler.
"""

from __future__ import annotations

import mmap
import struct
import subprocess
from pathlib import Path
from typing import Final

from tests.faults.failing_disk import COMPILER

_SOURCE: Final = Path(__file__).with_name("wall_clock.c")
_STEP: Final = struct.Struct("<q")


class WallClock:
    """The clock of the processes that have its environment.

    Args:
        place: a folder for the library and the file that has the step.

    Attributes:
        environment: what a process needs in its environment.
    """

    def __init__(self, place: Path) -> None:
        assert COMPILER is not None
        place.mkdir()
        library, step = place / "wall_clock.so", place / "step"
        command = [COMPILER, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        step.write_bytes(bytes(_STEP.size))
        with step.open("r+b") as file:
            self._step = mmap.mmap(file.fileno(), _STEP.size)
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK": str(step)}

    def set(self, seconds: int) -> None:
        """Let it be some seconds ahead of the system's from now on; negative: slow."""
        self._step[:] = _STEP.pack(seconds)
