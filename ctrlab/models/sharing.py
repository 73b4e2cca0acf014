"""Requests in which many candidates share a user: values that depend only on the user are computed once.

    a user's values       [U, k]      one row per user                     `PerUser`
    a candidate's         [N, k]      one row per candidate                a tensor
    both side by side     [N, k]      as pieces of either kind             `Parts`

The N candidates of a request are ordered by user: the first `candidates[0]` of them belong to user 0. A matrix of
both kinds is never built. A product with a kernel is a sum of two products; the user's is computed for U rows, then repeated:

    [u, c] K = u K_u + c K_c

Models are written in these functions. For plain tensors they are TensorFlow's own ops, so training and other exports do not
change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import tensorflow as tf

Column = TypeVar("Column")


class Users(NamedTuple):
    """The users of a request.

    Attributes:
        candidates: int64 [U], how many each user has.
        row_of: int64 [N], the user of each candidate.
    """

    candidates: tf.Tensor
    row_of: tf.Tensor

    @classmethod
    def of(cls, candidates: tf.Tensor, rows: tf.Tensor) -> Users:
        """The users of `rows` candidates; `rows`, int64, is the sum of `candidates`."""
        # Not `tf.repeat`, which makes a mask of U x the largest count.
        return cls(candidates, tf.searchsorted(tf.cumsum(candidates), tf.range(rows), side="right", out_type=tf.int64))


class PerUser(NamedTuple):
    """A value that is the same for all candidates of a user: a tensor [U, ...] or a ragged one. It is a tuple, so that Keras's
    layers accept it as a group of tensors.
    """

    values: tf.Tensor | tf.RaggedTensor
    users: Users


class Parts(NamedTuple):
    """A matrix [N, k] whose columns come in pieces, some [N, .] and some `PerUser`, [U, .]."""

    pieces: tuple[tf.Tensor | PerUser, ...]


Matrix = tf.Tensor | PerUser | Parts


def apart(columns: Iterable[Column], values: Mapping[str, object]) -> list[tuple[list[Column], Users | None]]:
    """Splits columns into two groups: the users' columns with their users, and the others with None. Empty groups are left out.

    Args:
        columns: columns with a name each, or names.
        values: a value of each column, by its name; a column without one is among the others.
    """
    return runs(sorted(columns, key=lambda column: _users(column, values) is None), values)


def runs(columns: Iterable[Column], values: Mapping[str, object]) -> list[tuple[list[Column], Users | None]]:
    """Like `apart`, but in the columns' order: columns of one kind that follow each other are a group."""
    grouped = [list(run) for _, run in itertools.groupby(columns, lambda column: _users(column, values) is None)] or [[]]
    return [(run, _users(run[0], values) if run else None) for run in grouped]


def _users(column: Column, values: Mapping[str, object]) -> Users | None:
    value = values.get(column if isinstance(column, str) else column.name)
    return value.users if isinstance(value, PerUser) else None


def bare(value):
    """The values of a `PerUser` without its users; any other value unchanged."""
    return value.values if isinstance(value, PerUser) else value


def wrapped(value, users: Users | None):
    """`value` as a `PerUser` of these users; unchanged if there are none."""
    return value if users is None else PerUser(value, users)


def whole(x: Matrix) -> tf.Tensor:
    """[N, k]: a user's row for each of the user's candidates."""
    if isinstance(x, PerUser):
        return tf.gather(x.values, x.users.row_of)
    return tf.concat([whole(piece) for piece in x.pieces], axis=1) if isinstance(x, Parts) else x


def side_by_side(*matrices: Matrix | None) -> Matrix:
    """Concatenates the columns of all arguments; None has no columns."""
    found = [piece for m in matrices if m is not None for piece in (m.pieces if isinstance(m, Parts) else (m,))]
    kinds = {isinstance(piece, PerUser) for piece in found}
    if len(kinds) == 2:
        return Parts(tuple(found))
    return wrapped(_joined([bare(piece) for piece in found], 1), found[0].users if kinds == {True} else None)


def rowwise(f: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor | PerUser) -> tf.Tensor | PerUser:
    """f(x), which treats each row by itself."""
    return PerUser(f(x.values), x.users) if isinstance(x, PerUser) else f(x)


def elementwise(f: Callable[..., tf.Tensor], x: Matrix, *vectors: tf.Tensor) -> Matrix:
    """f(x, *vectors), which treats each number by itself; the vectors have one number per column."""
    if not isinstance(x, Parts):
        return rowwise(lambda piece: f(piece, *vectors), x)
    return Parts(tuple(elementwise(f, piece, *(v[cut] for v in vectors)) for piece, cut in zip(x.pieces, _cuts(x))))


def groups(x: Parts) -> list[PerUser | tf.Tensor]:
    """The users' pieces, and the candidates' pieces."""
    users = [piece for piece in x.pieces if isinstance(piece, PerUser)]
    return [side_by_side(*users), side_by_side(*(piece for piece in x.pieces if not isinstance(piece, PerUser)))]


def product(x: Matrix, kernel: tf.Tensor) -> tf.Tensor | PerUser:
    """The matrix product of x and the kernel, in the kernel's type."""
    if not isinstance(x, Parts):
        return rowwise(lambda rows: tf.matmul(tf.cast(rows, kernel.dtype), kernel), x)
    cuts = list(zip(x.pieces, _cuts(x)))
    # The rows of the kernel are chosen when it is exported, not in a call.
    kernels = [_joined([kernel[cut] for piece, cut in cuts if isinstance(piece, PerUser) == users], 0) for users in (True, False)]
    return added(product(group, rows) for group, rows in zip(groups(x), kernels))


def added(terms: Iterable[tf.Tensor | PerUser]) -> tf.Tensor | PerUser:
    """The sum of terms, [N, k] or [U, k] each. Only the sum of the users' terms is repeated for the candidates."""
    terms = list(terms)
    users = [term for term in terms if isinstance(term, PerUser)]
    others = [term for term in terms if not isinstance(term, PerUser)]
    if users:
        once = PerUser(_sum([term.values for term in users]), users[0].users)
        if not others:
            return once
        others.append(whole(once))
    return _sum(others)


def _sum(terms: list[tf.Tensor]) -> tf.Tensor:
    return terms[0] if len(terms) == 1 else tf.add_n(terms)


def _joined(pieces: list[tf.Tensor], axis: int) -> tf.Tensor:
    return pieces[0] if len(pieces) == 1 else tf.concat(pieces, axis)


def _cuts(x: Parts) -> list[slice]:
    """The columns of each piece."""
    ends = [0]
    for piece in x.pieces:
        ends.append(ends[-1] + bare(piece).shape[1])
    return [slice(*ends[i : i + 2]) for i in range(len(x.pieces))]
