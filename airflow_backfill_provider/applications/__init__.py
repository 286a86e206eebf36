"""Runs Spark: settings, the applications' actions, supervised processes, and the local engine."""
