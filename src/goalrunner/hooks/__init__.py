"""The Stop hook of Claude Code: `goal hook`."""
