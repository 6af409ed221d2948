"""Copies of a workspace: a run works in one beside the person, and its verified result
is applied.

`live_tree` lists the files of a workspace, `frozen_base` mirrors them, `run_copy` is
the folder of one copy, `entering` starts a command inside of it, `applying` merges its
result, and `commands` has what the command line offers.
"""

INSIDE = "_GOAL_COPY"
"""The variable with the folder of the copy that this process is in."""
