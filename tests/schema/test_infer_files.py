"""`Schema.infer` on files as people have them: with the index of pandas, without a header, with blanks beside names."""

import io

import numpy as np
import pandas as pd
import pytest

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError, UnknownName
from ctrlab.schema import Categorical, Label, Numeric, Schema


def rows_with_index(rows: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    users, ages = rng.integers(20, size=rows), rng.normal(30, 9, rows).round(1)
    return pd.DataFrame({"user": [f"u{i}" for i in users], "age": ages, "clicked": rng.integers(0, 2, rows)})


def written_and_read(frame: pd.DataFrame, times: int) -> pd.DataFrame:
    """With an index for each time."""
    for _ in range(times):
        frame = pd.read_csv(io.StringIO(frame.to_csv()))
    return frame


INDEXES = {
    "to_csv": lambda frame: frame,
    "to_csv of some rows": lambda frame: frame.sample(frac=0.3, random_state=1),
    "to_csv twice": lambda frame: written_and_read(frame.sample(frac=0.5, random_state=1), 1),
    "to_csv three times": lambda frame: written_and_read(frame.sample(frac=0.5, random_state=1), 2),
    "reset_index": lambda frame: frame.reset_index(),
    "reset_index twice": lambda frame: frame.sample(frac=0.5, random_state=1).reset_index().reset_index(),
    "an index with a name": lambda frame: frame.rename_axis("row"),
    "an index of two levels": lambda frame: frame.set_index(frame.index * 2, append=True),
}


@pytest.mark.parametrize("change", INDEXES.values(), ids=INDEXES)
def test_the_index_of_pandas_is_left_out_aloud(tmp_path, change):
    frame = change(rows_with_index())
    frame.to_csv(tmp_path / "rows.csv")
    wanted = [c for c in Schema.infer(rows_with_index()).columns if not isinstance(c, Numeric)]
    for source in (tmp_path / "rows.csv", pd.read_csv(tmp_path / "rows.csv"), frame):
        schema = Schema.infer(source)
        assert [c for c in schema.columns if c.name != "age"] == wanted
        assert all("the number of the row; to_csv(index=False)" in note for note in schema.notes)
        assert len(schema.notes) == len(data.table(source).column_names) - 3
        assert data.write(source, schema, tmp_path / "rows.parquet", progress=False) == len(frame)


def test_columns_without_a_name_are_left_out_aloud(tmp_path):
    rows = "".join(f"{i % 3},x{i % 5},{i / 3:.2f},{i % 2},\n" for i in range(50))
    (tmp_path / "rows.csv").write_text(f",user,age,clicked,\n{rows}")
    for source in (tmp_path / "rows.csv", pd.read_csv(tmp_path / "rows.csv")):
        schema = Schema.infer(source)
        assert [c.name for c in schema.columns] == ["user", "age", "clicked"]
        assert schema.notes[0] == "left out: Unnamed: 0, it has no name; give it one to use it"
        assert schema.notes[1] == "left out: Unnamed: 4, no value in any row"


def test_whole_numbers_that_count_no_rows_stay():
    frame = rows_with_index()
    frame["even"], frame["few"], frame["index"] = np.arange(150) * 2, np.arange(150) % 70, np.arange(150) // 2
    assert {"even", "few", "index"} <= {c.name for c in Schema.infer(frame).features}
    assert "step" in Schema.infer(frame[:50].assign(step=np.arange(50)))
    assert Schema.infer(frame.assign(number=np.arange(150)), user="number").user == "number"


@pytest.mark.parametrize("first", ["u1,3.50,0", "1,0,0", "123456,7,1", "a,-3,x"])
def test_a_file_without_a_header_is_said_with_its_cure(tmp_path, first):
    (tmp_path / "rows.csv").write_text(f"{first}\n{first}\n")
    with pytest.raises(BadData, match=r"rows.csv can't .* looks like a row: .*header=None, names=") as caught:
        Schema.infer(tmp_path / "rows.csv")
    assert len(str(caught.value).splitlines()) == 1


def test_numbers_may_name_columns(tmp_path):
    frame = pd.DataFrame({"0": [1.5, 2.5], "1": [3, 4], "2019": [5.5, 6.5], "clicked": [0, 1]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert Schema.infer(tmp_path / "rows.csv") == Schema.infer(frame)
    with pytest.raises(UnknownName, match="Did you mean '0'"):
        Schema.infer(frame, label=0)


def test_a_name_with_blanks_is_hinted_at(tmp_path):
    (tmp_path / "rows.csv").write_text("user, age, clicked\nu, 1, 0\nv, 2, 1\n")
    schema = Schema("own", (Label("clicked"), Categorical("user")))
    for act in (Schema.infer, lambda path: data.write(path, schema, tmp_path / "rows.parquet", progress=False)):
        with pytest.raises(CtrlabError, match="Did you mean ' clicked'"):
            act(tmp_path / "rows.csv")
