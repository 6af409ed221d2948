"""`python -m goalrunner` is `goal`."""

from __future__ import annotations

from goalrunner.cli.main import program

if __name__ == "__main__":
    program()
