"""The arguments and options of the commands: name, value and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

MemoryKind = Literal["event", "fact", "preference", "policy_reference"]
Sensitivity = Literal["low", "medium", "high"]

# Where a file cannot be read the command says so itself (readable=False): in its own words, like any other bad file.

_COPY = "Put a copy of outcome.json there."
_BY_GOAL = "Judge the transcript by this goal file."

Run = Annotated[str | None, Argument(metavar="RUN", help="Id of a run or its beginning; default: the newest.")]

GoalFile = Annotated[Path | None, Argument(metavar="GOAL_FILE", readable=False, help="The goal, as TOML.")]
Objective = Annotated[str | None, Option(metavar="TEXT", help="What is to be done, in place of the file's.")]
Criterion = Annotated[list[str] | None, Option(metavar="TEXT", help="A success criterion; may be repeated.")]
Constraint = Annotated[list[str] | None, Option(metavar="TEXT", help="What must not be broken; may be repeated.")]
Validator = Annotated[list[str] | None, Option(metavar="CMD", help="A shell command that checks; may be repeated.")]
Model = Annotated[str | None, Option(metavar="NAME", help="The agent's model: openai/..., scripted/FILE, ...")]
Agent = Annotated[
    str | None, Option(metavar="NAME", help="Who works: chat, claude, codex, ...; goal agents lists them.")
]
Judge = Annotated[str | None, Option(metavar="NAME", help="The judge's model; \"agent\" is the agent's own.")]
MaxIterations = Annotated[str | None, Option(metavar="N", help="Limit of rounds; inf lifts it.")]
Timeout = Annotated[str | None, Option(metavar="TIME", help='Seconds, or "90s", "30m", "2h"; inf lifts it.')]
Tokens = Annotated[str | None, Option(metavar="N", help="Budget of tokens; inf lifts it.")]
Cost = Annotated[str | None, Option(metavar="USD", help="Budget in US dollars; inf lifts it.")]
AllowUnenforced = Annotated[
    list[str] | None,
    Option(metavar="BUDGET", help="tokens or cost_usd: count what is known alone; may be repeated."),
]
Workspace = Annotated[str | None, Option(metavar="DIR", help="The folder that the agent works in.")]
Output = Annotated[Path | None, Option("--output", metavar="PATH", readable=False, help=_COPY)]
OutcomeJson = Annotated[bool, Option("--json", help="The outcome alone on stdout, progress on stderr.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print the last lines only.")]
DryRun = Annotated[bool, Option("--dry-run", help="Resolve, check and print the goal; spend nothing.")]
Record = Annotated[
    Path | None, Option(metavar="FILE", readable=False, help="Record the models' replies; scripted/FILE plays them.")
]
ContinueFrom = Annotated[str | None, Option(metavar="RUN", help="Go on with the conversation of that run.")]

Note = Annotated[str, Option(metavar="TEXT", help="What the agent is told when it goes on.")]

OneRun = Annotated[str, Argument(metavar="RUN", help="Id of a run or its beginning.")]
ApprovalId = Annotated[str | None, Argument(metavar="ID", help="Which approval, such as a1; default: the only one.")]
Reason = Annotated[str, Option(metavar="TEXT", help="Why not; the agent is told where the run goes on.")]
Answer = Annotated[str, Argument(metavar="TEXT", help="The answer.")]
Question = Annotated[int | None, Option("--question", metavar="N", help="Which question; default: the only one.")]
PeopleJson = Annotated[bool, Option("--json", help="Print what was recorded as JSON.")]

Target = Annotated[str | None, Argument(metavar="RUN|TRANSCRIPT", help="Id of a run (default: the newest), or a file.")]
JudgedBy = Annotated[str | None, Option(metavar="TEXT", help="Judge the transcript by this objective.")]
JudgedByGoal = Annotated[Path | None, Option(metavar="FILE", readable=False, help=_BY_GOAL)]
AuditModel = Annotated[str | None, Option(metavar="NAME", help="The model that judges the transcript.")]

ListJson = Annotated[bool, Option("--json", help="Print the runs' summaries as a JSON list.")]
StatusJson = Annotated[bool, Option("--json", help="Print the summary, or the verdict, as JSON.")]
ShowJson = Annotated[bool, Option("--json", help="Print path, summary and outcome as JSON.")]
ShowPath = Annotated[bool, Option("--path", help="Print the path of the run's folder alone.")]
ShowState = Annotated[bool, Option("--state", help="Print the state, and why the run goes on or stopped.")]
ShowAt = Annotated[int | None, Option("--at", metavar="N", help="Print the state after event N.")]
ShowEvents = Annotated[bool, Option("--events", help="Print every event, a line each.")]
ShowEvidence = Annotated[bool, Option("--evidence", help="Print what the last verdict rests on.")]

Round = Annotated[
    int | None, Argument(metavar="ROUND", help="Number of a round; default: the whole run, from start to end.")
]
OfRun = Annotated[str, Argument(metavar="RUN", help="Id of a run or its beginning.")]
Item = Annotated[str, Argument(metavar="ITEM", help="What it rests on: an observation (o7) or an event (e12).")]
MemoryId = Annotated[str, Argument(metavar="ID", help="Id of a remembered item: goal memory.")]
Kind = Annotated[MemoryKind, Option(help="What it is.")]
Said = Annotated[str, Option("--text", metavar="TEXT", help="What is to be remembered; else the observation's output.")]
Expires = Annotated[str | None, Option(metavar="TIME", help='When it is no longer told: "90d", "12h"; default: never.')]
Sensitive = Annotated[Sensitivity, Option("--sensitivity", help="medium needs --permission, high --expires too.")]
Permission = Annotated[str, Option(metavar="TEXT", help="Who allowed it to be kept.")]
Replaces = Annotated[str, Option(metavar="ID", help="The item that this one corrects.")]
Owner = Annotated[str | None, Option(metavar="NAME", help="Of this owner alone.")]
MemoryJson = Annotated[bool, Option("--json", help="Print the items as a JSON list.")]

AgentName = Annotated[str | None, Argument(metavar="AGENT", help="Its name; default: the goal's, GOAL_AGENT, or chat.")]
AgentsGoal = Annotated[
    Path | None, Option("--goal", metavar="FILE", readable=False, help="Its [agents] and [agent] as well.")
]
AgentsJson = Annotated[bool, Option("--json", help="Print what is known of each as a JSON list.")]
DoctorJson = Annotated[bool, Option("--json", help="Print what was found as JSON.")]

RestoredRound = Annotated[int | None, Argument(metavar="ROUND", help="Number of a round; 0 is the start of the run.")]
DiffStat = Annotated[bool, Option("--stat", help="Print the paths and how many lines changed, no patch.")]
DiffJson = Annotated[bool, Option("--json", help="Print round, changes and patch as JSON.")]
RestoredPaths = Annotated[
    list[str] | None, Option("--path", metavar="PATH", help="Restore this file alone; may be repeated.")
]
SnapshotId = Annotated[str | None, Option(metavar="ID", help="Restore this snapshot, in place of a round's.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
CancelReason = Annotated[str, Option("--reason", metavar="TEXT", help="Why; kept in the run's log.")]
CancelJson = Annotated[bool, Option("--json", help="Print run, status and message as JSON.")]
OlderThan = Annotated[str, Option(metavar="AGE", help='"30d", "12h", "90m".')]
PruneDryRun = Annotated[bool, Option("--dry-run", help="Print what would be removed, and remove nothing.")]
PruneJson = Annotated[bool, Option("--json", help="Print the ids as JSON.")]
VerifyJson = Annotated[bool, Option("--json", help="Print what was checked as JSON.")]
