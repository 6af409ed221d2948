"""A run for use elsewhere: `goal export`, `goal report` and files of results.

`commands` has the commands and `result_files` the options that write files at the end
of a run. Each other module is one form: `change` (patch and branch), `markdown`,
`html`, `junit` and `annotations`. A new form is a module with a function that returns
text, and an option in `result_files` or a flag in `commands`.
"""
