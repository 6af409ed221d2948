"""The output about runs, for people and programs: progress, status, lists, outcomes. Nothing here changes a run."""
