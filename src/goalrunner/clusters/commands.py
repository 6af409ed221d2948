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
    slurm,
)
from goalrunner.clusters.tasks import task_list
from goalrunner.goalfile.place import DEFAULT

_DEFAULT_JOBS = 4


_OPTIONS_OF = {
    "--kubernetes": tuple(field.name for field in fields(JobOptions)),
    "--slurm": ("repository", "name", "resources", "jobs"),
    "--github-matrix": ("name",),
}


def export_jobs(
    goals: Sequence[str], system: str, options: JobOptions, file: Path | None
) -> None:
    """Write goals as jobs of a system: `--kubernetes`, `--slurm`, `--github-matrix`.

    The text goes to the file, or to stdout. Raise GoalError.
    """
    options.refuse_any_but(_OPTIONS_OF[system], system)
    paths = [Path(goal) for goal in goals or (DEFAULT,)]
    tasks = task_list(paths, options.repository, options.name)
    settings = JobSettings(
        jobs=options.jobs or _DEFAULT_JOBS,
        resources=Resources.of(options.resources or ""),
        image=options.image,
        secrets=tuple(options.secret or ()),
        claim=options.claim,
    )
    if system == "--kubernetes":
        text = kubernetes(tasks, settings)
    elif system == "--slurm":
        text = slurm(tasks, settings)
    else:
        text = github_matrix(tasks)
    # A workflow of GitHub checks the commit out that it runs on.
    if system != "--github-matrix":
        for note in tasks.notes:
            output.complain(f"Warning: {note}")
    if file is None:
        output.say(text)
    else:
        ResultFile(file).write(text)
