"""Validators: checks that the runner runs. A check that cannot run is red."""
