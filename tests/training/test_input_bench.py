"""`ctrlab bench input`: every format is there, in seconds of a row, and only Parquet of ids stands beside pyarrow alone."""

from ctrlab import data
from ctrlab.training import input_bench


def test_every_format_is_timed(monkeypatch):
    monkeypatch.setattr(input_bench, "BATCHES", (512,))
    monkeypatch.setattr(input_bench, "CODECS", ("lz4",))
    [(batch, found)] = input_bench.bench_input("criteo", "tiny").items()
    assert batch == 512
    assert list(found.measurements) == [*data.FORMATS, "parquet of ids, lz4", "pyarrow alone, lz4"]
    assert all(0 < m.median < 0.1 for m in found.measurements.values()), "seconds of a row"
    shares = {name: input_bench.share_of_pyarrow(found, name) for name in found.measurements}
    assert [name for name, share in shares.items() if share] == ["parquet of ids, lz4"]
