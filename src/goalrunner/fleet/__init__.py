"""A fleet: goals on many machines, with a queue in PostgreSQL.

`database` opens and migrates the database, `intents` writes the log of a run there
before each effect, and `runs` says which worker has which run.
"""
