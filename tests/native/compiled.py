"""The checks of native code, compiled once for each state of the sources; skipped where a compiler lacks the sanitizers."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctrlab import compiling

NATIVE = Path(__file__).parents[2] / "native"


def cached(name: str, flags: Sequence, sources: Iterable[Path], **options) -> Path:
    """As `compiling.cached`."""
    try:
        return compiling.cached(name, flags, sources, **options)
    except compiling.NoSanitizer as missing:
        pytest.skip(str(missing))


def objects(sources: Iterable[Path], flags: Sequence, native: Path = NATIVE, by: Sequence[str] = ()) -> list[Path]:
    """An object file of each source, two at a time; all headers below `native` count as read."""
    flags, headers = ["-I", native, *flags, "-c"], list(native.rglob("*.h"))
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda source: cached(f"check_{source.stem}.o", flags, [source], reads=headers, by=by), sources))
