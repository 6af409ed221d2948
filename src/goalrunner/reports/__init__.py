"""The output about runs, for people and programs. Nothing here changes a run.

Text: `terminal_text.py` measures and cuts it, `figures.py` has numbers and times,
`short_forms.py` paths and names, `ci_log.py` what CI systems must not read as commands.
Lines: `layout.py` defines the lines of a report and puts them into columns. The row of
an event goes into `event_lines.py`, that of a running step into `steps.py`.
A run: `run_header.py` has its first lines, `narrative.py` those of its events,
`closing.py` the last ones; `progress.py` prints them, `live.py` redraws a terminal.
Commands: a new one gets a module named for what it shows, such as `show.py` or
`run_table.py`; it returns lines or text, and the command prints them.
"""
