"""The documentation's pages: their generated tables are current, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import cdc_example, plan_example, reference_tables, snapshot_example, source_example, terminal_picture
from docs.generated import filled, names_in, refilled

CHECKOUT = Path(__file__).parents[3]
PAGES = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])

_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_SVG_TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_the_reference_says_what_the_code_says():
    page = reference_tables.PAGE.read_text(encoding="utf-8")
    assert filled(page, reference_tables.make()) == page


def test_the_picture_of_the_terminal_says_what_the_views_say():
    # Text alone: versions of Rich draw the frame differently.
    drawn, stored = terminal_picture.draw(), terminal_picture.PICTURE.read_text(encoding="utf-8")
    assert _SVG_TEXT.findall(drawn) == _SVG_TEXT.findall(stored) != []


@pytest.mark.slow
def test_a_plan_says_what_the_page_shows():
    page = plan_example.PAGE.read_text(encoding="utf-8")
    assert filled(page, plan_example.make()) == page


def test_the_example_of_cdc_says_what_the_page_shows():
    """I1: the example compares its view with the query after each epoch."""
    page, blocks = cdc_example.PAGE.read_text(encoding="utf-8"), cdc_example.make()
    assert refilled(page, blocks) == page
    assert {name for name in names_in(page) if name.startswith("cdc ")} == set(blocks)


def test_the_example_of_source_says_what_the_page_shows():
    """I1 after each epoch, and I2: a second attempt reads the same records."""
    page, blocks = source_example.PAGE.read_text(encoding="utf-8"), source_example.make()
    assert refilled(page, blocks) == page
    assert {name for name in names_in(page) if name.startswith("source ")} == set(blocks)


def test_the_example_of_snapshot_says_what_the_page_shows():
    """I1: the example compares its view with the upstream's rows after each epoch."""
    page, blocks = snapshot_example.PAGE.read_text(encoding="utf-8"), snapshot_example.make()
    assert refilled(page, blocks) == page
    assert {name for name in names_in(page) if name.startswith("snapshot ")} == set(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page):
    for path, anchor in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors_of(target), f"{path}#{anchor}"
