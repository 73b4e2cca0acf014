"""The minutes that a lesson's cells ask for."""

import pytest
from nbformat import v4

from ctrlab.errors import BadData
from ctrlab.lessons import effort

SOLVED = "def f(x):\n    ### BEGIN SOLUTION\n{}\n    ### END SOLUTION"
TITLE = (
    "# Title\n\n| to read | to do | difficulty | you write | needs | runs on |\n|---|---|---|---|---|---|\n| | | | | g++ | CPU |"
)


def lesson(words=0, lines=10, heading="## Exercise 1: it (medium)", solution="    y = np.sum(x)", kernel=False):
    first = "%%kernel gru\n" if kernel else ""
    body = "\n".join([solution] * lines)
    exercise = v4.new_code_cell(first + SOLVED.format(body), metadata={"tags": ["exercise-1"]})
    return v4.new_notebook(cells=[v4.new_markdown_cell(TITLE + " word" * words), v4.new_markdown_cell(heading), exercise])


def test_words_make_reading_and_lines_make_doing():
    short, long = effort.effort(lesson()), effort.effort(lesson(words=1_200))
    assert long.read - short.read == 10 and long.do == short.do
    # .4 minutes for the cell, 3 to understand, 10 lines of 1.2 minutes, half as much again because it is of medium difficulty
    assert short.do == 25 and effort.effort(lesson(lines=20)).do == 40


def test_tags_and_code_are_no_words_but_what_stands_between_less_and_greater_is():
    text = "2 < 3 words here, 5 > 4\n<details open><summary>one</summary>\n```python\na b c\n```\n</details><!-- solution 1 -->"
    assert effort.words(v4.new_notebook(cells=[v4.new_markdown_cell(text)])) == 9


def test_difficulty_and_language_count():
    assert effort.effort(lesson(heading="## Exercise 1: it (easy)")).do == 20
    assert effort.effort(lesson(heading="## Exercise 1: it (hard)")).do == 30
    assert effort.effort(lesson(lines=20, kernel=True)).do == 50
    assert effort.effort(lesson(heading="## Exercise 1: it (hard)")).difficulty == "hard"


@pytest.mark.parametrize(
    "solution, writes",
    [("    x", "plain Python"), ("    np.a(tf.b)", "NumPy; TensorFlow ops"), ("    x.prefetch(2)", "tf.data")],
)
def test_what_one_writes(solution, writes):
    assert effort.effort(lesson(solution=solution)).writes == writes
    assert effort.effort(lesson(solution=solution, kernel=True)).writes.endswith("C++ (pointers, loops)")


def test_it_is_told_in_the_table_and_in_the_heading_and_again_after_a_change():
    nb = effort.told(lesson())
    assert "| 5 minutes | 25 minutes | medium | NumPy | g++ | CPU |" in nb.cells[0].source
    assert nb.cells[1].source == "## Exercise 1: it (medium, 25 minutes)"
    nb.cells[1].source = nb.cells[1].source.replace("medium", "hard")
    nb = effort.told(nb)
    assert "| hard | NumPy | g++ | CPU |" in nb.cells[0].source and nb.cells[1].source == "## Exercise 1: it (hard, 30 minutes)"


def test_an_exercise_says_how_difficult_it_is():
    with pytest.raises(BadData, match=r"\(easy\), \(medium\) or \(hard\); exercise 1 has none in: '## Exercise 1: it'"):
        effort.effort(lesson(heading="## Exercise 1: it"))
