"""The Stop hook of Claude Code: `goal hook`.

`commands` writes the hook into the settings of an agent and reads its events;
`stop_hook` answers them. The hook of another agent: its settings in `commands`, and the
form of its events and replies beside `stop_hook`.
"""
