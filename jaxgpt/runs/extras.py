"""What is only needed by some, and how it is installed."""

from __future__ import annotations

from jaxgpt.config import RequestError

from .versions import installed_versions


def require_extra(asker: str, package: str, extra: str) -> None:
    """Refuse, before any work, what would need a package that is not installed.

    Args:
        asker: The option or setting that needs it, for the message.
        package: Its name.
        extra: The extra of jaxgpt that brings it.

    Raises:
        RequestError: it is not installed.

    Example:
        >>> require_extra("--fast", "no-such-package", "speed")
        Traceback (most recent call last):
            ...
        jaxgpt.config.errors.RequestError: --fast needs no-such-package, which is not installed; pip install \
'jaxgpt[speed]'
    """
    if not installed_versions([package]):
        raise RequestError(f"{asker} needs {package}, which is not installed; pip install 'jaxgpt[{extra}]'")
