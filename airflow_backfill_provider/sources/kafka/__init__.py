"""``kafka``: a topic of a Kafka cluster."""
