"""Where the machine code of kernels is kept; here, because the supervisor asks without numba.

The first writable one of FACETD_KERNEL_CACHE, the user's cache folder and the temporary folder.
numba reads the choice (NUMBA_CACHE_DIR) when it is imported, so importing any of our packages makes
it first: each `__init__` imports this module.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """Return the first folder of the candidates that can be written to."""
    candidates = [
        os.environ.get("FACETD_KERNEL_CACHE"),
        os.environ.get("XDG_CACHE_HOME") and os.environ["XDG_CACHE_HOME"] + "/facetd/kernels",
        str(Path("~/.cache/facetd/kernels").expanduser()),
    ]
    for candidate in filter(None, candidates):
        path = Path(candidate)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            return path
    path = Path(tempfile.gettempdir()) / f"facetd-kernels-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_directory()))
