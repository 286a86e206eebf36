"""What the site does beyond its generator: links out of the pages, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import re

import pytest

from airflow_backfill_provider.core.site import REPOSITORY
from docs.blocks import ROOT
from docs.site_hooks import linked, loaded_from_elsewhere

DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


@pytest.mark.parametrize(
    ("source", "page", "link", "there"),
    [
        ("docs/how-to/a.md", "how-to/a.md", "../concepts/query.md#x", "../concepts/query.md#x"),
        ("docs/how-to/a.md", "how-to/a.md", "../../dags/a.py", f"{REPOSITORY}/blob/main/dags/a.py"),
        ("docs/how-to/a.md", "how-to/a.md", "../../dags/", f"{REPOSITORY}/tree/main/dags"),
        ("docs/how-to/a.md", "how-to/a.md", "../plan_example.py", f"{REPOSITORY}/blob/main/docs/plan_example.py"),
        ("docs/how-to/a.md", "how-to/a.md", "../../CONTRIBUTING.md#test", "../developers/contributing.md#test"),
        ("CONTRIBUTING.md", "developers/contributing.md", "docs/faults.md", "../faults.md"),
        ("CONTRIBUTING.md", "developers/contributing.md", "LICENSE", f"{REPOSITORY}/blob/main/LICENSE"),
        ("docs/index.md", "index.md", "https://spark.apache.org/a.md", "https://spark.apache.org/a.md"),
        ("docs/index.md", "index.md", "#compared", "#compared"),
    ],
)
def test_a_link_leads_to_where_its_target_is_on_the_site(source, page, link, there):
    assert linked(f"See [it]({link}).", source, page) == f"See [it]({there})."


def test_a_block_of_code_is_left_as_it_is():
    text = "```bash\nls [a](../../dags/a.py)\n```\n"
    assert linked(text, "docs/how-to/a.md", "how-to/a.md") == text


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="../assets/a.js"></script><a href="https://a.example">a</a>', []),
        ('<link rel="canonical" href="https://a.example/b">', []),
        ('<script src="https://a.example/b.js"></script>', ["https://a.example/b.js"]),
        ("<link rel=stylesheet href=//a.example/b.css>", ["//a.example/b.css"]),
        ('<img alt="a" src="https://a.example/b.png">', ["https://a.example/b.png"]),
    ],
)
def test_what_a_page_would_load_from_elsewhere_is_found(html, found):
    assert loaded_from_elsewhere(html) == found


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda file: file.stem)
def test_a_decision_has_a_status_and_a_line_in_the_list(decision):
    heading, status = decision.read_text(encoding="utf-8").split("\n\n")[:2]
    title = re.fullmatch(r"# (\d{4}): (.+)", heading)
    assert title
    assert title[1] == decision.name[:4]
    assert status.startswith("**Status.** ")
    assert f"| [{title[1]}]({decision.name}) |" in (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
