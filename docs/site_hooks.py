"""
What MkDocs does for this site beyond its configuration.

- Contributing and changelog lie at the top of the repository; they become pages.
- A link to a file that is no page, such as a module, leads into the repository.
- Each decision gets its place in the navigation, without a line in ``mkdocs.yml``.
- A page that would load something from elsewhere is a warning, which ends a strict build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from airflow_backfill_provider.core.site import REPOSITORY

ROOT = Path(__file__).parents[1]
DOCS = "docs"

AT_THE_TOP = {"CONTRIBUTING.md": "developers/contributing.md", "CHANGELOG.md": "developers/changelog.md"}
"""Pages of the repository's top folder, and where they are on the site."""

LOG = logging.getLogger("mkdocs.hooks.site")

_LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\s\">]+)[^>]*>")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_DECISION = re.compile(r"^# (\d{4}: .*)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Add the decisions to the navigation."""
    (decisions,) = _found(config.nav, "Decisions")
    for file in sorted((ROOT / DOCS / "adr").glob("[0-9]*.md")):
        title = _DECISION.search(file.read_text(encoding="utf-8"))
        if title is None:
            raise ValueError(f"{file.name}: the first line must be '# NUMBER: TITLE'")
        decisions.append({title[1]: f"adr/{file.name}"})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's top folder."""
    for name, page in AT_THE_TOP.items():
        text = linked((ROOT / name).read_text(encoding="utf-8"), name, page)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Let the links of a page lead to where their targets are on the site."""
    name = page.file.src_uri
    return markdown if name in AT_THE_TOP.values() else linked(markdown, f"{DOCS}/{name}", name)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:  # noqa: ARG001
    """Warn of what a page would load from elsewhere: the site works without a network."""
    for address in loaded_from_elsewhere(output):
        LOG.warning("Page '%s' loads %s", page.file.src_uri, address)


def loaded_from_elsewhere(html: str) -> list[str]:
    """Return the addresses on other hosts from which a page would load scripts, styles, pictures or frames."""
    return [match[1] for match in _LOADED.finditer(html) if 'rel="canonical"' not in match[0]]


def linked(text: str, source: str, page: str) -> str:
    """
    Return a page's text with links that lead somewhere on the site.

    :param source: the page's file, as a path in the repository.
    :param page: where the page is on the site.
    """

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        anchor = match[2] or ""
        if target in AT_THE_TOP:
            target = f"{DOCS}/{AT_THE_TOP[target]}"
        elif not target.startswith(f"{DOCS}/") or target.endswith(".py") or (ROOT / target).is_dir():
            return f"{REPOSITORY}/{'tree' if (ROOT / target).is_dir() else 'blob'}/main/{target}{anchor}"
        return posixpath.relpath(target.removeprefix(f"{DOCS}/"), posixpath.dirname(page) or ".") + anchor

    ends = [match.span() for match in _FENCE.finditer(text)]
    parts, begin = [], 0
    for first, last in (*ends, (len(text), len(text))):
        parts += [_LINK.sub(link, text[begin:first]), text[first:last]]
        begin = last
    return "".join(parts)


def _found(entries: Any, title: str) -> list[list[Any]]:
    """Return the sections of a title, wherever they lie in the navigation."""
    sections = [section for entry in entries if isinstance(entry, dict) for section in entry.items()]
    lists = [(name, inner) for name, inner in sections if isinstance(inner, list)]
    return [inner for name, inner in lists if name == title] + [
        found for _, inner in lists for found in _found(inner, title)
    ]
