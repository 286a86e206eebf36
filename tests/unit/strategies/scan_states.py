"""States of vnodes, and how task runs may divide them: what the tests of scans draw from."""

from __future__ import annotations

from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.scan import divide
from tests.builders import order_of

KEY = order_of("long", ("string", True))

KEYS = [(None, None), (None, "b"), (1, None), (1, "b"), (1, "a"), (2, None), (2, "a")]
"""In order."""


def state_of(*vnodes, epoch=5):
    return BackfillState(epoch=epoch, vnodes=vnodes)


PROGRESS = st.one_of(
    st.builds(NotStarted),
    st.builds(InProgress, st.sampled_from(KEYS), st.integers(0, 9)),
    st.builds(Completed, st.none() | st.sampled_from(KEYS), st.integers(0, 9)),
)

STATES = st.lists(PROGRESS, min_size=1, max_size=7).map(lambda vnodes: state_of(*vnodes))


@st.composite
def divided(draw):
    """Draw a state, and the vnodes of each of some task runs."""
    state = draw(STATES)
    count = len(state.vnodes)
    weights = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    return state, divide(state, draw(st.integers(1, count + 1)), weights), weights
