"""How Python processes are started: no file in the working directory can shadow a module.

`python -m` puts the working directory first on the path. Anyone who can write there could shadow
any module, ours or Python's, and a file that happens to be called `common.py` would keep us from
starting. So every process that we start gets a safe path.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent.parent


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours, wherever we are."""
    return [sys.executable, "-P", "-m", module, *arguments]


def let_processes_find_us() -> None:
    """Prepare the environment of processes that `python_command` starts.

    Installed packages are found anyway. A checkout that is not installed was found because it is
    the working directory.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    known = os.environ.get("PYTHONPATH", "")
    if (_ROOT / "pyproject.toml").exists() and str(_ROOT) not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), known)))
