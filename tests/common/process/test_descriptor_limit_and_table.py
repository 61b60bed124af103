"""The table of descriptors is enlarged as far as the process may open files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PRINT_TABLE_SIZE = (
    "from common.process.descriptor_limit_and_table import enlarge_descriptor_table\n"
    "enlarge_descriptor_table()\n"
    "print(next(line for line in open('/proc/self/status') if line.startswith('FDSize')))\n"
)


@pytest.mark.parametrize("allowed", [64, 300, 5_000])
def test_no_more_than_are_allowed(allowed: int) -> None:
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({allowed}, {allowed}))\n"
    command = [sys.executable, "-c", limit + PRINT_TABLE_SIZE]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # A process begins with a table that has room for what its parent has open.
    lines = Path("/proc/self/status").read_text().splitlines()
    (at_first,) = [int(line.split()[1]) for line in lines if line.startswith("FDSize")]
    assert allowed <= int(printed.split()[1]) < max(4 * allowed, 257, at_first + 1)  # 256 at least


def test_the_last_descriptor_may_be_in_use() -> None:
    taken = (
        "import fcntl, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))\n"
        "fcntl.fcntl(1, fcntl.F_DUPFD, 127)\n"
    )
    command = [sys.executable, "-c", taken + PRINT_TABLE_SIZE]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(printed.split()[1]) >= 128
