"""A run for use elsewhere: patch, branch, Markdown, HTML page, JUnit XML and annotations of CI systems."""
