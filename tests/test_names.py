"""Files of tests lie in folders that are no packages, so pytest can't load two of one name."""

from collections import Counter
from pathlib import Path


def test_no_two_files_of_tests_have_one_name():
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, found in names.items() if found > 1] == []
