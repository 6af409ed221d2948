"""Agents: the built-in one and its tools, external ones by command line or ACP, and their presets."""
