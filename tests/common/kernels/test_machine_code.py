"""The machine code of the kernels: what the compiler makes of loops over mapped arrays."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.service import ROOT

EXTENSION = ROOT / "common" / "kernels" / "_compiled.abi3.so"
MASKED_LOAD = re.compile(r"v(?:p?maskmov)\w*\s+[-0-9a-fx]*\(")
"""AVX's masked loads, whose memory operand comes first; masked stores have it last."""


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed (binutils)")
@pytest.mark.skipif(not EXTENSION.exists(), reason="the kernels are not built")
def test_no_kernel_skips_lanes_of_a_load() -> None:
    """A load that skips all lanes on a page that is not mapped yet takes 50 ns, each time.

    The processor suppresses the fault, so the page never gets mapped: a pass over half a million
    counts took 25 ms instead of .25. `if` around a load makes the compiler mask it; load before.
    """
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(EXTENSION)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    kernel, masked, num_kernels = "", set(), 0
    for line in listing.splitlines():
        if line.endswith(">:"):
            kernel = line
            num_kernels += "facetd_" in line
        elif MASKED_LOAD.search(line):
            masked.add(kernel)
    assert num_kernels > 100
    assert masked == set()
