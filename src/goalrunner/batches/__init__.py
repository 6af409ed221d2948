"""Many goals at once: a batch runs each of them in a copy, several at a time, with one
budget. Several runs of one goal are a batch as well.

`submission` reads goal files, folders, and tables with `templates`. `plan` is what was
submitted, `batch_folder` holds it on disk, and `history` is what has happened since.
`scheduling` has the rules of what comes next, as pure functions; a new rule goes there.
`scheduler` carries them out with `run_process`; `worker` is the process of one run.
`shared_budget` and `shared_pauses` are what the runs learn from each other.

Verified changes come onto one branch: `integration_rules` says which and in which
order, `integration` decides and records, `repository_integration` checks and moves the
branch of one repository (`batch_branch`), and `batch_run` makes the commits of a run.

`names` has what commands that start fast need, without pydantic. `rows` says what each
entry does; `run_figures` reads the figures of its run. A batch is shown by `table` and
`lines` (the text), `displays` and `live_table` (while it is driven or watched),
`values` (JSON), and `pages` (JUnit and HTML). A new form of it uses `rows`.

Commands: `commands` (`goal batch`), `group_command` (`goal run --best-of`),
`integration_command` (`goal apply`), `listing` (status and list), `watching`, and
`cancelling`. `library` has the functions for programs.
"""
