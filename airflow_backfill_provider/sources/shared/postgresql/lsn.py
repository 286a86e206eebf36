"""Log sequence numbers (LSNs): positions in PostgreSQL's write-ahead log, as offsets of an upstream."""

from __future__ import annotations

import re

from airflow_backfill_provider.core.scan.offset import Offset

_LSN = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})", re.IGNORECASE)


def parse_lsn(text: str) -> int:
    """
    Return an LSN as a number of bytes of write-ahead log.

    :param text: as PostgreSQL writes it, for example ``0/16B3748``.
    :raises ValueError: if it is no LSN.
    """
    found = _LSN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a log sequence number such as 0/16B3748")
    return int(found[1], 16) << 32 | int(found[2], 16)


def lsn_text(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(offset: Offset) -> int:
    """
    Return the LSN that an offset of a PostgreSQL table is; 0, which is before every LSN, for the beginning.

    :raises ValueError: if it is another source's offset.
    """
    if offset.root is None:
        return 0
    if not isinstance(offset.root, int):
        raise ValueError(f"offset {offset} is not a log sequence number")  # noqa: TRY004 - a value from a file
    return offset.root
