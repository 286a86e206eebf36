"""A query's text without its comments has the same tokens, and the same text once more."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.spark_tokens import spark_tokens, without_gaps
from airflow_backfill_provider.shapes.query_text import read_query

PIECES = st.sampled_from(
    [
        *"'\"`\\-/*+ \n\r\t$#;,.()=<>|:ax1é\u0085\u2028\u200b\u00a0",
        *(
            "--",
            "/*",
            "*/",
            "/*+",
            "''",
            "\\'",
            "\\\n",
            "r'",
            "x'",
            "1L",
            ".5",
            "1e5",
            "'a'",
            "`b`",
            "/* c */",
            "-- d\n",
        ),
        *("SELECT ", " FROM upstream", "GROUP BY"),
    ]
)
TEXTS = st.lists(PIECES, max_size=10).map("".join)


def words(text: str) -> list[tuple[str, int, int]]:
    return [(token.kind, token.start, token.end) for token in spark_tokens(text)]


@given(TEXTS)
def test_a_text_keeps_its_tokens_and_their_places_without_comments(text: str) -> None:
    """What is checked is what runs."""
    try:
        plain = without_gaps(text)
    except InvalidJobError:
        assume(False)
    assert len(plain) == len(text)
    assert words(plain) == words(text)
    assert without_gaps(plain) == plain


@given(TEXTS)
def test_a_text_that_was_read_is_read_again_as_the_same_tokens(text: str) -> None:
    try:
        once = read_query(text)
    except InvalidJobError:
        assume(False)
    assume(not once.text.endswith(";"))
    again = read_query(once.text)
    assert (again.text, [token.text for token in again.tokens]) == (once.text, [token.text for token in once.tokens])
