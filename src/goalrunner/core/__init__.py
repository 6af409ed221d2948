"""Goal, events, state and rules of the loop, and the Protocols of its parts.

Pure: no input or output.
"""

VERSION = "0.1.0"
