"""LLVM's passes: over each kernel by itself, once, and over each module with all that it calls.

Both together are the passes that numba runs, in its order. The first half costs a third of the time
and depends on no processor level, so its result is kept with the kernel: every module that inlines
the kernel, at every level, starts from it.
"""

from __future__ import annotations

import os
from typing import Any, Final

import llvmlite.binding as llvm

SPEED: Final = int(os.environ.get("FACETD_KERNEL_SPEED", "3"))
"""LLVM's level of optimization, 0 to 3: lower ones build in less time what only tests will run. No
extension is built again because its level was another one.
"""


def machine_of(processor: str) -> Any:
    """Return LLVM's code generator for a processor ("x86-64-v3"; "" for any of this kind)."""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=processor, opt=SPEED, reloc="pic", codemodel="small")


def simplify_kernel(module: Any) -> None:
    """Remove code that a kernel does not reach, and simplify each of its functions by itself."""
    machine = machine_of("")
    cheap = _passes(machine, 0, vectorizes=False)
    manager = cheap.getModulePassManager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, cheap)
    functions = _passes(machine, SPEED, vectorizes=True)
    for function in module.functions:
        if not function.is_declaration:
            manager = functions.getFunctionPassManager()
            manager.add_refprune_pass()
            manager.run(function, functions)


def optimize_module(module: Any, machine: Any) -> None:
    """Inline and optimize simplified kernels as one module."""
    # Inlines what must be inlined, so that counts of references meet and can be taken out.
    cheap = _passes(machine, 0, vectorizes=False)
    manager = cheap.getModulePassManager()
    manager.add_global_dead_code_eliminate_pass()
    manager.add_loop_rotate_pass()
    manager.add_instruction_combine_pass()
    manager.add_jump_threading_pass()
    manager.add_refprune_pass()
    manager.run(module, cheap)
    full = _passes(machine, SPEED, vectorizes=True)
    manager = full.getModulePassManager()
    manager.add_refprune_pass()
    manager.run(module, full)


def _passes(machine: Any, speed: int, *, vectorizes: bool) -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=speed)
    options.loop_vectorization = vectorizes
    options.slp_vectorization = False  # as numba, which found it to make code worse
    return llvm.create_pass_builder(machine, options)
