"""Edits of a text at positions of its tokens."""

from __future__ import annotations

from collections.abc import Iterable

Edit = tuple[int, int, str]
"""A change of a text: start, end, and what stands there instead."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with some edits, which do not overlap; at one place, the first one comes first."""
    for start, end, written in sorted(edits, key=lambda edit: edit[:2])[::-1]:
        text = text[:start] + written + text[end:]
    return text


def edited_part(text: str, part: tuple[int, int], edits: Iterable[Edit]) -> str:
    """Return a part of a text with those edits that lie in it."""
    start, end = part
    inside = [
        (first - start, last - start, written) for first, last, written in edits if start <= first and last <= end
    ]
    return edited(text[start:end], inside)
