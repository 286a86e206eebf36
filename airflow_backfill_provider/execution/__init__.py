"""One epoch on Spark: puts source, strategy and shape together, and implements what the protocol asks of an engine."""
