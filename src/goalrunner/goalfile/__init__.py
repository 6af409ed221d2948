"""The goal file: TOML, options and environment become a checked `Goal`.

No process is started and no model is called. `LLM_BASE_URL` and `LLM_API_KEY` are read
by `goalrunner.llm`, not here. `toml_text` reads TOML with positions, `layers` puts
file, environment and options together, `loading` makes the goal, and `dumping` writes
it. A new key is a field in `core.goal` or `core.goal_tables`; a check of one value is
there as well. A check of keys together: `agent_checks`, or `_check_complete` in
`loading`. Messages for values that the model rejects are in `invalid_values`.
"""
