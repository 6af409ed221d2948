"""A fleet: goals on many machines, with a queue in PostgreSQL and files in a store.

Where a goal is submitted: `submission` makes the rows of runs, and `sources` packs
their workspaces. On each machine: `worker` takes runs, and starts a `run_process` for
each, which works in a `run_place` and stores its folder with `shipping`.

In the database: `database` opens and migrates it, `runs` says which worker has which
run, `intents` writes the log of a run before each effect, and `queue` delivers. In the
store: `store` has the files, of which `archives` are those of a run's folder.
"""

VARIABLE = "GOAL_FLEET"
"""The variable with the URL of the database."""
DEFAULT_QUEUE = "default"
LEASE = 30.0
"""Seconds without a sign of life after which the runs of a worker are taken over."""
