"""From a goal to a run: resolving, running, resuming, and the functions of the library."""
