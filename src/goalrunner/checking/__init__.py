"""The check environment: the workspace as validators see it, and the rules for protected and ignored files."""
