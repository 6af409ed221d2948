"""The command line. A command parses options, calls `app` and prints with `reports`.

`main` is the process and its error boundary, `app` the table of commands. One module
has the commands of one topic: `run`, `init`, `show`, `changes`, `approvals`, `manage`,
`status`. They share `options`, `output`, `dialog`, `runs` and `goals`. A new command is
a function in such a module, and an entry in `GROUPS` of `app`. Imports that take long
stand in the functions that need them.
"""
