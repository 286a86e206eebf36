"""What can be said of a job: status, progress, alarms, verifications."""
