"""The few widths that programs are compiled for: every other length is padded to one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_SMALLEST_WIDTH = 32  # of tokens: narrower ones cost as much as this one and would each be compiled
_WIDEST_CHUNK = 512  # of a prompt: wider ones are no faster, and their scores take memory
_FEWEST_SLOTS = 128  # of a cache: below, a step does not notice how many there are


def width_for(length: int, most: int) -> int:
    """Return the width that `length` tokens are padded to: a power of two, or `most` where that is less.

    Example:
        >>> width_for(3, 1024), width_for(33, 1024), width_for(33, 40)
        (32, 64, 40)
    """
    return min(max(1 << (length - 1).bit_length(), _SMALLEST_WIDTH), most)


def width_of(rows: Sequence[Sequence[int]], most: int) -> int:
    """Return the width that these rows are padded to."""
    return width_for(max(map(len, rows)), most)


def room_for(held: int, total: int, most: int) -> int:
    """Return how many slots a cache gets that holds `held` tokens now and will hold `total`, at most `most`.

    There is room for as much again, so that few sizes are compiled for and early tokens do not pay for the last ones.

    Example:
        >>> room_for(10, 40, 1024), room_for(10, 1000, 1024), room_for(256, 1000, 1024), room_for(600, 700, 1000)
        (128, 256, 1024, 1000)
    """
    wanted = max(min(total, 2 * held + _FEWEST_SLOTS), held)
    return min(max(1 << (wanted - 1).bit_length(), _FEWEST_SLOTS), most)


def chunks(length: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, width) of the pieces in which `length` tokens are read, the last one padded.

    Example:
        >>> list(chunks(40, 64)), list(chunks(1100, 2048))
        ([(0, 64)], [(0, 512), (512, 512), (1024, 128)])
    """
    for start in range(0, length, _WIDEST_CHUNK):
        yield start, width_for(min(length - start, _WIDEST_CHUNK), most - start)
