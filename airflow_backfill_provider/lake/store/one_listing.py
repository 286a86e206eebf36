"""
Lists each log in an object store once, for code that asks for the same logs several times.

What such code compares is then as of one instant, and costs one request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Listing = TypeVar("Listing")

_HELD: ContextVar[dict[Hashable, Any] | None] = ContextVar("held", default=None)


@contextmanager
def one_listing() -> Iterator[None]:
    """
    List each log once until the block ends, and again after this thread has written to its table.

    A block within another one changes nothing.
    """
    if _HELD.get() is not None:
        yield
        return
    token = _HELD.set({})
    try:
        yield
    finally:
        _HELD.reset(token)


def listed(log: Hashable, list_it: Callable[[], Listing]) -> Listing:
    """
    Return the listing of a log that the block has; else list the log.

    :param log: what identifies the log.
    """
    held = _HELD.get()
    if held is None:
        return list_it()
    if log not in held:
        held[log] = list_it()
    found: Listing = held[log]
    return found


def forget(log: Hashable) -> None:
    """Forget the listing of a log, because its table was written to."""
    held = _HELD.get()
    if held is not None:
        held.pop(log, None)
