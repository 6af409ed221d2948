"""Replays of recorded runs, which make regression tests of incidents."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import tomllib
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from goalrunner.app.library import arun_goal, run_blocking
from goalrunner.app.previous_run import Reference, run_folder
from goalrunner.app.run_options import RunKeywords
from goalrunner.core import events
from goalrunner.core.agent_ports import (
    CALLED,
    ApprovalAnswer,
    ApprovalRequest,
    Message,
    QuestionReply,
    Recorder,
    RoundReply,
    ToolResult,
)
from goalrunner.core.critic import CriticRule, Critique
from goalrunner.core.errors import (
    AgentError,
    AuthenticationFailed,
    GoalError,
    ModelNotFound,
    RequestRejected,
    UsageError,
)
from goalrunner.core.events import Event
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, Usage
from goalrunner.goalfile.loading import resolve_goal
from goalrunner.judge.citations import short
from goalrunner.llm import LLM
from goalrunner.llm.requests import Reply
from goalrunner.records.run_folder import goal_home
from goalrunner.system.change_clock import ChangeClock
from goalrunner.testing.recording import (
    CallBegun,
    FilesChanged,
    MessageAdded,
    RecordedTurn,
    Recording,
    ResultRecorded,
    UsageAdded,
    UserWrote,
    load_recording,
)
from goalrunner.testing.run_reading import portable_goal, read_run

_PERSON = "recorded person"
# The runner's words about a verdict whose score is below the minimum score.
_LOW_SCORE = "The evidence as a whole is scored "
# An id that no observation has.
_NO_OBSERVATION = "o0"


def replay(run: Reference, *, home: Path | str | None = None) -> Replay:
    """Return a replay of a run that is over.

    `run` is its outcome, its folder, its id, or a file of `goal export --recording`,
    which needs nothing else. A run is read with the snapshots of its workspace under
    `home` (default: GOAL_HOME). Raise UsageError if there is no such run or if it still
    runs, RecordError if it is damaged, and WorkspaceError if its snapshots are gone.

    Example::

        incident = replay("tests/incidents/parse.json")
        assert incident.run().status == incident.status
        assert incident.run(validators=["ruff check"]).status != "complete"
    """
    file = Path(run) if isinstance(run, str | Path) else None
    if file is not None and file.is_file():
        return Replay(load_recording(file))
    root = Path(home or goal_home(os.environ))
    return Replay(read_run(run_folder(run, root), root))


class Replay:
    """A recorded run, whose agent and judge do again what was recorded.

    Files are written and validators run anew; no model is called.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        # An edited file could have a command that notifies people, or another folder.
        table = tomllib.loads(portable_goal(tomllib.loads(recording.goal)))
        self.goal: Goal = resolve_goal(table, {}, {}, runnable=False)
        """The goal, without agent, models and paths. If the run was complete or capped,
        it stops after the recorded rounds."""
        # Another run ends for the recorded reason; a limit would end it before.
        if recording.status in (GoalStatus.COMPLETE, GoalStatus.CAPPED):
            limit = min(recording.rounds, self.goal.max_iterations or recording.rounds)
            self.goal = self.goal.model_copy(update={"max_iterations": limit})
        folder = tempfile.mkdtemp(prefix="goal-replay-")
        self._folder = Path(folder)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._runs = 0
        self.reset()

    def reset(self) -> None:
        """Make `conversation`, `judge` and `approver` play from the start again."""
        progress = _Progress(self.recording)
        self._progress = progress
        self.conversation = ReplayedConversation(self.recording, progress)
        """What the agent did, for `run_goal`."""
        self.judge = ReplayedJudge(self.recording, progress)
        """What the judge answered, for `run_goal(judge=...)`."""
        self.approver = _ReplayedApprover(self.recording)

    @property
    def status(self) -> GoalStatus:
        """The status with which the recorded run ended."""
        return self.recording.status

    @property
    def stop_reason(self) -> StopReason:
        """Why the recorded run ended."""
        return self.recording.stop_reason

    def run(
        self, *, goal: Goal | None = None, **options: Unpack[RunKeywords]
    ) -> GoalOutcome:
        """Run the recorded turns against a goal, and return the new outcome.

        `goal` replaces the recorded one: `replay.goal.model_copy(update=...)`. The
        options are those of `run_goal`. `workspace` is an empty folder for the files,
        and `home` where the run is kept; both are temporary if left out. Raise as
        `run_goal` does, and UsageError for a workspace with files.
        """
        work = self.arun(goal=goal, **options)
        return run_blocking(work, "Replay.run", "Replay.arun")

    async def arun(
        self, *, goal: Goal | None = None, **options: Unpack[RunKeywords]
    ) -> GoalOutcome:
        """Do what `run` does in the running event loop."""
        if self.recording.callables and not options.get("validators"):
            raise UsageError(
                f"run {self.recording.run_id} was checked by functions of its program",
                "pass them again: replay.run(validators=[...])",
            )
        self.reset()
        self._runs += 1
        keywords: RunKeywords = {
            "approver": self.approver,
            "home": self._folder / "home",
            **options,
            "on_event": self._observer(options),
        }
        # Without files, the response is the deliverable.
        if self.recording.start or options.get("workspace"):
            folder = options.get("workspace") or self._folder / f"work-{self._runs}"
            keywords["workspace"] = self.prepare(Path(folder))
        rule = self.recording.critic
        if rule is not None and "critic" not in options:
            keywords["critic"] = _ReplayedCritic(rule, self.recording.critiques)
        judge = self.judge if self.recording.has_judge else None
        chosen_judge = keywords.pop("judge", judge)
        return await arun_goal(
            self.conversation, goal or self.goal, chosen_judge, **keywords
        )

    def prepare(self, folder: Path) -> Path:
        """Write the files of the start into an empty folder, and return it.

        The conversation changes files there. Raise UsageError if it has files.
        """
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(
                f"the workspace {folder} is not empty; a replay would overwrite files",
                "pass an empty folder, such as pytest's tmp_path, or none",
            )
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in self.recording.start.items():
            content.write(folder, path)
        self._progress.workspace = folder
        return folder

    def _observer(self, options: RunKeywords) -> Any:
        on_event = options.get("on_event")

        def observe(event: Event) -> None:
            self._progress.add(event)
            if on_event is not None:
                on_event(event)

        return observe


@dataclass
class _Progress:
    """How far a replay is, and which of its observations is which recorded one."""

    recording: Recording
    round: int = 0
    workspace: Path | None = None
    is_observed: bool = False
    """Whether the ids of all observations are known."""
    ids: dict[str, str] = field(default_factory=dict)
    """By recorded id: the id in the replay."""
    _others: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, event: Event) -> None:
        """Process an event of the replay."""
        self.is_observed = True
        if isinstance(event, events.ToolResultRecorded):
            return
        for item in events.observations_of(event):
            key = (item.source, item.round)
            same = [
                other.id
                for other in self.recording.observations
                if (other.source, other.round) == key
            ]
            number = self._others[key]
            self._others[key] += 1
            if number < len(same):
                self.ids[same[number]] = item.id

    def id_of(self, recorded_id: str) -> str:
        """Return the id that a recorded observation has in the replay."""
        # The judge may have cited an id that did not exist; it must not name another.
        is_other = self.is_observed and recorded_id in self.ids.values()
        default = _NO_OBSERVATION if is_other else recorded_id
        return self.ids.get(recorded_id, default)


class _ReplayedCritic:
    """A critic that gives the recorded scores."""

    def __init__(self, rule: CriticRule, critiques: Sequence[Critique]) -> None:
        self.threshold = rule.threshold
        self.max_refinements = rule.max_refinements
        self._critiques = iter(critiques)

    def __call__(self, response: Mapping[str, Any], agent: Any) -> Critique:
        return next(self._critiques)


class ReplayedConversation:
    """An agent that does again what was recorded: messages, results, files."""

    # What needed an approval is recorded with its decision.
    supports_approvals = True

    def __init__(self, recording: Recording, progress: _Progress) -> None:
        self.messages: list[Message] = []
        self._recording = recording
        self._progress = progress
        self._played = 0
        self._clock = ChangeClock()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Play the next recorded turn. Raise GoalError where the recorded agent did."""
        turns = self._recording.turns
        if self._played >= len(turns):
            raise AgentError(
                f"the recorded run has {len(turns)} turns of the agent, and the replay "
                "needs one more: something else was decided"
            )
        turn = turns[self._played]
        self._played += 1
        self._progress.round = turn.round
        self._add({"role": "user", "content": prompt}, recorder)
        for step in turn.steps:
            await self._play(step, recorder)
        if turn.failure is not None:
            raise _failure(turn)
        return RoundReply(turn.text, turn.reason, ending=turn.ending)

    def checkpoint(self) -> Any:
        """Return a copy of the messages."""
        return list(self.messages)

    def restore(self, checkpoint: Any) -> None:
        """Restore a copy of the messages."""
        self.messages[:] = checkpoint

    async def _play(self, step: object, recorder: Recorder) -> None:
        match step:
            case FilesChanged():
                if self._progress.workspace is not None:
                    step.perform(self._progress.workspace)
                    # A tool that is called within the same tick of the clock would
                    # seem to have been started before the change.
                    self._clock.note()
                    self._clock.after_changes()
            case CallBegun():
                recorder.tool_called(step.id, step.tool, step.summary)
            case ResultRecorded():
                recorded = await recorder.tool_result(_tool_result(step))
                self._progress.ids[step.observation] = recorded.observation.id
            case MessageAdded(message=message):
                self._add(message, recorder)
            case UserWrote(text=text):
                recorder.user_said(text)
            case UsageAdded(usage=usage):
                recorder.usage("agent", usage)

    def _add(self, message: Message, recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)


def _tool_result(step: ResultRecorded) -> ToolResult:
    return ToolResult(
        tool_call_id=step.id,
        tool=step.tool,
        command=step.command,
        facts=step.facts,
        output=step.output.encode(),
        duration=step.duration,
        summary=step.summary,
        path=step.path,
        writes=step.writes,
        notice="blocked" if step.is_block else None,
        reported_by=step.reported_by,
        started=CALLED if step.has_start else None,
    )


def _failure(turn: RecordedTurn) -> GoalError:
    """Return the error with which a recorded turn ended the run."""
    message, _, hint = turn.message.partition("\n")
    match turn.failure:
        case StopReason.AUTHENTICATION:
            return AuthenticationFailed(message, hint)
        case StopReason.MODEL_NOT_FOUND:
            return ModelNotFound(message, hint)
    return AgentError(message, hint)


class ReplayedJudge(LLM):
    """A judge that gives the recorded answers.

    Their citations are checked anew, with the ids that the observations have now.
    """

    def __init__(self, recording: Recording, progress: _Progress) -> None:
        super().__init__("custom/replay", account="judge")
        self._recording = recording
        self._progress = progress
        self._given: Counter[str] = Counter()

    async def complete(self, messages: Sequence[Message], **request: Any) -> Reply:
        """Return the recorded answer. Raise RequestRejected if there is none."""
        match request.get("schema_name"):
            case "opinion":
                answer = self._next("second opinion", self._recording.opinions)
                text = {"confirmed": answer.confirmed, "reason": answer.reason}
            case "review":
                text = _review(self._next("review", self._recording.reviews))
            case _:
                text = self._verdict()
        usage = Usage(calls=1, cost_usd=0.0)
        return Reply(json.dumps(text), (), usage, "stop")

    def separate(self, account: events.Account) -> LLM:
        """Return this judge: it has a single account."""
        return self

    def _verdict(self) -> dict[str, Any]:
        """Return the verdict of this round."""
        number = self._progress.round
        verdicts = [one for one in self._recording.verdicts if one.round == number]
        key = f"verdict of round {number}"
        # The judge may be asked again about the same round, to correct its citations.
        place = min(self._given[key], len(verdicts) - 1)
        self._given[key] += 1
        if place < 0:
            raise _not_recorded(key)
        answer = _given_answer(verdicts[place])
        for criterion in answer["criteria"]:
            for citation in criterion["evidence"]:
                identifier = citation["observation"]
                citation["observation"] = self._progress.id_of(identifier)
        return answer

    def _next(self, key: str, answers: Sequence[Any]) -> Any:
        place = self._given[key]
        self._given[key] += 1
        if place >= len(answers):
            raise _not_recorded(key)
        return answers[place]


def _given_answer(recorded: events.VerdictRecorded) -> dict[str, Any]:
    """Return the judge's answer that led to a verdict.

    The verdict is the answer after the check of its citations, which may have refused
    criteria that the judge called satisfied.
    """
    answer = recorded.verdict.model_dump(mode="json", exclude={"source"})
    unproven: list[str] = []
    for criterion in answer["criteria"]:
        start = f"{short(criterion['criterion'])}: "
        if any(refusal.startswith(start) for refusal in recorded.refusals):
            unproven.append(f"{criterion['criterion']}: {criterion['missing']}")
            criterion |= {"satisfied": True, "missing": ""}
    satisfied = [criterion["satisfied"] for criterion in answer["criteria"]]
    # What the judge itself called missing stands before the words of the runner.
    own_words = answer["missing"].removesuffix(_low_score_in(answer["missing"]))
    own_words = own_words.removesuffix("\n".join(unproven))
    is_changed = bool(recorded.refusals) or _LOW_SCORE in answer["missing"]
    called_complete = is_changed and all(satisfied) and not own_words.strip()
    if called_complete and not answer["blocked"]:
        answer |= {"complete": True, "missing": ""}
    return answer


def _low_score_in(missing: str) -> str:
    """Return the last line of a text if it is about the score, with its line break."""
    _, line_break, last = missing.rpartition("\n")
    return f"{line_break}{last}" if last.startswith(_LOW_SCORE) else ""


def _not_recorded(answer: str) -> RequestRejected:
    return RequestRejected(
        f"the judge of the recorded run gave no {answer}",
        "pass a judge that can answer: replay.run(judge=...)",
    )


def _review(review: events.ChecksReviewed) -> dict[str, Any]:
    """Return the judge's answer that led to a review.

    Its names are those that the runner gives the changes, in their order.
    """
    numbers: Counter[str] = Counter()
    accepted: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for change in review.changes:
        kind = "hunk" if change.hunk else "test"
        numbers[kind] += 1
        items = [f"{kind}-{numbers[kind]}"]
        if change.problem:
            refused.append({"items": items, "why": change.problem})
        else:
            accepted.append({"items": items, "quote": change.quote})
    return {"accepted": accepted, "refused": refused}


class _ReplayedApprover:
    """A person who decides as recorded, and otherwise is not there."""

    def __init__(self, recording: Recording) -> None:
        self._approvals = iter(recording.approvals)
        self._answers = iter(recording.answers)

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        approval = next(self._approvals, None)
        if approval is None:
            return None
        decision: Any = "approved" if approval.approved else "denied"
        return ApprovalAnswer(decision, _PERSON, approval.reason)

    async def answer(self, question: str) -> QuestionReply | None:
        text = next(self._answers, None)
        return None if text is None else QuestionReply(text, _PERSON)
