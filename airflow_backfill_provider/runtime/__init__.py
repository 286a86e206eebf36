"""Where and how Spark runs: settings, submissions, supervised processes, and the local engine."""
