"""What a sandbox costs a command."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from goalrunner.core.ports import Launcher
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import SandboxedLauncher
from tests.bench.measuring import hold, pairs
from tests.support.sandboxes import SandboxedWorkspace, needs_sandbox

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300), needs_sandbox]


def test_a_command_in_the_sandbox_costs_some_milliseconds(tmp_path: Path) -> None:
    place, bare = SandboxedWorkspace(tmp_path), ProcessLauncher()
    sandboxed = SandboxedLauncher(bare, place.policy)
    with asyncio.Runner() as runner:

        def milliseconds(launcher: Launcher) -> float:
            began = time.perf_counter()
            done = runner.run(
                launcher.launch(
                    ["/bin/sh", "-c", "true"],
                    cwd=place.workspace,
                    env=dict(os.environ),
                    output=place.output,
                )
            )
            assert done.exit_code == 0
            return 1000 * (time.perf_counter() - began)

        measured = pairs(
            lambda: milliseconds(sandboxed), lambda: milliseconds(bare), 100
        )
    bare.close()
    hold("a command in the sandbox / the same one bare", measured, "ms")
