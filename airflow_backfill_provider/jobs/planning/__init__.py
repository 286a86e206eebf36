"""The dry run: what creating and running a job would do, and its description."""
