"""Runs `facetd` commands, each in a fork of this process, which has loaded everything.

    python -m tests.faults.command_maker        {"arguments", "log"} ─▶ status, a line each

For loops of hundreds of runs. What a command starts as a process of its own (`OwnedData.run`) is
forked as well, with the same arguments, status and inherited locks.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from coordinator.cli import commands as cli
from coordinator.process import offline_commands

_PROGRAMS = {
    name: importlib.import_module(name)
    for name in ("shard.maintenance.reshard", "shard.maintenance.check_and_rebuild")
}


def _become(main: object, arguments: list[str]) -> NoReturn:
    """Run a click command in the child of a fork."""
    status = 1
    try:
        assert callable(main)
        main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run_program(
    ours: offline_commands.OwnedData, module: str, *arguments: str, locks: tuple[int, ...] = ()
) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _become(_PROGRAMS[module].main, list(arguments))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_command(arguments: list[str], log: Path) -> int:
    pid = os.fork()
    if pid == 0:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        _become(cli.main, arguments)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    """Serve until the end of the input."""
    setattr(offline_commands.OwnedData, "run", _run_program)  # noqa: B010 (methods are not assigned to)
    for line in sys.stdin:
        request = json.loads(line)
        print(_run_command(request["arguments"], Path(request["log"])), flush=True)


if __name__ == "__main__":
    main()
