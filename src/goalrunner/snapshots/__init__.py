"""Snapshots of a workspace in a private git store: taking, comparing and restoring them."""
