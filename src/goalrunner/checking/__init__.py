"""The check environment: the workspace as validators see it.

`protection.py` says what a changed path means, `sides.py` which sides of a check run
and what their results mean, `plan.py` what a side changes. `overlay.py` and
`in_place.py` are the two kinds of environments; a third one implements the Protocol in
`environment.py`. A new file name of tests goes into `start_files.py`, a new folder of
build output or packages into `ignored_classes.py`, a new mark that silences a checker
into `suppressions.py`; names that configure a program are in `core/tools.py`.
"""
