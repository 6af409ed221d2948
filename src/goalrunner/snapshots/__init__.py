"""Snapshots of a workspace in a private git store: taking, comparing, restoring.

`store.py` takes and restores them, `reader.py` reads and compares them; `index.py` is
the store's git index, and `look.py` tells without git that nothing changed. What is
stored of a path is in `files.py`, what git ignores in `ignore_rules.py`. Calls of git
go through `git.py`. A new question to the user's repository goes into
`repositories.py`, a new operation on the folder of a store into `store_folder.py`.
"""
