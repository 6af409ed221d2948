"""The goal file: TOML, options and environment become a checked `Goal`.

No process is started and no model is called. `LLM_BASE_URL` and `LLM_API_KEY` are read by `goalrunner.llm`, not here.
"""
