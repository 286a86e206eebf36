"""
``python -m demo.cdc``: the demo over a table in a real PostgreSQL; see the README.

It reads the same environment variables as the demo, and ``DEMO_TRANSACTIONS_PER_SECOND``. ``DEMO_POSTGRES_BIN`` is the
folder of the server's programs.
"""

from __future__ import annotations

import sys

from demo.main import main
from demo.postgres.upstream import PostgresOrders

if __name__ == "__main__":
    sys.exit(main("demo-cdc", "A backfill from PostgreSQL to watch.", PostgresOrders, folder=".demo-cdc"))
