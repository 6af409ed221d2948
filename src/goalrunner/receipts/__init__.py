"""Receipts: a statement about a change of any author, and what verified it.

A change is verified as the work of an agent is: `change_run` runs the goal in a copy of
the repository, in which the agent's turn is the change itself. `revisions` finds base
and head, and `comparison` compares single tests on four sides. `statement` is the
document, which `predicate` fills from a run, `signing` signs and `verification` checks.
`pages` shows it in each form; a new form goes there. `commands` has what the command
line offers.
"""
