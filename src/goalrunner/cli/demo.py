"""`goal demo`: an example in a temporary folder, whose models' replies are recorded."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from goalrunner.cli import options, output, runs
from goalrunner.cli.run import run
from goalrunner.records.run_search import newest_run


def demo(json: options.OutcomeJson = False, quiet: options.Quiet = False) -> int:
    """Run an example goal in a new temporary folder; needs no key.

    The models' replies are recorded. Everything else really runs: the tools, the
    validator, the check environment, and the checks of the judge's citations. The
    folder is kept, so that you can look at the goal file and at what has changed.
    """
    # An example in the current folder would change the user's own project.
    folder = Path(tempfile.mkdtemp(prefix="goal-demo-")).resolve()
    for file in (Path(__file__).parents[1] / "quickstart").iterdir():
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    # Variables would replace the recorded models.
    for name in ("GOAL_AGENT", "GOAL_MODEL", "GOAL_JUDGE"):
        os.environ.pop(name, None)
    # The Python that runs `goal` also runs the tests of the demo, even if no other is
    # installed.
    path = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    code = run(str(folder / "goal.toml"), json=json, quiet=quiet)
    if code == 0 and not (json or quiet):
        output.say(_next_steps(folder, newest_run(runs.home(), folder).run_id))
    return code


def _next_steps(folder: Path, run_id: str) -> str:
    """Return the commands that come after the demo, as they can be typed here."""
    source = _source_of_uvx()
    command = f"uvx --from {shlex.quote(source)} goal" if source else "goal"
    steps = {
        f"{command} show {run_id}": "the run, round by round",
        f"{command} diff {run_id}": "what the agent changed",
        f"{command} init": "a goal file for your own project, in its folder",
    }
    if source:
        install = f"uv tool install {shlex.quote(source)}"
        steps[install] = "installs goal, so that `goal` alone is enough"
    width = max(map(len, steps))
    lines = [f"{step:{width}}   {text}" for step, text in steps.items()]
    return "\n".join(["", f"The goal file is {folder}/goal.toml. Next:", *lines, ""])


def _source_of_uvx() -> str:
    """Return the package of the `uvx` that runs this process.

    It is empty without uvx, and if `goal` itself is on the PATH.
    """
    import importlib.metadata
    import json

    # uvx adds the folder of its own environment to the PATH.
    uvx_folder = str(Path(sys.executable).parent)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if folder != uvx_folder)
    is_in_venv = os.environ.get("VIRTUAL_ENV") == sys.prefix
    if "UV" not in os.environ or is_in_venv or shutil.which("goal", path=path):
        return ""
    package = importlib.metadata.distribution("goalrunner")
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    url = str(origin.get("url", package.name))
    # pip records the origin in this form: PEP 610.
    if "vcs_info" in origin:
        return f"{origin['vcs_info']['vcs']}+{url}"
    return unquote(url).removeprefix("file://")
