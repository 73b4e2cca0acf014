"""Reads tables of your own from pandas, Arrow, Parquet or CSV.

pandas is not a dependency: only users of a DataFrame need it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ctrlab.errors import BadData, unreadable
from ctrlab.schema import words

if TYPE_CHECKING:
    from ctrlab.schema import Schema

CSV_ENDINGS = {".csv": ",", ".tsv": "\t"}
"""Suffixes of text files, which `.gz` may follow."""
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
UTF_8_MARK = b"\xef\xbb\xbf"
"""The byte-order mark that some programs write at the beginning of a file in UTF-8."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""The first bytes of a file in UTF-16."""
NAMELESS = re.compile(r"\s*|Unnamed: [0-9]+(\.[0-9]+)?|__index_level_[0-9]+__")
"""The names of columns without one, as files, pandas and Arrow have them."""
NAMELESS_ROWS = "name its columns with pandas.read_csv(..., header=None, names=[...]), and give that table"
TAKES = "a pandas DataFrame, an Arrow table, record batches, or a path of a Parquet file or of a CSV with header"


def table(source, schema: Schema | None = None) -> pa.Table:
    """Makes one Arrow table from a table in any common form. Two things are converted: NaN of pandas becomes null; and views,
    runs and lists of a fixed size, which few of Arrow's functions take, become the values that they stand for.

    A text file does not contain the types of its columns. Columns that hold words by the schema keep the text of the file, and
    without a schema a column of numbers is text if it holds a word other than its numbers' (see `ctrlab.schema.words`): "01000",
    "1e3", or whole numbers above 2^53 beside fractions. NA, null and their like are missing in a column of numbers, dates or
    truth values, and words in one of text. A column without a name is called by its place, as pandas calls it: "Unnamed: 0", or
    "Unnamed: 0.1" where that is a name already.

    Args:
        source: a pandas DataFrame (an index with a name becomes a column, others are left out); an Arrow table, record batch or
            reader of batches, or anything that streams Arrow data, as Polars does; a dict of columns; a path of a Parquet file,
            or of a text file with a header line, .csv (commas) or .tsv (tabs), plain or .gz.
        schema: the rows' schema, if it is known.
    Raises:
        BadData: the source is none of these, column names are repeated, or the file is missing, damaged, without a header, or has
            another format.

    >>> table({"age": [31, 45], "clicked": [0, 1]}).num_rows
    2
    """
    made = _file(Path(source), schema) if isinstance(source, str | os.PathLike) else _memory(source)
    names = _with_places(made.column_names)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        cure = (
            f"if its first line is a row, {NAMELESS_ROWS}"
            if isinstance(source, str | os.PathLike)
            else "rename or drop the others"
        )
        said = f"Each column has a name of its own; {named(source)} has {', '.join(map(repr, twice))} more than once"
        raise BadData(f"{said}: {cure}.")
    return pa.table([usual(column) for column in made.columns], names, metadata=made.schema.metadata)


def _with_places(names: list[str]) -> list[str]:
    for place, name in enumerate(names):
        if not name.strip():
            free = (f"Unnamed: {place}" + (f".{more}" if more else "") for more in range(len(names)))
            names[place] = next(name for name in free if name not in names)
    return names


def usual(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that Arrow's functions take: without runs and views, and with lists of one layout."""
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        column = pc.run_end_decode(column)
    elif pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        column = pa.chunked_array([_lists(chunk) for chunk in column.chunks], pa.large_list(kind.value_type))
    kind = _without_views(column.type)
    return column if kind == column.type else column.cast(kind)


def _lists(chunk: pa.Array) -> pa.LargeListArray:
    """Lists of any layout with offsets. A missing list of a fixed size has entries, too, which belong to no list here."""
    ends = np.cumsum(pc.list_value_length(chunk).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    return pa.LargeListArray.from_arrays(np.r_[np.int64(0), ends], pc.list_flatten(chunk), mask=chunk.is_null())


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pa.dictionary(pa.int32(), pa.string())
    if pa.types.is_list(kind):
        return pa.list_(_without_views(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_without_views(kind.value_type))
    return kind


def tables(source, schema: Schema | None = None) -> Iterator[pa.Table]:
    """The tables of one source, or of several in a list or an iterator."""
    if isinstance(source, Iterable) and not _is_table(source):
        yield from (table(each, schema) for each in source)
    else:
        yield table(source, schema)


def named(source, otherwise: str = "the table") -> str:
    """The name of a source in messages, such as the path of a file."""
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
        why = "it has whole numbers too large for int64: make text of them" if isinstance(error, OverflowError) else _line(error)
        raise BadData(
            f"Each column of a table has values of one kind and a name of its own: {_odd_column(source)}{why}."
        ) from None
    raise BadData(f"A table is {TAKES}; received {type(source).__name__}.")


def _odd_column(source) -> str:
    """Which column of a frame or a dict is none, for Arrow's sentence seldom says it."""
    for name, values in source.items() if _is_pandas(source) or isinstance(source, Mapping) else ():
        try:
            pa.array(values)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return f"column {name!r}: "
    return ""


def _file(path: Path, schema: Schema | None) -> pa.Table:
    if path.is_dir():
        raise BadData(f"A table is read from one file; {path} is a folder: name a file in it.")
    if not path.is_file():
        raise BadData(f"File {path} does not exist.")
    ending = Path(path.name.removesuffix(".gz")).suffix
    try:
        if path.name.endswith(".parquet"):
            with pq.ParquetFile(path) as file:  # opened once: another process may replace it meanwhile
                return file.read()
        if ending in CSV_ENDINGS:
            return _csv(path, CSV_ENDINGS[ending], schema)
    except (pa.ArrowException, EOFError) as error:
        cure = "its first line has the names of the columns, and each column values of one kind" if ending in CSV_ENDINGS else ""
        why = f"{_line(error)}; {cure}" if cure else f"it is damaged, cut off, or of another format ({_line(error)})"
        raise BadData(f"{path} can't be read as a table: {why}.") from None
    except OSError as error:
        if error.errno is None:  # Arrow's, about what the file holds
            raise BadData(f"{path} can't be read as a table: {_line(error)}.") from None
        raise unreadable(str(path), error) from None
    raise BadData(
        f"A table is {TAKES}; {path} ends with none of .parquet, .csv, .tsv: read other text with pandas.read_csv(..., sep=...), "
        "and give that table."
    )


def _csv(path: Path, delimiter: str, schema: Schema | None) -> pa.Table:
    with pa.input_stream(str(path)) as file:
        start = file.read(64)
        if start[:2] in UTF_16 or 0 in start:
            raise _no_utf8(path, "UTF-16, or no text")
    try:
        found = _parsed(path, delimiter)
        names = found.column_names
    except UnicodeDecodeError:
        raise _no_utf8(path, "other bytes in its first line") from None
    if odd := [field.name for field in found.schema if pa.types.is_binary(field.type)]:
        raise _no_utf8(path, f"other bytes in column {odd[0]!r}")
    require_no_mark(found, path)
    others = [sign for sign in DELIMITERS if sign != delimiter and sign in names[0]]
    if len(names) == 1 and others:
        raise BadData(
            f"{path} can't be read as a table: its columns are divided by {DELIMITERS[delimiter]}, and its first "
            f"line has {DELIMITERS[others[0]]}: read it with pandas.read_csv(..., sep={others[0]!r}), and give that table."
        )
    if _is_row(names):
        raise BadData(
            f"{path} can't be read as a table: its first line has the names of the columns, and {', '.join(names)[:60]!r} looks "
            f"like a row: {NAMELESS_ROWS}."
        )
    if len({*filter(None, names)}) < len([*filter(None, names)]):
        return found  # `table` refuses it
    numbers = [f.name for f in found.schema if f.name and (pa.types.is_integer(f.type) or pa.types.is_floating(f.type))]
    if schema is None:
        spelled = numbers
    else:
        ids = {column.name for column in schema.categoricals if not column.bits}
        spelled = [f.name for f in found.schema if f.name in ids and not (pa.types.is_string(f.type) or pa.types.is_null(f.type))]
        whole = [name for name in numbers if name not in ids and pa.types.is_integer(found.schema.field(name).type)]
        require_decimal(path, delimiter, whole)
    texts = _parsed(path, delimiter, spelled) if spelled else found
    for name in spelled:
        text = pc.if_else(found[name].is_valid(), texts[name], pa.scalar(None, pa.string()))
        if schema is not None or words.differ(text, found[name]):
            found = found.set_column(names.index(name), name, text)
    return found


def require_no_mark(found: pa.Table, path: Path) -> None:
    """Raises BadData if a line of a text file begins with a byte-order mark, as joined files have it inside."""
    mark, first = UTF_8_MARK.decode(), found.column(0)
    rows = pc.indices_nonzero(pc.starts_with(first, mark)) if pa.types.is_string(first.type) else ()
    if len(rows) or found.column_names[0].startswith(mark):
        where = f"row {rows[0]}, counted from 0," if len(rows) else "the name of its first column"
        raise BadData(
            f"{path} can't be read as a table: a byte-order mark stands only at the beginning of a file, and {where} begins with "
            "one, as in files that were joined: read each file by itself."
        )


def _is_row(names: list[str]) -> bool:
    """Whether the first line of a file has numbers that name no columns. Names such as 0, 1, 2 or years pass."""
    numbers = [name for name in names if re.fullmatch(r"[+-]?[0-9]*[.]?[0-9]+([eE][+-]?[0-9]+)?", name.strip())]
    twice = len({*names}) < len(names)
    return bool(numbers) and (twice or any(len(number) > 4 or not number.strip().isdecimal() for number in numbers))


def _parsed(path: Path, delimiter: str, text: list[str] | None = None) -> pa.Table:
    """Reads a text file, or these columns of it unchanged as text."""
    return pa_csv.read_csv(
        path,
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(text or (), pa.string()), include_columns=text),
    )


def require_decimal(path: Path, delimiter: str, numbers: list[str]) -> None:
    """Raises BadData if a column that was read as whole numbers has hexadecimal ones, which Arrow takes."""
    if not numbers:
        return
    with pa.input_stream(str(path)) as file:  # to read all columns as text, too, would take twice as long
        before, found = b"", False
        while not found and (part := file.read(1 << 20)):
            before, found = part[-1:], re.search(b"0[xX]", before + part) is not None
    if not found:
        return
    texts = _parsed(path, delimiter, numbers)
    for name in numbers:
        odd = pc.indices_nonzero(pc.match_substring_regex(texts[name], r"^\s*[+-]?0[xX]"))
        if len(odd):
            row = odd[0].as_py()
            raise BadData(
                f"{path} can't be read as a table: numbers are decimal; column {name!r} has {texts[name][row].as_py()!r} in row "
                f"{row}, counted from 0: write it in decimal digits."
            )


def _no_utf8(path: Path, has: str) -> BadData:
    return BadData(
        f"{path} can't be read as a table: text must be UTF-8, and it has {has}: save it as UTF-8, or read it with "
        "pandas.read_csv(..., encoding=...), and give that table."
    )


def _line(error: Exception) -> str:
    """The first line of an error's message."""
    said = ": ".join(map(str, error.args)).strip() or type(error).__name__
    return said.splitlines()[0].rstrip(".")
