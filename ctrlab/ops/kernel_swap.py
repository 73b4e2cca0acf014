"""Puts another kernel in the place of a compiled one while the program runs: `%%kernel` in a notebook.

A kernel knows no TensorFlow, so it compiles alone in about a second. It is compiled twice: once with AddressSanitizer and
UBSan and linked to the checks of its op, which run it in a process of its own against the scalar twin; and once at full speed,
as a library of a new name. Only a kernel that passed is put in the table that the TensorFlow ops call through. The files of an op
(header, kernels, scalar twin and checks) are found in its folder, native/kernels/<op>.
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ctrlab import _native, compiling
from ctrlab.errors import CtrlabError, NativeLibraryError, choose
from ctrlab.paths import native

Result = TypeVar("Result")
_DECLARED = re.compile(r"^CTRLAB_EXPORT void ctrlab_(\w+)\(", re.MULTILINE)

COMMON = ["-std=c++20", "-march=native", "-Wall", "-Wno-psabi", "-fno-math-errno"]
CHECKED = [*COMMON, "-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FAST = [*COMMON, "-O3", "-fPIC", "-shared"]
# What allocates, in C and, by its mangled names, C++: new and new[], plain and aligned, and what std::pmr takes its memory from.
ALLOCATORS = ["malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "posix_memalign", "memalign", "valloc", "pvalloc"]
ALLOCATORS += ["strdup", "strndup", "mmap", "mmap64", "_ZNSt3pmr20get_default_resourceEv", "_ZNSt3pmr19new_delete_resourceEv"]
ALLOCATORS += [
    f"_Zn{kind}m{how}" for kind in "wa" for how in ("", "St11align_val_t", "RKSt9nothrow_t", "St11align_val_tRKSt9nothrow_t")
]
COUNTED = [
    *COMMON,
    "-O1",
    "-fPIC",
    "-shared",
    "-fsanitize-coverage=trace-pc",
    f"-Wl,{','.join(f'--wrap={a}' for a in ALLOCATORS)}",
]
ABI = '\nextern "C" int ctrlab_kernel_abi() { return CTRLAB_ABI_VERSION; }\n'
COUNTER = (
    """
extern "C" {
uint64_t ctrlab_blocks_run = 0, ctrlab_allocations = 0;
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
  __atomic_fetch_add(&ctrlab_blocks_run, 1, __ATOMIC_RELAXED);
}
"""
    + "".join(
        f"""
void* __real_{name}(size_t, size_t, size_t, size_t, size_t, size_t);
__attribute__((no_sanitize_coverage)) void* __wrap_{name}(size_t a, size_t b, size_t c, size_t d, size_t e, size_t f) {{
  __atomic_fetch_add(&ctrlab_allocations, 1, __ATOMIC_RELAXED);
  return __real_{name}(a, b, c, d, e, f);
}}
"""
        for name in ALLOCATORS  # six words are passed in registers to all of them, and those that take fewer ignore the rest
    )
    + "}\n"
)
COMPILE_SECONDS = 300  # the checker takes 40 on a quiet core, once
CHECK_SECONDS = 10
CHECK_MEGABYTES = 1024
UNKNOWN_KERNEL = 1  # CTRLAB_UNKNOWN_KERNEL of native/kernels/registry.h

_loaded: list[ctypes.CDLL] = []  # a call may still run in a kernel that was replaced, so no library is ever unloaded

_in_use: dict[str, tuple[str, ctypes.CDLL]] = {}  # the kernels that are not ours now: source and library of each
_refused: set[str] = set()  # the kernels whose last `swap` was refused


class KernelError(CtrlabError):
    """A kernel that does not compile, crashes, hangs or answers wrong; ours stays in place.

    Attributes:
        rule: what a kernel must do.
        expected, received, index: the values that differ, and their place; None if they have no meaning for the rule.
        output: the compiler's or the sanitizer's own words.
    """

    def __init__(self, rule: str, *, expected=None, received=None, index=None, output: str = ""):
        self.rule, self.expected, self.received, self.index, self.output = rule, expected, received, index, output
        rows = [("expected", expected), ("received", received), ("at", index)]
        lines = [rule, *(f"  {name:<9}{text}" for name, text in rows if text is not None)]
        super().__init__("\n".join(lines + ([output] if output else [])))


def swap(name: str, source: str, *, seconds: float = CHECK_SECONDS) -> None:
    """Compile `source`, check it, and let the ops use it until `restore`.

    Args:
        name: one of `kernels()`, e.g. "indicator".
        source: C++ that defines ctrlab_<name> with the signature of its header, which is included already.
        seconds: how long the check may take.
    Raises:
        UnknownName: there is no such kernel. KernelError: the kernel is wrong. NativeLibraryError: there is no library.
    """
    header = header_of(op_of(name))
    _native.library()
    _refused.add(name)
    with tempfile.TemporaryDirectory(prefix="ctrlab-kernel-") as folder, ThreadPoolExecutor(2) as pool:
        folder = Path(folder)
        path = folder / "kernel.cc"
        path.write_text(source + ABI, encoding="utf-8")
        fast = pool.submit(_compile, path, FAST, folder / f"{name}_{secrets.token_hex(4)}.so", header)
        check_source(name, path, seconds=seconds)
        kernel = ctypes.CDLL(str(fast.result()))
    _put(name, kernel)
    _in_use[name] = source, kernel
    _refused.discard(name)


def with_ours(name: str, call: Callable[..., Result]) -> Callable[..., Result]:
    """A function that runs `call` on our kernel `name`, and puts a swapped one back behind each call. So both kernels can be
    measured in pairs, in one run.

    Raises:
        UnknownName: there is no such kernel.
    """
    op_of(name)

    def run(*inputs):
        if name not in _in_use:
            return call(*inputs)
        _native.library().c.ctrlab_kernels_restore(name.encode())
        try:
            return call(*inputs)
        finally:
            _put(name, _in_use[name][1])

    return run


@dataclass(frozen=True)
class Counts:
    """Counts of a kernel's work, which do not depend on how busy the machine was.

    Attributes:
        blocks: number of basic blocks that it ran. A basic block is code without a branch, as the compiler cuts it. So the
            numbers of one kernel at different sizes can be compared.
        allocations: calls of malloc, new, mmap and the like in its own code. Arrays that are global or on the stack do not count.
    """

    blocks: int
    allocations: int


def counts(name: str, call: Callable[[], object]) -> Counts:
    """Counts the work of the kernel that is swapped in for `name`, during `call`.

    Raises:
        CtrlabError: `name` is our own kernel now.
    """
    if name not in _in_use:
        raise CtrlabError(f"Only a kernel that was swapped in is counted; {name!r} is ours now: swap yours in first.")
    source, kernel = _in_use[name]
    with tempfile.TemporaryDirectory(prefix="ctrlab-kernel-") as folder:
        path = Path(folder, "kernel.cc")
        path.write_text(source + ABI + COUNTER, encoding="utf-8")
        library = Path(folder, f"{name}_{secrets.token_hex(4)}.so")
        counting = ctypes.CDLL(str(_compile(path, COUNTED, library, header_of(op_of(name)))))
    _put(name, counting)
    counters = [ctypes.c_uint64.in_dll(counting, f"ctrlab_{what}") for what in ("blocks_run", "allocations")]
    before = [counter.value for counter in counters]  # putting it in place has asked it for its interface
    try:
        call()
    finally:
        _put(name, kernel)
    return Counts(*(counter.value - was for counter, was in zip(counters, before)))


def _put(name: str, kernel: ctypes.CDLL) -> None:
    """Lets the ops call `kernel`, a compiled library, for `name`."""
    if kernel not in _loaded:
        _loaded.append(kernel)
    table, function = _native.library().c, ctypes.cast(kernel[f"ctrlab_{name}"], ctypes.c_void_p)
    status = table.ctrlab_kernels_replace(name.encode(), function, kernel.ctrlab_kernel_abi())
    if status == UNKNOWN_KERNEL:
        raise NativeLibraryError(f"The compiled library has no kernel {name!r}, which its headers declare; {_native.CURE}.")
    if status != 0:
        raise KernelError(
            "The kernel and the library must be built from the same headers.",
            expected=f"interface {table.ctrlab_kernels_abi_version()}",
            received=f"interface {kernel.ctrlab_kernel_abi()}",
            output=f"To mend it, {_native.CURE}.",
        )


def swapped() -> frozenset[str]:
    """The kernels in whose place another one is used now."""
    return frozenset(_in_use)


def refused() -> frozenset[str]:
    """The kernels whose last `swap` was refused. One that was swapped in before is still in use."""
    return frozenset(_refused)


def restore(name: str | None = None) -> None:
    """Let the ops use our kernel `name` again, or all of ours."""
    for one in [choose("kernel", name, kernels())] if name else kernels():
        _native.library().c.ctrlab_kernels_restore(one.encode())
        _in_use.pop(one, None)
        _refused.discard(one)


def check_source(name: str, path: Path, *, seconds: float = CHECK_SECONDS) -> None:
    """Run kernel `name` of the C++ file `path` under sanitizers, in a process of its own.

    Raises:
        KernelError: it does not compile, writes or reads where it must not, takes longer than `seconds`, or answers wrong.
    """
    op = op_of(name)
    program = _compile(path, CHECKED, path.with_suffix(".check"), header_of(op), [_checker(op)])
    seed = str(secrets.randbits(32))
    limits = f"detect_leaks=0:color=never:hard_rss_limit_mb={CHECK_MEGABYTES}"
    code, out, err = compiling.run([program, name, seed], seconds, environment={"ASAN_OPTIONS": limits})
    if code == 0 and out.endswith(f"passed {seed}\n"):
        return
    if code is None:
        raise KernelError("A kernel must come to an end.", expected=f"an answer within {seconds:g} s", received="none")
    if found := re.search(r'\{"rule".*\}$', out, re.MULTILINE):
        wrong = json.loads(found[0])
        index = ", ".join(map(str, wrong["index"]))
        where = f"[{index}], {wrong['case']}" if index else wrong["case"]
        raise KernelError(wrong["rule"], expected=wrong["expected"], received=wrong["received"], index=where)
    if said := verdict(code, err):
        raise KernelError("A kernel must read and write only what it was given.", received=said, index=_place(err))
    raise KernelError(
        "A kernel must return to its caller.", received=f"an end of the process with exit code {code}", index=_place(err)
    )


def verdict(code: int, err: str) -> str | None:
    """The sanitizer's verdict, in a line, or the signal that ended the process; None if it ended without either."""
    if found := re.search(r"runtime error: (.*)", err):
        return found[1]
    if found := re.search(r"AddressSanitizer: (.+?)(?: on | \(|$)", err, re.MULTILINE):
        access = re.search(r"^(READ|WRITE) of size \d+", err, re.MULTILINE)
        return f"{found[1]}, {access[0]}" if access else found[1]
    return f"signal {signal.Signals(-code).name}" if code < 0 else None


def _place(err: str) -> str | None:
    """The line of the source, and the case: it shows for which input the kernel's assumption is wrong."""
    line, cases = re.search(r"kernel\.cc:(\d+)", err), re.findall(r"^trying: (.+)$", err, re.MULTILINE)
    words = ([f"line {line[1]} of the kernel"] if line else []) + ([f"the case: {cases[-1]}"] if cases else [])
    return "; ".join(words) or None


def _compile(source: Path, flags: list[str], target: Path, header: str, objects: Iterable[Path] = ()) -> Path:
    """Compiles `source` to `target`; `header` is included before the first line."""
    flags = ["-I", native(), "-include", header, *flags]
    try:
        return compiling.compile(flags, [source.name, *objects], target, folder=source.parent, seconds=COMPILE_SECONDS)
    except compiling.CompileError as refused:
        raise KernelError("A kernel must compile.", output=refused.output) from None


@functools.cache
def kernels() -> dict[str, str]:
    """{kernel: its op}: kernel `name` is the function ctrlab_<name>, which the op's header declares."""
    found = {}
    for header in sorted((native() / "kernels").glob("*/*.h")):
        if (op := header.parent.name) == header.stem:
            found |= dict.fromkeys(_DECLARED.findall(header.read_text(encoding="utf-8")), op)
    return found


def op_of(name: str) -> str:
    """The op that kernel `name` belongs to, a folder of native/kernels.

    Raises:
        UnknownName: there is no such kernel.
    """
    return kernels()[choose("kernel", name, kernels())]


def header_of(op: str) -> str:
    """The header that declares an op's kernels, as it is included."""
    return f"kernels/{op}/{op}.h"


def checks_of(ops: Iterable[str]) -> str:
    """A program in C++ that runs the checks of these ops' kernels: see native/check/harness.h."""
    ops = list(ops)
    includes = "".join(f'#include "kernels/{op}/{op}_check.h"\n' for op in ops)
    entries = ", ".join(f"ctrlab::check::{op}::entries" for op in ops)
    return f"{includes}int main(int argc, char** argv) {{ return ctrlab::check::Main(argc, argv, {{{entries}}}); }}\n"


@functools.cache
def _checker(op: str) -> Path:
    """The checks of an op's kernels as an object file, kept in the folder of compiled files."""
    with tempfile.TemporaryDirectory(prefix="ctrlab-check-") as folder:
        main = Path(folder, f"check_{op}.cc")
        main.write_text(checks_of([op]), encoding="utf-8")
        return compiling.cached_object(main, [*CHECKED, "-I", native()])
