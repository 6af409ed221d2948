"""Running the validators once in an environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from goalrunner.app.resolve import RunConfig
from goalrunner.checking.base_results import BaseResults
from goalrunner.checking.environment import CheckEnvironment, Layer, OpenEnvironment
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.core.freshness import SUITE_REPORTS
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.ports import Launcher, ValidationContext, Validator
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.flakiness import Flakiness, flaky_red
from goalrunner.engine.validator_results import Answer, Results
from goalrunner.engine.validator_runs import is_hidden, run_validators
from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.validators.environment_faults import without_space
from goalrunner.validators.shell_validator import build_validators

Stage = Literal["visible", "hidden"]
"""Which validators run."""


class EnvironmentRuns:
    """Runs the validators of a goal, and remembers the results to detect flaky ones."""

    def __init__(
        self,
        config: RunConfig,
        specs: Sequence[ValidatorSpec],
        base: BaseResults,
        launcher: Callable[[OpenEnvironment], Launcher],
        in_snapshot: Callable[[str], bool],
    ) -> None:
        """Use `launcher` to start commands in an environment.

        `in_snapshot` returns whether the checked snapshot contains a path.
        """
        self.flakiness = Flakiness()
        self.callables = config.options.validators
        # A callable of the program may be hidden as well.
        has_hidden_command = any(spec.hidden for spec in specs)
        self.conceals = has_hidden_command or any(map(is_hidden, self.callables))
        """Whether there are hidden validators."""
        self.final = frozenset(spec.name for spec in specs if spec.retries == 0)
        """Validators whose first result counts, even if it contradicts another."""
        self._specs = specs
        self._env = config.command_environ
        self._goal_folder = config.options.goal_folder
        self._outputs = config.goal.workspace.outputs
        self._expected = Patterns((*CACHES, *self._outputs))
        self._base = base
        self._launcher = launcher
        self._in_snapshot = in_snapshot

    async def run(
        self,
        environment: CheckEnvironment,
        layers: Sequence[Layer],
        context: ValidationContext,
        stages: Sequence[Stage],
        where: str = "",
    ) -> Results:
        """Run the validators of each stage, visible ones before hidden ones.

        Hidden ones run only if the visible ones are green. `where` names the side. If a
        result contradicts an earlier one of the same side and content, a third run
        decides. Without `where`, results are not compared.
        """
        total = Results(())
        for stage in stages:
            is_hidden_stage = stage == "hidden"
            if is_hidden_stage and total.answers and not total.green:
                break
            # Each stage has a new environment, so files that visible validators write
            # cannot affect hidden ones.
            async with environment.open(layers) as opened:
                validators = self._validators(opened, context, hidden=is_hidden_stage)
                inside = replace(context, workspace=opened.path)
                total += await self._run_stage(opened, validators, inside, where)
        return total

    def _validators(
        self, opened: OpenEnvironment, context: ValidationContext, *, hidden: bool
    ) -> list[Validator]:
        specs, callables = self._specs, self.callables
        if context.iteration == 0:
            # There is no response yet, which callables check.
            specs = [spec for spec in specs if spec.run is not None]
            callables = ()
        from_goal = build_validators(
            specs,
            self._launcher(opened),
            opened.environ(self._env),
            self._base.results,
            self._goal_folder,
        )
        return [item for item in (*from_goal, *callables) if is_hidden(item) is hidden]

    async def _run_stage(
        self,
        opened: OpenEnvironment,
        validators: Sequence[Validator],
        context: ValidationContext,
        where: str,
    ) -> Results:
        answers = await run_validators(validators, context)
        ran = Results(tuple(answers))
        if where:
            ran = await self._decide(answers, validators, context, where)
        if not ran.green:
            self._refuse_full(opened, ran.results)
        # Outputs of red checks are delivered as well: a report shows what failed.
        if self._outputs:
            await opened.collect(self._outputs)
        if not ran.green:
            # Red results count whatever the validators wrote.
            return ran
        changed = await opened.changed()
        return replace(
            ran,
            changed=self._changed_files(changed),
            written=self._written_files(await opened.wrote()),
        )

    def _changed_files(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the paths of the snapshot but for caches, outputs and test reports."""
        files: list[str] = []
        for path in paths:
            is_expected = SUITE_REPORTS.fullmatch(path) or self._expected.match(path)
            if not is_expected and self._in_snapshot(_printable(path)):
                files.append(path)
        return tuple(files)

    def _written_files(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the paths for people, without caches and outputs."""
        return tuple(
            _printable(path) for path in paths if not self._expected.match(path)
        )

    def _refuse_full(
        self, opened: OpenEnvironment, results: Sequence[ValidatorResult]
    ) -> None:
        """Raise EnvironmentFailed if validators are red because a disk is full."""
        temporary = Path(self._env.get("TMPDIR") or "/tmp")  # noqa: S108
        # A full disk is no fault of the agent, and would make the next round red again.
        full_place = opened.full() or without_space(results, temporary)
        if full_place:
            raise EnvironmentFailed(
                f"the check environment is full: {full_place}",
                "free some space; then goal resume",
            )

    async def _decide(
        self,
        answers: Sequence[Answer],
        validators: Sequence[Validator],
        context: ValidationContext,
        where: str,
    ) -> Results:
        """Let a third run decide where two results on one content differ."""
        decided: list[Answer] = []
        flaky: list[str] = []
        for result, output in answers:
            earlier = self.flakiness.contradicted(result, where)
            # `retries = 0` is written for a validator that must not be flaky.
            if earlier and result.name in self.final:
                answer = (flaky_red(result, earlier), output)
            elif earlier:
                flaky.append(result.name)
                answer = await _third_run(result.name, validators, context, earlier)
            else:
                answer = (result, output)
            decided.append(answer)
            # The next result on this content is compared with the one that counted.
            self.flakiness.note(answer[0], where)
        return Results(tuple(decided), tuple(flaky))


async def _third_run(
    name: str,
    validators: Sequence[Validator],
    context: ValidationContext,
    earlier: str,
) -> Answer:
    """Run a validator once more; return its result, labelled as flaky.

    `earlier` says when it had the opposite result.
    """
    # It runs in the same environment, with the files that the second run left there.
    flaky_one = [validator for validator in validators if validator.name == name]
    [(result, output)] = await run_validators(flaky_one, context)
    summary = f"{result.summary} (flaky: a third run decided; see {earlier})"
    return result.model_copy(update={"summary": summary}), output


def _printable(path: str) -> str:
    return printable_path(os.fsencode(path))
