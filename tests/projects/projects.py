"""All measured projects."""

from __future__ import annotations

from tests.projects.published import PUBLISHED
from tests.projects.small import SMALL

PROJECTS = (*PUBLISHED, *SMALL)
