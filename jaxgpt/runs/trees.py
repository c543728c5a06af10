"""Trees of arrays as flat `{path: array}`: their names, content hashes and differences."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from jaxgpt.config import some

Signature = tuple[str, tuple[int, ...]]  # dtype name, shape


def named_leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves of any pytree by path; a tree that is one leaf calls it `value`.

    Raises:
        ValueError: two leaves share a path, because a key contains `/`.

    >>> named_leaves({"blocks_0": {"scale": 1.0}, "moments": (2.0, 3.0)})
    {'blocks_0/scale': 1.0, 'moments/0': 2.0, 'moments/1': 3.0}
    """
    import jax  # not above: records are read, and hashes compared, without it

    pairs = jax.tree_util.tree_flatten_with_path(tree)[0]
    named = {jax.tree_util.keystr(path, simple=True, separator="/") or "value": leaf for path, leaf in pairs}
    if len(named) != len(pairs):
        raise ValueError("two leaves of the tree have one path; keys must not contain '/'")
    return named


def nested(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{path: leaf}` as nested dicts.

    >>> nested({"blocks_0/scale": 1.0, "moments/0": 2.0})
    {'blocks_0': {'scale': 1.0}, 'moments': {'0': 2.0}}
    """
    tree: dict[str, Any] = {}
    for path, leaf in named.items():
        *folders, name = path.split("/")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = leaf
    return tree


def signature(leaf: Any) -> Signature:
    """Return the dtype's name and the shape of an array, or of anything that has both."""
    return np.dtype(leaf.dtype).name, tuple(leaf.shape)


def signatures(named: Mapping[str, Any]) -> dict[str, Signature]:
    """Return `{path: signature}`."""
    return {path: signature(leaf) for path, leaf in named.items()}


def content_hash(array: np.ndarray) -> str:
    """Return the sha256 (hex) of an array's dtype, shape and bytes.

    >>> content_hash(np.zeros(2, np.float32)) == content_hash(-np.zeros(2, np.float32))
    False
    """
    dtype, shape = signature(array)
    digest = hashlib.sha256(f"{dtype}{list(shape)}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return digest.hexdigest()


def content_hashes(named: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Return `{path: content_hash}`; hashing releases the interpreter's lock, so threads share the work."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(named, pool.map(content_hash, named.values()), strict=True))


def differences(got: Mapping[str, Signature], expected: Mapping[str, Signature]) -> str:
    """Say in words how two sets of leaves differ: the first of each kind; an empty string where they agree.

    >>> differences({"a": ("float32", (2,)), "c": ("int32", ())}, {"a": ("float32", (3,))})
    'a is float32[2], expected float32[3]; surplus: c'
    """
    misfits = [path for path in got.keys() & expected.keys() if got[path] != expected[path]]
    changed = [f"{path} is {_words(got[path])}, expected {_words(expected[path])}" for path in sorted(misfits)]
    missing, surplus = sorted(expected.keys() - got.keys()), sorted(got.keys() - expected.keys())
    kinds = {"": changed, "missing: ": missing, "surplus: ": surplus}
    return "; ".join(label + some(found) for label, found in kinds.items() if found)


def _words(of: Signature) -> str:
    return f"{of[0]}[{','.join(map(str, of[1]))}]"
