"""The tools of the built-in agent, one file each. They act in the workspace; they record nothing."""
