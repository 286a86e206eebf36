"""Hands an event to notifiers, whatever becomes of them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable
from typing import Any

from airflow_backfill_provider.notifications.events import BackfillEvent

TEMPLATE_NAME = "backfill"
"""What templates of notifiers find the event under."""

Sender = Callable[[Any], None]
"""A notifier of Airflow's or of a provider, or anything else that takes a context."""

logger = logging.getLogger(__name__)


def deliver(event: BackfillEvent, senders: Iterable[Sender], context: Any) -> None:
    """
    Tell an event to all senders; one that fails is logged, and the others are told.

    :param context: the context of the task run or of the callback.
    """
    for sender in senders:
        try:
            # A notifier renders its templates in place, so each event needs a fresh one.
            copy.copy(sender)({**context, TEMPLATE_NAME: event.as_template()})
        except Exception:  # whom to tell must not decide over the task
            logger.exception("%s was not told that %s", type(sender).__name__, event.text)
