"""The files of each system, made from a list of tasks."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from goalrunner.clusters.tasks import TaskList, refuse_name
from goalrunner.core.errors import UsageError, quoted
from goalrunner.exports.templates import rendered
from goalrunner.records.event_log import encode

_HERE = Path(__file__).parent
_SCRIPT = (_HERE / "task.sh").read_text("utf-8").rstrip()
_RETRIES = 3
"""How often Kubernetes starts a task again whose run failed."""
_MOST_JOBS_OF_MATRIX = 256
"""The limit of GitHub Actions for one matrix."""
_AMOUNTS = {
    "cpu": re.compile(r"[1-9]\d*"),
    "memory": re.compile(r"[1-9]\d*[MG]i"),
    "gpu": re.compile(r"[1-9]\d*"),
}
"""What a task can ask for, and the form of each amount."""


@dataclass(frozen=True)
class Resources:
    """What one task gets of its machine."""

    cpu: int = 2
    """Cores."""
    memory: str = "4Gi"
    """Mebibytes or gibibytes: 512Mi, 4Gi."""
    gpu: int = 0

    @classmethod
    def of(cls, text: str) -> Resources:
        """Return the resources of `cpu=2,memory=4Gi,gpu=1`. Raise UsageError."""
        amounts: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            name, _, amount = part.partition("=")
            form = _AMOUNTS.get(name)
            if form is None or form.fullmatch(amount) is None:
                raise UsageError(
                    f"--resources: {quoted(part)} is not valid",
                    "write --resources cpu=2,memory=4Gi,gpu=1",
                )
            amounts[name] = amount
        return cls(
            int(amounts.get("cpu", cls.cpu)),
            amounts.get("memory", cls.memory),
            int(amounts.get("gpu", cls.gpu)),
        )

    @property
    def in_kubernetes(self) -> dict[str, str]:
        """The names and amounts of Kubernetes."""
        amounts = {"cpu": str(self.cpu), "memory": self.memory}
        if self.gpu:
            amounts["nvidia.com/gpu"] = str(self.gpu)
        return amounts

    @property
    def memory_in_slurm(self) -> str:
        """The memory as Slurm writes it: 4G."""
        return self.memory.removesuffix("i")


@dataclass(frozen=True)
class JobSettings:
    """How the tasks of a job are run."""

    jobs: int
    """The most tasks at the same time."""
    resources: Resources
    image: str | None = None
    """The container image, with `goal`, git, and what the project needs."""
    secrets: tuple[str, ...] = ()
    """Names of secrets of Kubernetes whose keys become variables."""
    claim: str | None = None
    """The volume claim for runs and workspaces; None: the manifest makes one."""


def _refuse_no_repository(task_list: TaskList) -> None:
    if not task_list.repository:
        raise UsageError(
            "the repository has no remote named origin that the tasks can clone",
            "name the URL: --repository https://...",
        )


def _refuse_no_image(settings: JobSettings) -> None:
    if settings.image is None:
        raise UsageError(
            "a job of Kubernetes needs a container image",
            "--image IMAGE: an image with goal, git, the agent, "
            "and what the validators need",
        )


def kubernetes_workers(name: str, settings: JobSettings) -> str:
    """Return a Deployment of workers of a fleet, as YAML. Raise UsageError."""
    refuse_name(name)
    _refuse_no_image(settings)
    template = _HERE / "workers.yaml.j2"
    return rendered(template, name=name, settings=settings)


def kubernetes(task_list: TaskList, settings: JobSettings) -> str:
    """Return an Indexed Job with its ConfigMap, as YAML. Raise UsageError."""
    _refuse_no_image(settings)
    _refuse_no_repository(task_list)
    return rendered(
        _HERE / "kubernetes.yaml.j2",
        list=task_list,
        settings=settings,
        script=_SCRIPT,
        retries=_RETRIES,
    )


def slurm(task_list: TaskList, settings: JobSettings) -> str:
    """Return a batch script for an array of jobs. Raise UsageError."""
    _refuse_no_repository(task_list)
    return rendered(
        _HERE / "slurm.sh.j2",
        {"shell": shlex.quote},
        list=task_list,
        settings=settings,
        script=_SCRIPT,
    )


def github_matrix(task_list: TaskList) -> str:
    """Return the matrix of a job of GitHub Actions, as one line of JSON.

    Raise UsageError if there are more goals than a matrix may have.
    """
    count = len(task_list.tasks)
    if count > _MOST_JOBS_OF_MATRIX:
        raise UsageError(
            f"{count} goals are too many: a matrix of GitHub Actions has up to "
            f"{_MOST_JOBS_OF_MATRIX} jobs",
            "make a workflow for each folder of goals",
        )
    jobs = [{"id": task.run_id, "goal": task.goal_file} for task in task_list.tasks]
    return encode({"include": jobs}).decode() + "\n"
