"""The goal file: TOML, options and environment become a checked `Goal`.

Starts nothing and asks no model. `LLM_BASE_URL` and `LLM_API_KEY` are not read here; they belong to the model calls.
"""
