"""
The blocks of code on the documentation's pages, and what runs them.

A block of Bash or SQL has a line before it that says what becomes of it: ``<!-- runs: tests/system/test_wheel.py -->``
names the test that takes it from the page and runs it, and ``<!-- not run: REASON -->`` says why none does. Blocks of
Python, YAML and JSON need no such line, because ``tests/unit/docs/test_blocks.py`` runs or reads all of them.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

LANGUAGES = frozenset({"bash", "json", "python", "sql", "text", "toml", "yaml"})
"""What a block may be; ``text`` is output, or a setting without a language."""

COMMANDS = frozenset({"bash", "sql"})
"""What a reader runs in another program, so a line says whether a test does."""

_GENERATED = re.compile(r"<!-- generated: .*?<!-- /generated -->", re.DOTALL)
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<kind>runs|not run): (?P<said>[^>]*) -->\n(?:[ ]*\n)?)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """
    A block of code on a page.

    :param page: the page's path in the repository.
    :param line: the number of the block's first line.
    :param runs: the test that runs it.
    :param not_run: why no test does.
    """

    page: str
    line: int
    language: str
    text: str
    runs: str | None
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The command lines of a block of Bash, each without its comment."""
        whole = self.text.replace("\\\n", " ")
        return [line for line in (re.sub(r"(^|\s)#.*", "", one).strip() for one in whole.splitlines()) if line]


def pages() -> list[Path]:
    """Return all pages of the documentation, and those at the top of the repository."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page; those that a script generates are compared with its output elsewhere."""
    text = _GENERATED.sub(lambda match: "\n" * match[0].count("\n"), page.read_text(encoding="utf-8"))
    for match in _BLOCK.finditer(text):
        yield Block(
            page=str(page.relative_to(ROOT)),
            line=text.count("\n", 0, match.start("language")) + 1,
            language=match["language"],
            text=textwrap.dedent(match["text"]),
            runs=match["said"].strip() if match["kind"] == "runs" else None,
            not_run=match["said"].strip() if match["kind"] == "not run" else None,
        )


def run_by(test: str, page: str) -> list[Block]:
    """
    Return the blocks of a page that a test runs, in order.

    :param test: the test's path in the repository, as the page names it.
    """
    return [block for block in blocks_of(ROOT / page) if block.runs == test]
