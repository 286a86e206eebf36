"""
Where the documentation and the code are.

Messages name pages by these addresses, because an installed package has no folder with them. The project's URLs, the
site's configuration and the links of the README have the same addresses; a test compares them.
"""

from __future__ import annotations

REPOSITORY = "https://github.com/airflow-backfill-provider/airflow-backfill-provider"
SITE = "https://airflow-backfill-provider.github.io/airflow-backfill-provider"


def page(name: str) -> str:
    """
    Return the address of a page.

    :param name: its file in ``docs``, without the suffix, such as ``how-to/rebuild``.
    """
    return f"{SITE}/{name}.html"
