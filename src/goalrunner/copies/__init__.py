"""Copies of a workspace: a run works in one beside the person, and its verified result
is applied.

`live_tree` lists the files of a workspace, `frozen_base` mirrors them, `run_copy` is
the folder of one copy, `entering` starts a command inside of it, `inside` is for the
process that runs there, and `commands` has what the command line offers.

To bring results together, `merging` makes a merged tree out of snapshots,
`merged_check` runs validators on it, and `committing` commits it, in the form that
`conversions` gives to files; each can be called alone. `applying` joins them for one
run and its workspace, and writes there.
"""

INSIDE = "_GOAL_COPY"
"""The variable with the folder of the copy that this process is in."""
