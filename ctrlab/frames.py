"""Tables of your own, from where they are: pandas, Arrow, Parquet, CSV.

pandas is no dependency: only who has a DataFrame needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ctrlab.errors import BadData, unreadable

CSV_ENDINGS = {".csv": ",", ".tsv": "\t"}
"""Also with `.gz` after it."""
TAKES = "a pandas DataFrame, an Arrow table, record batches, or a path of a Parquet file or of a CSV with header"


def table(source) -> pa.Table:
    """One Arrow table of a table in any common form. Nothing is converted but what is missing: NaN of pandas becomes null.

    Args:
        source: a pandas DataFrame (an index with a name becomes a column, others are left out); an Arrow table, record batch or
            reader of batches, or anything that streams Arrow data, as Polars does; a dict of columns; a path of a Parquet file,
            or of a text file with a header line, .csv (commas) or .tsv (tabs), plain or .gz.
    Raises:
        BadData: it is none of these, its columns have no names of their own, or the file is missing, damaged or of another form.

    >>> table({"age": [31, 45], "clicked": [0, 1]}).num_rows
    2
    """
    made = _file(Path(source)) if isinstance(source, str | os.PathLike) else _memory(source)
    if twice := sorted({name for name in made.column_names if made.column_names.count(name) > 1}):
        raise BadData(f"Each column has a name of its own; {named(source)} has {', '.join(map(repr, twice))} more than once.")
    return made


def tables(source) -> Iterator[pa.Table]:
    """The tables of one source, or of several in a list or an iterator."""
    if isinstance(source, Iterable) and not _is_table(source):
        yield from map(table, source)
    else:
        yield table(source)


def named(source, otherwise: str = "the table") -> str:
    """What a message calls it: the path of a file."""
    return str(source) if isinstance(source, str | os.PathLike) else otherwise


def _is_table(source) -> bool:
    arrow = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    return arrow or _is_pandas(source) or isinstance(source, str | os.PathLike | Mapping)


def _is_pandas(source) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def _memory(source) -> pa.Table:
    try:
        if isinstance(source, pa.Table):
            return source
        if _is_pandas(source):
            named_index = any(name is not None for name in source.index.names)
            found = pa.Table.from_pandas(source.reset_index() if named_index else source, preserve_index=False)
            return found.replace_schema_metadata(None)
        if isinstance(source, Mapping):
            return pa.table(dict(source))
        if hasattr(source, "__arrow_c_array__") and not isinstance(source, pa.Array):
            return pa.table(source)
        if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.ChunkedArray):
            return pa.RecordBatchReader.from_stream(source).read_all()
        if isinstance(source, list | tuple) and source and all(isinstance(batch, pa.RecordBatch) for batch in source):
            return pa.Table.from_batches(source)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise BadData(f"Each column of a table has values of one kind and a name of its own: {_line(error)}.") from None
    raise BadData(f"A table is {TAKES}; received {type(source).__name__}.")


def _file(path: Path) -> pa.Table:
    if path.is_dir():
        raise BadData(f"A table is read from one file; {path} is a folder: name a file in it.")
    if not path.is_file():
        raise BadData(f"File {path} does not exist.")
    ending = Path(path.name.removesuffix(".gz")).suffix
    try:
        if path.name.endswith(".parquet"):
            return pq.read_table(path, partitioning=None)
        if ending in CSV_ENDINGS:
            return pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(delimiter=CSV_ENDINGS[ending]))
    except (pa.ArrowException, EOFError) as error:
        cure = "its first line has the names of the columns, and each column values of one kind" if ending in CSV_ENDINGS else ""
        why = f"{_line(error)}; {cure}" if cure else f"it is damaged, cut off, or of another format ({_line(error)})"
        raise BadData(f"{path} can't be read as a table: {why}.") from None
    except OSError as error:
        if error.errno is None:  # Arrow's, about what the file holds
            raise BadData(f"{path} can't be read as a table: {_line(error)}.") from None
        raise unreadable(str(path), error) from None
    raise BadData(f"A table is {TAKES}; {path} ends with none of .parquet, .csv, .tsv.")


def _line(error: Exception) -> str:
    """What it says, without what follows the first line."""
    said = ": ".join(map(str, error.args)).strip() or type(error).__name__
    return said.splitlines()[0].rstrip(".")
