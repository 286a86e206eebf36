"""Benchmarks: what is measured here may be quoted, nothing else."""
