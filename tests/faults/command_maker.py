"""Runs `facetd` commands, each in a fork of this process, which has loaded everything.

    python -m tests.faults.command_maker        {"arguments", "log"} ─▶ status, a line each

For loops of hundreds of runs. What a command starts as a process of its own (`OwnedData.run`) is
forked as well, with the same arguments, status and inherited locks.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path

from coordinator.cli import commands as cli
from coordinator.process import offline_commands
from tests.forked_command import SHARD_PROGRAMS, run_forked, run_shard_program


def _run_command(arguments: list[str], log: Path) -> int:
    def run() -> None:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        cli.main(arguments)

    return run_forked(run)


def main() -> None:
    """Serve until the end of the input."""
    for module in SHARD_PROGRAMS:
        import_module(module)
    setattr(offline_commands.OwnedData, "run", run_shard_program)  # noqa: B010 (methods are not assigned to)
    for line in sys.stdin:
        request = json.loads(line)
        print(_run_command(request["arguments"], Path(request["log"])), flush=True)


if __name__ == "__main__":
    main()
