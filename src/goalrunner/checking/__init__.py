"""The check environment: the workspace as validators see it, and what counts of it."""
