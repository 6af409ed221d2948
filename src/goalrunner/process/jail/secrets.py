"""Where people keep keys and logins. Owns the list of what a confined command never sees; reads none of it.

Keys in the environment are withheld by `process.environment`; here are those in files, and the sockets of who holds keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_IN_HOME = """
    .ssh .gnupg .password-store .local/share/keyrings .docker/run .config/goal
    .claude .claude.json .codex .gemini .qwen .openhands .config/opencode .local/share/opencode .config/github-copilot
    .aider.conf.yml .config/io.datasette.llm .config/litellm
    .cache/huggingface/token .huggingface .netrc .git-credentials .config/git/credentials .config/gh .pypirc
    .cargo/credentials .cargo/credentials.toml .config/gcloud .azure .aws/sso
""".split()  # noqa: SIM905 - a table, to be read
"""Private keys, logins of coding agents, tokens of models and registries. What a build needs of them is given by name."""


def hidden_in(home: Path, more: Iterable[str] = ()) -> tuple[Path, ...]:
    """Those that are there, and `more` names below `home`, without links."""
    paths = (Path(os.path.realpath(home / name)) for name in dict.fromkeys((*_IN_HOME, *more)))
    return tuple(path for path in paths if path.exists() and path != home)
