"""A child ends with its parent, whichever of the two mechanisms is left."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.service import ROOT, is_running
from tests.waiting import wait_until

_CHILD = """
import asyncio, os, sys
from common.process.parent_death import ask_for_parent_death_signal, watch_parent
if {asks}:
    ask_for_parent_death_signal()
async def main():
    if {watches}:
        watch_parent({pipe})
    print(os.getpid(), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""

_PARENT = """
import os, subprocess, sys
pipe, pipe_end = os.pipe()
child = sys.argv[1].replace("PIPE", str(pipe))
subprocess.Popen([sys.executable, "-c", child], pass_fds=(pipe,), start_new_session=True).wait()
"""


@pytest.mark.parametrize(("asks", "watches"), [(True, False), (False, True), (True, True)])
def test_a_child_ends_when_its_parent_is_killed(asks: bool, watches: bool) -> None:
    child = _CHILD.format(asks=asks, watches=watches, pipe="PIPE")
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, child],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not is_running(pid), 10)
