"""Child processes and the sandbox."""
