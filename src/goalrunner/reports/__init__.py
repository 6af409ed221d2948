"""What people and machines read of a run: progress, status, listing, outcome. Nothing here drives or changes one."""
