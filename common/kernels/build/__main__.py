"""`python -m common.kernels.build [--checked]`: build the extension unless it is current."""

from __future__ import annotations

import sys

from common.kernels.build.builder import CannotBuild, build
from common.kernels.source_digests import CHECKED_EXTENSION, EXTENSION

if __name__ == "__main__":
    is_checked = "--checked" in sys.argv[1:]
    try:
        build(CHECKED_EXTENSION if is_checked else EXTENSION, is_checked=is_checked)
    except CannotBuild as error:
        sys.exit(f"facetd: the kernels cannot be built: {error}")
