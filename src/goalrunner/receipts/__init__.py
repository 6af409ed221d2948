"""Receipts: a statement about a change of any author, and what verified it.

A change is verified as the work of an agent is: `change_run` runs the goal in a copy of
the repository, in which the agent's turn is the change itself. `revisions` finds base
and head, `comparison` compares single tests on four sides, `statement` is the document,
`signing` signs it, `pages` shows it, and `commands` has what the command line offers.
"""
