"""The state of one run: small and typed, without the transcript.

Only `fold.apply` makes new ones.

Names and values of GoalRecord and WorkingMemory are those of the Goals and State
pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from goalrunner.core.errors import RESUMED_THERE, titled
from goalrunner.core.events import (
    REVIEWED,
    Account,
    ChangedChecks,
    ChecksReviewed,
    Critique,
    FailureFacts,
    GoalRecord,
    RunEnded,
    RunRules,
    Standing,
    WaitFacts,
)
from goalrunner.core.field_types import Frozen
from goalrunner.core.observation import ArtifactRef, DiffStat, Snapshot
from goalrunner.core.outcome import (
    FINAL,
    ApprovalFacts,
    GoalAttempt,
    GoalStatus,
    StopReason,
    Usage,
)
from goalrunner.core.outcome import MemoryStop as MemoryStop
from goalrunner.core.verdict import GoalVerdict, UnreadAnswer, ValidatorResult

# The state is held in memory and written into reports, so it must stay small.
KEPT = 100
"""Maximum number of references and of attempts in a state; the log contains all of
them."""


class BudgetState(Frozen):
    """What has been spent, in the units of the pattern."""

    iteration_count: int = 0
    token_estimate: int | None = 0
    """Known tokens of agent and judge; None: unknown."""
    cost_cents: float | None = 0.0
    """US cents; None: some call had no known price."""
    deadline_at: str | None = None
    """ISO 8601, UTC; without waiting for a person."""


class WorkingMemory(Frozen):
    """Run-scoped operational state. (Source: WorkingMemoryState of Goals and State.)"""

    run_id: str
    goal_id: str
    current_step: str | None = None
    completed_steps: tuple[str, ...] = ()
    pending_steps: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    evidence_names: dict[str, str] = Field(default={})
    """Newest observation by name: {"order:O-104": "o7"}."""
    tool_result_refs: tuple[str, ...] = ()
    approval_refs: tuple[str, ...] = ()
    budget_state: BudgetState = BudgetState()
    step_evidence: dict[str, str] = Field(default={})
    """By completed step: its observation ("o7") or event ("e12")."""
    proposed_stop: str = ""
    """Why the agent says that it may stop; decides nothing."""
    stop_reason: MemoryStop | None = None
    version: int = 0
    """Place in the log of the last event that was applied."""


class Phase(StrEnum):
    """The phase of a round that the run has reached."""

    READY = "ready"
    BASELINED = "baselined"
    WORKING = "working"
    WORKED = "worked"
    VALIDATED = "validated"
    JUDGED = "judged"
    CONFIRMED = "confirmed"
    ENDED = "ended"


class BaselineOutcome(Frozen):
    """The status of the validators before round 1."""

    standing: Standing
    reason: str = ""
    results: tuple[ValidatorResult, ...] = ()
    age: float | None = None
    """Seconds since an earlier command ran the validators; None: the run ran them."""


class Stall(Frozen):
    """How many rounds in a row ended equally, or alternated between two endings.

    They are equal with the same snapshot, the same checks and the same feedback. The
    response counts as well if it is the deliverable or a callable checks it.
    """

    key: str = ""
    """Identifies how the last round ended."""
    before: str = ""
    """The key of the other ending, if rounds alternate between two."""
    rounds: int = 0
    actions: dict[str, int] = Field(default={})
    """How often the agent did what in these rounds: {"edited src/a.py": 4}."""
    idle: int = 0
    """In how many of these rounds the agent changed no file."""
    doing: dict[str, int] = Field(default={})
    """How often the agent did what in the round that is not counted yet."""
    is_idle: bool = False
    """Whether the agent changed no file in the round that is not counted yet."""


class Approval(ApprovalFacts):
    """An action or a result that waits, or waited, for a person."""

    tool_call_id: str = ""
    snapshot: str = ""
    preview: ArtifactRef | None = None
    decision: Literal["approved", "denied", "expired", "withdrawn"] | None = None
    """None: it waits."""
    used: bool = False
    """Whether the tool call has begun: it permits no other one."""
    told: bool = False
    """Whether the run ended with its denial and was resumed."""

    @property
    def titled(self) -> str:
        """The action with its kind in front: `shell: rm x`."""
        return titled(self.kind, self.action)

    @property
    def refused(self) -> bool:
        """Whether the action must not be performed."""
        return self.decision in ("denied", "expired")


class Failure(FailureFacts):
    """A failure of the agent, or of a model of the run; what follows is not decided."""

    at: str
    """When it failed (ISO 8601)."""
    number: int = 1
    """How often this account failed in this way in a row."""


class Waiting(WaitFacts):
    """A wait that has begun and is not over."""

    began: str
    """ISO 8601."""


class Interruption(Frozen):
    """What happened while the run was interrupted, for the agent's next prompt."""

    note: str = ""
    changed: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    """Calls of a round that was lost with its machine."""
    answers: tuple[tuple[str, str], ...] = ()
    """Question and answer."""


class RunState(Frozen):
    """The data for all decisions and for all reports.

    >>> from goalrunner import read_state, run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> state = read_state(run)
    >>> state.round, state.iterations
    (1, 1)
    """

    # The run and its parts, which stay the same from its start.
    goal: GoalRecord
    memory: WorkingMemory
    plan: RunRules
    goal_file: str = ""
    """Where the goal was read from; empty: from no file."""
    workspace: str = ""
    isolated: bool = False
    """Whether the agent works in a copy of the workspace."""
    clone: str = ""
    """The path of the copy; empty: it has the path of the workspace."""
    sandbox: str = "none"
    """The sandbox of every command of the run; none: not all had one."""
    check_environment: str = ""
    models: dict[str, str] = Field(default={})
    external: bool = False
    """Whether the agent is an external program."""
    agent_command: str = ""
    """An external agent and its command, for people."""
    handed: tuple[str, ...] = ()
    """Parts that only the calling program can provide."""
    notes: tuple[str, ...] = ()
    """Warnings before the first round."""
    base: Snapshot | None = None
    """The workspace at the start."""
    kept: dict[str, str] = Field(default={})
    """Files in the run's folder that describe the start, and their SHA-256."""
    baseline: BaselineOutcome | None = None

    # Where the run is.
    phase: Phase = Phase.READY
    round: int = 0
    """Rounds begun."""
    iterations: int = 0
    """Rounds decided."""
    counted: int = -1
    """The round that was counted last."""
    elapsed: float = 0.0
    """Seconds of active time."""
    resumes: int = 0
    """How often another process resumed the run."""
    status: GoalStatus = GoalStatus.RUNNING
    left: Phase = Phase.READY
    """The phase in which the run ended."""
    stop_reason: StopReason | None = None
    message: str = ""
    """Why it ended, for people."""
    signal: int | None = None
    ended_at: str = ""
    """ISO 8601, UTC; empty while it goes on."""

    # The agent's turn.
    prompted: bool = False
    """Whether the agent has the prompt of the round at hand."""
    calling: str | None = None
    """Id of the tool call that has begun and has no result."""
    awaiting: Account | None = None
    """The account whose model is being asked."""
    asking: bool = False
    """Whether the agent's turn waits for the answer to its question."""
    interruption: Interruption | None = None
    """For the agent's next prompt."""
    note_id: str = ""
    """Of the last note that a person gave to the agent."""
    outside: tuple[str, ...] = ()
    """The newest paths that changed while the run was interrupted."""
    block_report: str = ""
    """Why the agent says that it cannot go on, in the round at hand."""
    round_ended: bool = False
    """Whether the agent has ended a turn."""
    ending: str = ""
    """Why the agent's last turn ended early; empty: it did not."""
    lingering: tuple[str, ...] = ()
    """Processes that the agent left at the end of the last round."""
    response: str = ""
    """Hash of the last response, where it is the deliverable."""
    said: str = ""
    """Hash of the last response, where a callable checks it."""

    # What is observed and used.
    observations: int = 0
    """Observations numbered so far."""
    seen: str = ""
    """Id of the newest observation of the step at hand."""
    snapshot: Snapshot | None = None
    """The workspace as the last finished round left it."""
    content: str = ""
    """Id of the snapshot after the agent's last change."""
    changes: DiffStat | None = None
    """From the start to the end of the last round."""
    gone_or_reverted: tuple[str, ...] = ()
    """Paths whose uncommitted content of the start is gone or reverted at the end of
    the last round."""
    usage: dict[str, Usage] = Field(default={})
    """By account."""
    agent_usage: dict[str, Usage] = Field(default={})
    """Of a run with several agents: the usage by name."""
    last_call: dict[str, Usage] = Field(default={})
    """By account: its last answered call."""
    redacted: dict[str, int] = Field(default={})
    """Secrets replaced, by kind."""

    # The checks of the round at hand.
    critique: Critique | None = None
    """Of the agent's last turn; None: not scored."""
    refinements: int = 0
    """Refinements of the round at hand."""
    validators: tuple[ValidatorResult, ...] = ()
    """Of the round at hand."""
    refusal: str = ""
    """Why the validators' results do not count; empty: they do."""
    protected_changes: tuple[str, ...] = ()
    """Protected paths that differ, a line each."""
    differing: tuple[str, ...] = ()
    """The paths of `protected_changes`"""
    left_changed: tuple[str, ...] = ()
    """Protected paths that differ in the workspace, whatever the validators saw."""
    check_labels: tuple[str, ...] = ()
    """What weakens the results of the round at hand."""
    settling: str = ""
    """What a person can write in the goal file so that the next run accepts the changes
    that the check of this round did not accept."""
    leaked: tuple[str, ...] = ()
    """Paths that changed in the workspace during its check, or after it."""
    leaks: int = 0
    """How often the workspace changed in this way in the round at hand."""
    obstacle: str = ""
    """Why validators could not run, which only a person can change."""
    obstacles: int = 0
    """How often in a row they could not run in the round at hand."""
    changed_checks: ChangedChecks | None = None
    """The agent's versions, while they wait for a review."""
    reviews: tuple[ChecksReviewed, ...] = ()
    """The judge's reviews of changed checks, the newest."""

    # Verdicts.
    verdict: GoalVerdict | None = None
    """The last one."""
    attempts: tuple[GoalAttempt, ...] = ()
    stall: Stall = Stall()
    unread: int = 0
    """Audits in a row whose answers could not be parsed."""
    audit_problem: str = ""
    """Why the judge last gave no usable answer."""
    audit_answer: str = ""
    """Both ends of that answer, if it could not be read."""
    refuted: str = ""
    """A claim of being blocked that the second opinion did not confirm."""
    confirmed: str = ""
    """Why the goal is blocked, by two opinions."""
    labels: tuple[str, ...] = ()
    """What weakens the proof of this run."""

    # What a person decides.
    approvals: tuple[Approval, ...] = ()
    """The newest, decided or not."""
    requested: int = 0
    """Approvals requested so far."""

    # Failures, waits and limits.
    failure: Failure | None = None
    """Of the agent or a model, if what follows is not decided yet."""
    failures: dict[str, int] = Field(default={})
    """By account and kind of failure ("agent limit"): how often in a row, without work
    between them."""
    wait: Waiting | None = None
    """The wait at hand."""
    waited: float = 0.0
    """Seconds that the run has waited for limits to reset."""
    agent: int = 0
    """The index of the agent at work in `plan.agents`."""
    switched: bool = False
    """Whether another agent took over in the round at hand."""
    given_up: dict[str, str] = Field(default={})
    """By name of an agent that another one replaced: why it could not go on."""
    limit: RunEnded | None = None
    """How a limit ends the run after one last check; None: no limit was reached."""
    resets_at: str = ""
    """When that limit resets (ISO 8601); empty if that is not known, or it does not
    reset."""

    def replace(self, **changes: Any) -> RunState:
        """Return the state with other fields."""
        # Without validation: the values come from validated events, and a run has many.
        return self.model_copy(update=changes)

    def with_memory(self, **changes: Any) -> RunState:
        """Return the state with other fields of its working memory."""
        return self.replace(memory=self.memory.model_copy(update=changes))

    def with_budget(self, **changes: Any) -> RunState:
        """Return the state with other fields of its budget."""
        budget = self.memory.budget_state.model_copy(update=changes)
        return self.with_memory(budget_state=budget)

    def with_evidence(self, ids: Sequence[str], *, new: bool = True) -> RunState:
        """Return the state with more references to evidence.

        `new`: whether the observations are not counted yet.
        """
        # One copy with all changes: this runs for every tool result.
        references = (*self.memory.evidence_refs, *ids)[-KEPT:]
        memory = self.memory.model_copy(update={"evidence_refs": references})
        return self.replace(
            memory=memory,
            seen=ids[-1] if ids else self.seen,
            observations=self.observations + (len(ids) if new else 0),
        )

    def with_approvals(
        self, which: Callable[[Approval], bool], **changes: object
    ) -> RunState:
        """Return the state with other fields of some approvals."""
        approvals = tuple(
            item.model_copy(update=changes) if which(item) else item
            for item in self.approvals
        )
        if approvals == self.approvals:
            # The same object says that nothing changed.
            return self
        return self.replace(approvals=approvals)

    def with_label(self, label: str) -> RunState:
        """Return the state with a label, once."""
        return self.replace(labels=tuple(dict.fromkeys((*self.labels, str(label)))))

    @property
    def is_kept(self) -> bool:
        """Whether the run has records, by which a person or a command can find it."""
        return bool(self.goal.run_id)

    @property
    def is_over(self) -> bool:
        """Whether a retry, without a decision of a person, could change nothing."""
        is_capped = self.status is GoalStatus.CAPPED
        return is_capped or self.stop_reason in FINAL

    @property
    def way_on(self) -> str:
        """What a person does so that the run goes on, after a decision for example."""
        if not self.is_kept:
            return "start it again, because nothing of this run was kept"
        if self.handed:
            return RESUMED_THERE
        return f"goal resume {self.goal.run_id}"

    @property
    def working_folder(self) -> str:
        """The folder in which the agent works."""
        return self.clone or self.workspace

    @property
    def total(self) -> Usage:
        """The usage of agent and judge together."""
        return sum(self.usage.values(), Usage())

    def accounts(self, *, over: bool | None = None) -> dict[str, Usage]:
        """Return the usage by account for display.

        An external agent reports its usage at the end of its turn, so that of an
        interrupted turn is unknown. `over` tells whether the run has stopped; None: as
        its status says.
        """
        usage = dict(self.usage)
        if over is None:
            over = self.status is not GoalStatus.RUNNING
        if over and self.external and self.awaiting == "agent":
            usage["agent"] = usage.get("agent", Usage()) + Usage.unknown()
        return usage

    def agents_at_work(self, *, over: bool | None = None) -> dict[str, Usage]:
        """Return the usage of each agent of a run in which another one took over.

        `over` as for `accounts`; empty for a run of one agent.
        """
        if not self.given_up:
            return {}
        usage = dict(self.agent_usage)
        name = self.plan.agents[self.agent]
        of_agent = usage.get(name, Usage())
        # Only the agent at work can have a turn that was interrupted.
        if self.accounts(over=over).get("agent") != self.usage.get("agent"):
            of_agent += Usage.unknown()
        usage[name] = of_agent
        return usage

    def spent(self, *, over: bool | None = None) -> Usage:
        """Return the sum of `accounts`."""
        return sum(self.accounts(over=over).values(), Usage())

    @property
    def phase_before_end(self) -> Phase:
        """The phase in which the run ended, or that it has reached."""
        return self.left if self.phase is Phase.ENDED else self.phase

    @property
    def unchecked(self) -> Phase:
        """The phase in which the files are checked again."""
        return Phase.WORKED if self.round else Phase.READY

    @property
    def asks_person(self) -> bool:
        """Whether the run goes on, or ends, with the answer to an open question."""
        is_decided = self.phase in (Phase.JUDGED, Phase.CONFIRMED)
        is_next = is_decided and self.awaiting is None
        return bool(self.memory.open_questions) and (self.asking or is_next)

    @property
    def waiting(self) -> tuple[Approval, ...]:
        """The approvals that are not decided."""
        return tuple(item for item in self.approvals if item.decision is None)

    def newest_approval(self, about: Callable[[Approval], bool]) -> Approval | None:
        """Return the newest approval for which `about` is true; else None.

        One that was withdrawn does not count.
        """
        for item in reversed(self.approvals):
            if item.decision != "withdrawn" and about(item):
                return item
        return None

    @property
    def subject(self) -> str:
        """What an approval of the completion is valid for.

        It is the snapshot, else the response, else the round.
        """
        if self.snapshot:
            return self.snapshot.id
        return self.response or f"round {self.round}"

    @property
    def completion(self) -> Approval | None:
        """The newest approval of the completion for the current snapshot."""
        subject = self.subject
        return self.newest_approval(
            lambda item: item.kind == "complete" and item.snapshot == subject
        )

    @property
    def approved_checks(self) -> dict[str, str]:
        """Keys of the changed checks that were accepted, with the reviewer.

        The reviewer is for the label; it is empty for a person.
        """
        reviewers = {}
        for review in self.reviews:
            if review.decision == "accepted":
                reviewers[review.key] = REVIEWED
        # A person's decision counts more than the judge's.
        for approval in self.approvals:
            if approval.kind == "checks" and approval.decision == "approved":
                reviewers[approval.snapshot] = ""
        return reviewers

    @property
    def refused_hunks(self) -> frozenset[str]:
        """Hashes of the hunks that the judge refused."""
        return frozenset().union(*(review.refused_hunks for review in self.reviews))

    @property
    def undecided_review(self) -> ChecksReviewed | None:
        """The review that left the changed checks at hand to a person, or None."""
        key = self.changed_checks.key if self.changed_checks is not None else ""
        for review in reversed(self.reviews):
            if review.key == key and review.decision == "undecided":
                return review
        return None

    @property
    def is_unread(self) -> bool:
        """Whether the last audit of the round gave no answer that could be read."""
        if self.phase is not Phase.JUDGED or self.verdict is None:
            return False
        return self.verdict.source == "fallback"

    @property
    def unread_answer(self) -> UnreadAnswer | None:
        """The answer to the last audit, if it could not be read."""
        if not self.is_unread:
            return None
        return UnreadAnswer(reason=self.audit_problem, text=self.audit_answer)

    @property
    def criteria(self) -> tuple[str, ...]:
        """The binding criteria: the goal's own, or those that audits derived."""
        return self.goal.success_criteria or self.goal.derived_criteria

    @property
    def validators_green(self) -> bool:
        """Whether every validator passed in this round, and the results count.

        Hidden validators are among them.
        """
        names = tuple(result.name for result in self.validators)
        if names != (*self.plan.validators, *self.plan.hidden):
            return False
        if self.refusal or self.leaked or self.changed_checks is not None:
            return False
        return all(result.passed for result in self.validators)

    @property
    def lacks_audit(self) -> bool:
        """Whether a limit ended the run between green validators and the judge."""
        if self.status is not GoalStatus.CAPPED or self.left is not Phase.VALIDATED:
            return False
        has_both = self.plan.has_judge and bool(self.plan.validators)
        return has_both and self.validators_green

    @property
    def decided_by_validators(self) -> bool:
        """Whether the validators alone decide this round.

        They do if there is no judge, or one of them is red. If the agent reports that
        it is blocked, the judge is asked as well, so that an impossible goal ends
        early.
        """
        if not self.plan.has_judge:
            return True
        return not self.validators_green and not self.block_report
