"""The records of runs: event log, artifacts, run folders, and redaction."""
