"""`python -m goalrunner` is `goal`."""

from __future__ import annotations

import sys

from goalrunner.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
