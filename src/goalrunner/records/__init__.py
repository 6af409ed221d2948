"""What is kept of runs: event log, artifacts, run folders, redaction, memory."""
