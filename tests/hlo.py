"""What a compiled program allocates, read from its text and from XLA's own accounts."""

import math
import re

_SHAPE = re.compile(r"\b(?:pred|[suf]\d+|bf16|c\d+|f8\w+)\[([\d,]*)\]")


def shapes(compiled):
    """Return the shapes of all values in a compiled program, of whatever type, those inside fusions too."""
    return _shapes(compiled.as_text())


def _shapes(text):
    return {tuple(map(int, sizes.split(","))) if sizes else () for sizes in _SHAPE.findall(text)}


def largest_shape(compiled):
    """Return the shape with the most elements."""
    return max(shapes(compiled), key=math.prod)


def temporary_bytes(compiled):
    """Return the bytes that the program needs beside its arguments and results."""
    return compiled.memory_analysis().temp_size_in_bytes


def copies(compiled, size):
    """Return the lines of a compiled program that write an array of `size` elements or more anew."""
    writing = r" (copy|copy-start|transpose|convert|concatenate|pad|broadcast|select)\("
    parts = [re.split(writing, line)[0] for line in compiled.as_text().splitlines() if re.search(writing, line)]
    return [part for part in parts if any(math.prod(shape) >= size for shape in _shapes(part))]
