"""One epoch on Spark: combines source, strategy and shape, and implements the protocol's engine."""
