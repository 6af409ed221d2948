"""The command line: one module per command. A command parses options, calls `app` and prints with `reports`."""
