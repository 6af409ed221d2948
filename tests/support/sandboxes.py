"""A real sandbox over a workspace, for the tests that break out of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goalrunner.core.ports import Completion
from goalrunner.system.bubblewrap import choose
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import SandboxedLauncher, SandboxPolicy, WritableRoot
from goalrunner.system.sandbox_environment import sandbox_environment, visible_paths
from goalrunner.system.sandbox_view import Confinement

CHOICE = choose(os.environ, ())
needs_sandbox = pytest.mark.skipif(
    CHOICE.sandbox is None, reason=f"no sandbox here: {CHOICE.why}; {CHOICE.remedy}"
)
"""Says aloud that escapes were not tried."""


@dataclass
class SandboxedWorkspace:
    """A workspace, a home of goal with a secret in it, a home of the user with a login, and commands in a sandbox."""

    root: Path
    network: bool = True
    user: Path = field(init=False)
    workspace: Path = field(init=False)
    home: Path = field(init=False)
    output: Path = field(init=False)

    def __post_init__(self) -> None:
        self.workspace, self.home, self.user = (
            self.root / "ws",
            self.root / "goal-home",
            self.root / "user",
        )
        self.output = self.root / "output"
        for folder in (self.workspace, self.home / "runs" / "r1", self.user / ".ssh"):
            folder.mkdir(parents=True)
        (self.home / "runs" / "r1" / "events.jsonl").write_text("the log\n")
        (self.user / ".ssh" / "id_ed25519").write_text("the private key\n")
        (self.user / ".gitconfig").write_text(
            "[user]\nname = Ada\nemail = ada@example.org\n"
        )

    @property
    def policy(self) -> SandboxPolicy:
        """Over what is there now."""
        assert CHOICE.sandbox is not None
        within = Confinement(
            hidden=(self.home, self.user / ".ssh"),
            readable=(*visible_paths(self.env), self.user),
            network=self.network,
        )
        return SandboxPolicy(
            CHOICE.sandbox, (WritableRoot(self.workspace, self.home / "tmp"),), within
        )

    @property
    def env(self) -> dict[str, str]:
        """What commands get."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.user),
            "SSH_AUTH_SOCK": "/tmp/agent.1",
        }
        return sandbox_environment(environ)

    async def __call__(
        self, line: str, *, timeout: float | None = 30, shared: tuple[Path, ...] = ()
    ) -> Completion:
        """Run a command line in the sandbox, in the workspace."""
        return await self.launch(
            ["/bin/sh", "-c", line], timeout=timeout, shared=shared
        )

    async def launch(
        self,
        argv: list[str],
        *,
        timeout: float | None = 30,
        shared: tuple[Path, ...] = (),
        cwd: Path | None = None,
    ) -> Completion:
        """Run a command in the sandbox."""
        return await SandboxedLauncher(ProcessLauncher(), self.policy).launch(
            argv,
            cwd=cwd or self.workspace,
            env=self.env,
            output=self.output,
            timeout=timeout,
            shared=shared,
        )

    @property
    def said(self) -> str:
        """What the last command printed."""
        return self.output.read_text()
