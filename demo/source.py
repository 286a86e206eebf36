"""
``python -m demo.source``: the demo over a topic in a real Kafka broker; see the README.

It reads the same environment variables as the demo, and ``DEMO_RECORDS_PER_SECOND``. ``DEMO_KAFKA_JARS`` is the folder
of the broker's jars.
"""

from __future__ import annotations

import sys

from demo.kafka.upstream import KafkaOrders
from demo.main import main

if __name__ == "__main__":
    sys.exit(main("demo-source", "A backfill from Kafka to watch.", KafkaOrders, folder=".demo-source"))
