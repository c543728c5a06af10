"""What every picture that is drawn into a file has in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError, WorkError

from .extras import require_extra

# Told apart by people who do not see all colours, and dark enough for white paper: Okabe and Ito, without the yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")


def check_picture(option: str, path: Path) -> None:
    """Refuse, before anything is measured or read, a picture that could not be drawn.

    Args:
        option: The option that asks for it, for the message.
        path: Where it is to be.

    Raises:
        RequestError: no matplotlib, another kind of file, or no such folder.
    """
    require_extra(option, "matplotlib", "plot")
    if path.suffix != ".png":
        raise RequestError(f"{option} {path}: expected a name that ends in .png")
    if path.is_dir() or not path.parent.is_dir():
        raise RequestError(f"{option} {path}: expected the name of a file in a folder that is there")


@contextlib.contextmanager
def picture(path: Path, *, panels: int, size: tuple[float, float]) -> Iterator[list[Any]]:
    """Give matplotlib's axes, side by side, and write what was drawn on them as a PNG.

    Args:
        path: Where to.
        panels: How many.
        size: Width and height of one, in inches.

    Raises:
        WorkError: the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(size[0] * panels, size[1]), squeeze=False)
    try:
        yield list(axes[0])
        figure.tight_layout()
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise WorkError(f"cannot write {path}: {error.strerror}; name another file") from None
    finally:
        pyplot.close(figure)
