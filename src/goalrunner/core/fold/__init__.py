"""The fold: how each event changes the state of a run.

`apply` in `dispatch.py` calls one function for each event. The function for a new event
stands in the module of its topic: `start_and_end`, `resuming`, `failures`, `usage`,
`turn`, `checks`, `check_reviews` or `person`. `rounds.py` counts a round that is
decided.
"""

from goalrunner.core.fold.dispatch import apply as apply
