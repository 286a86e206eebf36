"""What an epoch reports about itself: logs, metrics and lineage."""
