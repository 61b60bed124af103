"""Compiles the kernels when the package is built; everything else stands in pyproject.toml."""

import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildKernels(build_ext):
    """Lets numba and the C compiler make the extension, for all versions of Python at once."""

    def build_extension(self, ext: Extension) -> None:
        """Build it where setuptools wants it."""
        from common.kernels.build.builder import build

        path = Path(self.get_ext_fullpath(ext.name)).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        build(path, is_checked=False)


# FACETD_KERNELS=numba installs without compiled kernels, where no compiler or header is to be had.
is_compiled = os.environ.get("FACETD_KERNELS") != "numba"

if is_compiled and sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(
        "facetd cannot be installed in the free-threaded build of Python, which does not load "
        "extensions of the stable ABI; use the usual build of the same version"
    )

setup(
    ext_modules=[Extension("common.kernels._compiled", [], py_limited_api=True)]
    if is_compiled
    else [],
    cmdclass={"build_ext": BuildKernels},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if is_compiled else {},
)
