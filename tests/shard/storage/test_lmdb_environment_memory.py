"""An open environment takes the memory of what is in use, though LMDB allocates lists of 3 MB."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NUM_ENVIRONMENTS = 20
OPEN_MANY = f"""
import sys
from pathlib import Path

import numpy as np

from common.process import glibc_malloc
from shard.storage.lmdb_environment import Environment

folder = Path(sys.argv[1])
for number in range({NUM_ENVIRONMENTS}):
    (folder / str(number)).mkdir()
    Environment.create(folder / str(number), 1 << 24).close()
glibc_malloc.configure_allocator()
# Free memory in the arena, of pages that were used: what a process has after some work.
used = [np.ones(1 << 20, np.uint8) for _ in range(100)]
kept = np.ones(1 << 16, np.uint8)
del used
opened = [Environment.open(folder / str(number)) for number in range({NUM_ENVIRONMENTS})]
glibc_malloc.trim()
resident = glibc_malloc.resident_bytes()
for environment in opened:
    environment.close()
glibc_malloc.trim()
print(resident - glibc_malloc.resident_bytes())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc's allocator")
def test_lists_that_are_hardly_used_take_no_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_MANY, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < NUM_ENVIRONMENTS * (1 << 20)
