"""What a run is, how its state changes, and what follows. Pure: no input or output.

Model: a key of the goal file goes into `goal.py` or a table in `goal_tables.py`; a
label and its explanation into `labels.py`; an event into `events.py`, with a function
in `fold/` that changes the state (`run_state.py`) and a line in `fold/dispatch.py`.
Policy: `decision.py` has the order of the steps; `budgets.py`, `waiting.py` and
`approval_rules.py` the rules that it asks; `endings.py` how a run ends.
Protocols: `agent_ports.py` for agents, people and observers; `ports.py` for checks.
Evidence: `observation.py`, `freshness.py` and `evidence_index.py`; that of a saved chat
is built by `chat_trail.py` and `trail_builder.py`.
Command lines: `shell_lines.py`, `shell_programs.py` and `runner_calls.py`; a test
runner or a wrapper is a row of `tools.py`.
"""

VERSION = "0.1.0"
