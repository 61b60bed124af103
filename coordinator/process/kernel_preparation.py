"""Before a service starts: makes sure that there are kernels to run.

An installed package has them. A checkout with changed kernels compiles these first, in a separate
process: the supervisor must stay small, and able to stop. If no extension can be built, numba
compiles them into its cache.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from common.kernels import extension_loading, source_digests
from common.process.logs import Log
from common.process.python_command import python_command

if TYPE_CHECKING:
    from coordinator.process.startup_listener import StartupListener

_log = Log("supervisor")


async def prepare_kernels(
    startup_listener: StartupListener, run_aside: Callable[[list[str]], Awaitable[bool]]
) -> bool:
    """Make sure that there are kernels to run; return False if `run_aside` has.

    Args:
        startup_listener: says meanwhile what takes so long.
        run_aside: runs a process to its end; returns False if the service is to stop instead.

    Raises:
        KernelsMissing: there are none, and none can be made.
    """
    wanted = extension_loading.chosen()
    if wanted is None:
        return True
    is_current = source_digests.is_current(wanted)
    if not is_current and extension_loading.can_build(wanted):
        _log.info("compiling the kernels that changed")
        startup_listener.doing = "kernels that changed are being compiled, for some minutes"
        if not await run_aside(extension_loading.build_command(wanted)):
            return False
        is_current = source_digests.is_current(wanted)
        if not is_current:
            _log.warning("kernels are compiled by numba: no extension could be built")
            os.environ["FACETD_KERNELS"] = "numba"
            return await run_aside(python_command("common.kernels.jit_cache"))
    if is_current:
        extension_loading.vouch(wanted)
    extension_loading.prepare(wanted)
    return True
