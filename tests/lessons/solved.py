"""The right answers, as the solved notebooks have them: nothing of them is written again in a test."""

from __future__ import annotations

import ast
import linecache
import symtable
from collections.abc import Callable
from functools import cache

from nbformat import NotebookNode

from ctrlab.lessons import notebook, places

LAB = "lab"


def solved(lesson: str, exercise: int) -> Callable | str:
    """The function or class that the cell of an exercise defines; of a cell in C++ its source, without the magic's line.

    It runs in a module of its own, after the imports, functions and constants of the cells above that it uses, and nothing else.
    """
    cells = _code(lesson)
    place = next(n for n, cell in enumerate(cells) if notebook.exercise_number(cell) == exercise)
    source = cells[place].source
    if notebook.in_cpp(source):
        return source.partition("\n")[2]
    answer = next(node for node in ast.parse(source).body if "### BEGIN SOLUTION" in _text(node, source))
    text = "\n\n".join([*_above(cells[: place + 1], _text(answer, source)), _text(answer, source)])
    file = f"<{lesson}, exercise {exercise}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # for inspect.getsource and for AutoGraph
    module = {"__name__": file}
    exec(compile(text, file, "exec"), module)
    return module[answer.name]


@cache
def _code(lesson: str) -> list[NotebookNode]:
    return [c for c in notebook.read(places.lesson_path(lesson)).cells if c.cell_type == "code"]


def _above(cells: list[NotebookNode], text: str) -> list[str]:
    """The statements that `text` needs, and those that they need, in their order. The last that binds a name counts."""
    statements, binds = [], {}
    for cell in cells:
        if cell.source.startswith("%%"):
            continue
        for node in ast.parse(cell.source).body:
            binds |= dict.fromkeys(_bound(node), len(statements))
            statements.append(_text(node, cell.source))
    needed, open_names = set(), _used(text)
    while open_names:
        name = open_names.pop()
        if name == LAB:
            raise AssertionError(f"A solution that a test reads uses no {LAB}; here {text[:80]!r} does.")
        if name in binds and binds[name] not in needed and statements[binds[name]] != text:
            needed.add(binds[name])
            open_names |= _used(statements[binds[name]])
    return [statements[n] for n in sorted(needed)]


def _text(node: ast.stmt, source: str) -> str:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement at the top of a cell binds."""
    return {
        s.get_name() for s in _table(ast.unparse(node)).get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()
    }


def _used(text: str) -> set[str]:
    """The names of the module that a statement reads, also inside its functions."""

    def of(table: symtable.SymbolTable, top: bool) -> set[str]:
        own = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())}
        return own.union(*(of(child, False) for child in table.get_children()))

    return of(_table(text), True)


def _table(text: str) -> symtable.SymbolTable:
    return symtable.symtable(text, "<statement>", "exec")
