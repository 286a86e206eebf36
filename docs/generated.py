"""
Generate parts of the documentation: blocks between markers, each made by a script in this folder.

A block lies between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``; all other text is written by hand.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

_BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z0-9 ]+) -->\n)(?P<body>.*?)(<!-- /generated -->)", re.DOTALL)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(_cell(value) for value in line) + " |\n" for line in lines)


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """
    Return a page with new content for all of its blocks.

    :raises KeyError: if the page and the script have different blocks.
    """
    names = names_in(text)
    if names != set(blocks):
        raise KeyError(f"blocks of the page and of the script differ: {sorted(names ^ set(blocks))}")
    return refilled(text, blocks)


def names_in(text: str) -> set[str]:
    """Return the names of a page's blocks."""
    return {match["name"] for match in _BLOCK.finditer(text)}


def refilled(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with new content for some of its blocks."""

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        return f"{match[1]}\n{blocks[name]}\n{match[4]}" if name in blocks else match[0]

    return _BLOCK.sub(block, text)


def block_of(text: str, name: str) -> str:
    """
    Return the content of a block of a page.

    :raises KeyError: if the page has no such block.
    """
    return {match["name"]: match["body"] for match in _BLOCK.finditer(text)}[name]


def main(page: Path, blocks: Mapping[str, str], fill: Callable[[str, Mapping[str, str]], str] = filled) -> int:
    """
    Print the blocks; with ``--write`` put them into the page, with ``--check`` compare them with it.

    :param fill: puts the blocks into a page; :func:`refilled` if other scripts make other blocks of it.
    """
    parser = argparse.ArgumentParser(description=f"Make the generated blocks of {page.name}.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="put the blocks into the page")
    action.add_argument(
        "--check", action="store_true", help="print the difference and exit with 1 if the page is stale"
    )
    arguments = parser.parse_args()
    if not (arguments.write or arguments.check):
        sys.stdout.write("\n".join(f"## {name}\n\n{body}" for name, body in blocks.items()))
        return 0
    before = page.read_text(encoding="utf-8")
    after = fill(before, blocks)
    if arguments.write:
        page.write_text(after, encoding="utf-8")
        return 0
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), page.name, "generated"))
    return int(before != after)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("|", "\\|").replace("\n", " ")
