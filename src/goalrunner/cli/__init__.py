"""The command line: options -> one call -> one rendering. One file per command; `main` is the only error boundary."""
