"""Where the machine code of kernels is kept; here, because the supervisor asks without numba.

A folder per version of the kernels, in the first writable one of FACETD_KERNEL_CACHE, the user's
cache folder and the temporary folder:

    ~/.cache/facetd/kernels/9f2c41d07a6be853/
        image-…     all kernels, for just this processor, Python and numpy (`common.kernels.image`);
                    empty where images cannot be made
        …           what numba keeps for just these sources: from this the image is made

numba compiles a function again when its *own* file has changed, but not when a function that it
calls, in another file, has: the caller would go on with the old one inside it. So the folder is
named by a digest of all files that have kernels, or groups of their arguments, and no code survives
a change of any of them.

numba reads the choice (NUMBA_CACHE_DIR) when it is imported, so importing any of our packages makes
it first: each `__init__` imports this module. Cost: 5 ms a process, for reading the sources.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGES: Final = ("common", "coordinator", "shard")
_ROOT: Final = Path(__file__).resolve().parents[2]
_IMAGE_MAKERS: Final = (
    "common/kernels/image.py",
    "common/kernels/build/entries.py",
    "common/kernels/build/linker.py",
)
_VERSION_FILES: Final = {"numba": "_version.py", "numpy": "version.py"}


def sources() -> Iterator[tuple[Path, bytes]]:
    """Yield the Python files that have kernels or groups of arguments, with their content."""
    for package in PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            content = path.read_bytes()
            if b"@kernel(" in content or b"@arguments\n" in content:
                yield path, content


def sources_digest() -> str:
    """Return what names just these kernels."""
    digest = hashlib.blake2b(digest_size=8)
    for path, content in sources():
        digest.update(f"{path.relative_to(_ROOT)} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def cache_directory() -> Path:
    """Return the folder for these kernels, below the first candidate that can be written to."""
    version = sources_digest()
    candidates = [
        os.environ.get("FACETD_KERNEL_CACHE"),
        os.environ.get("XDG_CACHE_HOME") and os.environ["XDG_CACHE_HOME"] + "/facetd/kernels",
        str(Path("~/.cache/facetd/kernels").expanduser()),
    ]
    for candidate in filter(None, candidates):
        path = Path(candidate) / version
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            return path
    path = Path(tempfile.gettempdir()) / f"facetd-kernels-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    (path / version).mkdir(exist_ok=True)
    return path / version


def image_path() -> Path:
    """Return the file of the image that is made for just this program on just this processor."""
    digest = hashlib.blake2b(f"{sys.version} {processor()}".encode(), digest_size=12)
    digest.update(sources_digest().encode())
    for maker in _IMAGE_MAKERS:
        digest.update((_ROOT / maker).read_bytes())
    for library, file in _VERSION_FILES.items():  # importlib.metadata would take 90 ms
        spec = importlib.util.find_spec(library)
        origin = None if spec is None else spec.origin
        assert origin is not None, f"{library} is not installed"
        digest.update(Path(origin).with_name(file).read_bytes())
    return Path(os.environ["NUMBA_CACHE_DIR"]) / f"image-{digest.hexdigest()}"


def processor() -> str:
    """Return what the processor is and can: machine code is made for one kind of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    known = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return f"{platform.machine()} {sorted(known)}"


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(cache_directory())
