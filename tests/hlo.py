"""What a compiled program allocates, read from its text and from XLA's own accounts."""

import math
import re

_SHAPE = re.compile(r"\b(?:pred|[suf]\d+|bf16|c\d+|f8\w+)\[([\d,]*)\]")


def shapes(compiled):
    """Return the shapes of all values in a compiled program, of whatever type, those inside fusions too."""
    found = _SHAPE.findall(compiled.as_text())
    return {tuple(map(int, sizes.split(","))) if sizes else () for sizes in found}


def largest_shape(compiled):
    """Return the shape with the most elements."""
    return max(shapes(compiled), key=math.prod)


def temporary_bytes(compiled):
    """Return the bytes that the program needs beside its arguments and results."""
    return compiled.memory_analysis().temp_size_in_bytes
