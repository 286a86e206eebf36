"""A backfill from Kafka, beside what people use."""
