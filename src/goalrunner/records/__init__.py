"""The records of runs.

`run_records` opens those of one run, in its folder or, with `memory_records`, in
memory. `event_log`, `transcript_file`, `artifacts` and `decision_files` are the files
of a run, `run_folder` its folder, `run_search` finds one and `run_summaries` lists
them. `files`,
`writer_lock` and `removal` are what they are built on. `redaction` replaces secrets in
everything that is written: a new kind of token is a row in `secret_formats`, a new
spelling of a value goes into `secret_values`.
"""
