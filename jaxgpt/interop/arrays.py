"""The same numbers in another order of axes: how a file lays out what the parameter tree holds.

A form such as `"HD C"` names a stored array's axes by the tree's letters (see `ParamSpec.axes`); letters that stand
together are flattened into one axis. It is read in both directions, so reading undoes writing by construction.
"""

from __future__ import annotations

import math

import numpy as np

from jaxgpt.model.specs import ParamSpec


def stored_shape(spec: ParamSpec, form: str) -> tuple[int, ...]:
    """Return the shape a parameter has in a file.

    >>> from jaxgpt.model.specs import Init
    >>> stored_shape(ParamSpec((6, 2, 3), "CHD", Init(0, 1), True), "HD C")
    (6, 6)
    """
    sizes = dict(zip(spec.axes, spec.shape, strict=True))
    return tuple(math.prod(sizes[axis] for axis in group) for group in form.split())


def to_stored(array: np.ndarray, spec: ParamSpec, form: str) -> np.ndarray:
    """Return a parameter as a file holds it.

    >>> from jaxgpt.model.specs import Init
    >>> to_stored(np.array([[1, 2, 3], [4, 5, 6]]), ParamSpec((2, 3), "CF", Init(0, 1), True), "F C").tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    order = [spec.axes.index(axis) for axis in form.replace(" ", "")]
    return array.transpose(order).reshape(stored_shape(spec, form))


def from_stored(stored: np.ndarray, spec: ParamSpec, form: str) -> np.ndarray:
    """Return a file's array as the parameter tree holds it: the inverse of `to_stored`.

    >>> from jaxgpt.model.specs import Init
    >>> from_stored(np.array([[1, 4], [2, 5], [3, 6]]), ParamSpec((2, 3), "CF", Init(0, 1), True), "F C").tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    letters = form.replace(" ", "")
    sizes = dict(zip(spec.axes, spec.shape, strict=True))
    return stored.reshape([sizes[axis] for axis in letters]).transpose([letters.index(axis) for axis in spec.axes])
