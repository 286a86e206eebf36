"""
Where the documentation and the code are.

The project's URLs, the site's configuration and the links of the README have these addresses; a test compares them.
Nothing is published there before the first release, so messages name a page, and its address only where somebody says
where the built site is.
"""

from __future__ import annotations

import os

REPOSITORY = "https://github.com/airflow-backfill-provider/airflow-backfill-provider"
SITE = "https://airflow-backfill-provider.github.io/airflow-backfill-provider"

DOCS_VARIABLE = "AIRFLOW_BACKFILL_DOCS"
"""The environment variable with the address of a copy of the site, as ``make docs`` builds it."""


def page(name: str) -> str:
    """
    Return the address of a page; without a known copy of the site, a text that names the page.

    :param name: its file in ``docs``, without the suffix, such as ``how-to/rebuild``.
    """
    site = os.environ.get(DOCS_VARIABLE, "").rstrip("/")
    return f"{site}/{name}.html" if site else f"the page {name} of the documentation"
