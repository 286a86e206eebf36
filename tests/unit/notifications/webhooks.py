"""The webhooks that a server received."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Webhooks:
    """
    The posts so far.

    :param posts: path, headers and body of each.
    :param answer: the status that the next post gets.
    :param endless: whether its body has no end.
    :param delay: seconds that it takes to answer.
    :param port: where the server listens.
    """

    posts: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    answer: int = 200
    endless: bool = False
    delay: float = 0.0
    port: int = 0
