"""Builds and loads extensions for tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from common.kernels.build.builder import build_folder
from tests.common.kernels import sample_kernels as samples
from tests.service import ROOT

MODULE = samples.__name__


def build(extension: Path, *, is_checked: bool = False, module: str = MODULE) -> str:
    """Build the extension of the samples in another process; returns what it said.

    Its results have their own folder: a build of all kernels holds the other one for minutes.
    """
    program = f"""
from pathlib import Path
from common.kernels.build.builder import build

build(Path({str(extension)!r}), is_checked={is_checked}, modules=[{module!r}])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"FACETD_KERNEL_BUILD": str(build_folder().with_name("samples")), **os.environ},
        check=True,
        capture_output=True,
        text=True,
    )
    return ended.stderr


def load(extension: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(extension.name.partition(".")[0], extension)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
