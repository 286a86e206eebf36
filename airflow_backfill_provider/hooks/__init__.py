"""Hooks that open jobs and submit Spark applications."""
