"""Hooks: where jobs' control tables lie, and how Spark applications are submitted."""
