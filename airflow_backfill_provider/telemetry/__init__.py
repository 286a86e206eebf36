"""Telemetry of epochs: logs, metrics and lineage."""
