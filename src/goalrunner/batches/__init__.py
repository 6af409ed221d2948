"""Many goals at once: a batch runs each of them in a copy, several at a time, with one
budget. Several runs of one goal are a batch as well.

`plan` is what was submitted, `batch_folder` holds it on disk, `history` is what has
happened since, `scheduler` starts the runs, and `worker` is the process of one.

Verified changes come onto one branch: `integration_rules` says which and in which
order, `integration` decides and records, `repository_integration` checks and moves the
branch of one repository (`batch_branch`), and `batch_run` makes the commits of a run.

`names` has what `goal list` needs, without pydantic. A batch is shown by `rows` (what
each entry does), `table` and `lines` (the text), `displays` and `live_table` (while it
is driven), `values` (JSON), and `pages` (JUnit and HTML). A new form of it uses `rows`.
"""
