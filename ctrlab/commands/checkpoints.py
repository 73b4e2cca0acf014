"""`ctrlab checkpoints`: files of checkpoints merged and cut, without a model."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from ctrlab.embedding.formats.resharding import merge_chain, merge_delta_files
from ctrlab.embedding.formats.resharding import reshard as cut


def merge(folder: Path, out: Path) -> None:
    """Writes the last whole save of a folder as one full save.

    Raises:
        BadData: there is no whole save.
    """
    _tell([merge_chain(folder, out)])


def merge_deltas(files: list[Path], out: Path) -> None:
    """Writes deltas that follow each other as one delta.

    Raises:
        BadData: they are no deltas, or do not follow each other.
    """
    _tell([merge_delta_files(files, out)])


def reshard(files: list[Path], out: Path, shards: int) -> None:
    """Writes a full save in another number of shards.

    Raises:
        BadData: the files are not all shards of one save.
    """
    _tell(cut(files, shards, out))


def _tell(paths: list[Path]) -> None:
    for path in paths:
        Console().print(f"{path}: {path.stat().st_size:,} bytes", soft_wrap=True, highlight=False)
