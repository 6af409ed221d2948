"""From a goal to a run: everything between a caller and the loop of the engine.

Resolving: `resolve.py` makes one `RunConfig` of a goal and its options; what must hold
before a run is a finding in `readiness.py`, with its check in `preflight.py`,
`agent_findings.py`, `sandbox.py` or `goal_models.py`.
Running: `build.py` opens a run, `parts.py` makes what the engine drives, `resuming.py`
opens a run again, `session.py` drives one to its end; `checker.py` and
`environment_runs.py` check a round.
Calling: the public functions are in `library.py` and `controller.py`; a new keyword of
them goes into `run_options.py`.
Finished runs: `previous_run.py` reads one, `run_snapshots.py` has its changes,
`pruning.py` removes old ones, `retention.py` decides which when a run begins or ends,
`verification.py` checks the records of one, and
`decisions.py` records what a person decides about one; `promotion.py` takes a fact from
one into `memory.py`.
New goals: a kind of project goes into `project.py`, a line of the goal file into
`proposal.py`.
"""
