"""How many files the processes of a service may have open."""

from __future__ import annotations

import resource
from typing import Final

DESCRIPTORS_WANTED: Final = 65_536


def raise_descriptor_limit() -> None:
    """Raise the limit of open files to the maximum: for connections, segments, environments."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
