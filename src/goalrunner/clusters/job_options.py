"""The options of `goal export` about jobs, without what makes the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from goalrunner.cli.options import COUNT, Text, Texts, flag, option
from goalrunner.core.errors import UsageError, some

JobImage = Annotated[
    Text,
    option("IMAGE", "For Kubernetes: the image, with goal and the project's tools."),
]
JobSecrets = Annotated[
    Texts,
    option(
        "NAME",
        "For Kubernetes: a secret whose keys become variables; may be repeated.",
    ),
]
JobVolume = Annotated[
    Text,
    option(
        "NAME",
        "For Kubernetes: the PersistentVolumeClaim of the runs; default: a new one.",
    ),
]
JobResources = Annotated[
    Text,
    option(
        "LIST",
        "What each job gets: cpu=2,memory=4Gi,gpu=1; default: cpu=2,memory=4Gi.",
    ),
]
JobsAtOnce = Annotated[
    int | None,
    option("N", "The most jobs at the same time; default: 4.", parser=COUNT),
]
JobRepository = Annotated[
    Text,
    option("URL", "The repository that the jobs clone; default: the remote origin."),
]
JobName = Annotated[
    Text,
    option("NAME", "The name of the jobs; the ids of their runs begin with it."),
]
FleetWorkers = Annotated[
    bool,
    flag("--fleet", "With --kubernetes: write workers of a fleet, not goals."),
]


@dataclass(frozen=True)
class JobOptions:
    """The options of `goal export` about jobs; None or empty: not given."""

    image: str | None = None
    repository: str | None = None
    name: str | None = None
    secret: Sequence[str] | None = None
    claim: str | None = None
    resources: str | None = None
    jobs: int | None = None
    fleet: bool = False
    """Workers of a fleet instead of a job for each goal."""

    def refuse_any_but(self, allowed: Sequence[str], system: str) -> None:
        """Raise UsageError for an option that has no use for this system."""
        useless: list[str] = []
        for field in fields(self):
            if getattr(self, field.name) and field.name not in allowed:
                useless.append(f"--{field.name}")
        if useless:
            raise UsageError(f"{some(useless)}: not used by {system}", "remove it")
