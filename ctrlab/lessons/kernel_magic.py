"""`%%kernel NAME`: the cell's C++ replaces our kernel, if it is right. `%restore_kernel NAME` brings ours back."""

from __future__ import annotations

from ctrlab.ops import kernel_swap


def kernel(line: str, cell: str) -> None:
    """%%kernel NAME: compile the cell, check it under sanitizers in a separate process, and let the ops use it."""
    name = line.strip()
    mine = name in kernel_swap.swapped()
    try:
        kernel_swap.swap(name, f"#line 2\n{cell}")  # Jupyter counts the line of %%kernel, too
    except kernel_swap.KernelError:
        print(f"This kernel is not used. In use for {name!r}: {'your earlier kernel' if mine else 'ours'}.")
        raise
    print(f"Your kernel {name!r} is right, and in use until: %restore_kernel {name}")


def restore_kernel(line: str) -> None:
    """%restore_kernel [NAME]: the ops use our kernel again, or all of ours."""
    kernel_swap.restore(line.strip() or None)
    print("Our kernels are in use." if not line.strip() else f"Our kernel {line.strip()!r} is in use.")


def load_ipython_extension(shell) -> None:
    shell.register_magic_function(kernel, magic_kind="cell", magic_name="kernel")
    shell.register_magic_function(restore_kernel, magic_kind="line", magic_name="restore_kernel")
