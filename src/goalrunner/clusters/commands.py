"""`goal export --kubernetes`, `--slurm` and `--github-matrix`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from goalrunner.cli import output
from goalrunner.cli.result_file import ResultFile
from goalrunner.clusters.job_options import JobOptions
from goalrunner.clusters.manifests import (
    JobSettings,
    Resources,
    github_matrix,
    kubernetes,
    kubernetes_workers,
    slurm,
)
from goalrunner.clusters.tasks import task_list
from goalrunner.core.errors import UsageError
from goalrunner.goalfile.place import DEFAULT

_DEFAULT_JOBS = 4
_WORKERS = "goal-fleet"
"""The name of the workers, and of the secret with the URL of their database."""

_OPTIONS_OF = {
    "--kubernetes": tuple(field.name for field in fields(JobOptions)),
    "--slurm": ("repository", "name", "resources", "jobs"),
    # The workflow chooses machines, and how many jobs run at the same time.
    "--github-matrix": ("name",),
}
"""The options about jobs that each system uses."""
_OPTIONS_OF_WORKERS = ("fleet", "image", "name", "secret", "resources", "jobs")


def export_jobs(
    goals: Sequence[str], system: str, options: JobOptions, file: Path | None
) -> None:
    """Write goals as jobs of a system: `--kubernetes`, `--slurm`, `--github-matrix`.

    With `--fleet`, workers are written instead. The text goes to the file, or to
    stdout. Raise GoalError.
    """
    options.refuse_any_but(_OPTIONS_OF[system], system)
    settings = JobSettings(
        jobs=options.jobs or _DEFAULT_JOBS,
        resources=Resources.of(options.resources or ""),
        image=options.image,
        secrets=tuple(options.secret or ()),
        claim=options.claim,
    )
    if options.fleet:
        text = _workers(goals, options, settings)
    else:
        text = _jobs(goals, system, options, settings)
    if file is None:
        output.say(text)
    else:
        ResultFile(file).write(text)


def _workers(goals: Sequence[str], options: JobOptions, settings: JobSettings) -> str:
    """Return workers of a fleet as YAML. Raise UsageError if goals are named."""
    options.refuse_any_but(_OPTIONS_OF_WORKERS, "--fleet")
    if goals:
        raise UsageError(
            f"--fleet writes workers, and no goals such as {goals[0]}",
            "remove the goals, and queue them: goal fleet submit GOALS",
        )
    return kubernetes_workers(options.name or _WORKERS, settings)


def _jobs(
    goals: Sequence[str], system: str, options: JobOptions, settings: JobSettings
) -> str:
    """Return goals as jobs, and print notes about them as warnings."""
    paths = [Path(goal) for goal in goals or (DEFAULT,)]
    tasks = task_list(paths, options.repository, options.name)
    # A workflow of GitHub checks the commit out that it runs on.
    if system != "--github-matrix":
        for note in tasks.notes:
            output.complain(f"Warning: {note}")
    if system == "--kubernetes":
        return kubernetes(tasks, settings)
    if system == "--slurm":
        return slurm(tasks, settings)
    return github_matrix(tasks)
