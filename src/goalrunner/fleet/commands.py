"""The commands `goal fleet`."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from goalrunner.batches.option_values import (
    DOLLARS,
    GOALS,
    UNTIL,
    AgentModel,
    goal_keys,
    goals_argument,
)
from goalrunner.cli import options, output, runs
from goalrunner.cli.options import (
    COUNT,
    ROUND,
    File,
    Text,
    Texts,
    argument,
    checked,
    flag,
    option,
)
from goalrunner.core.errors import ExitCode, UsageError
from goalrunner.fleet import DEFAULT_QUEUE
from goalrunner.reports.terminal_text import lines_text

if TYPE_CHECKING:
    from goalrunner.fleet.database import Database
    from goalrunner.fleet.listing import FleetRun
    from goalrunner.fleet.store import FleetStore
    from goalrunner.fleet.worker import FleetWorker

_Db = Annotated[
    Text, option("URL", "The database: postgresql://...; default: GOAL_FLEET.")
]
_FleetRun = Annotated[str, argument("RUN", "Id of a run, or its beginning.")]
_ROOT = Path("/var/tmp/goal-fleet")  # noqa: S108  a folder of the user alone is made
_WHOLE_NUMBER = checked(int, "a whole number")
_LISTED = 40
_REFRESH = 2.0
"""Seconds between two looks of --watch."""
_OTHER_ROWS = 4
"""Below the workers: two empty lines, the heading of the runs, and the counts."""
_CLEAR, _HOME, _LINE_END, _REST = "\033[2J", "\033[H", "\033[K\n", "\033[K\033[J"
"""What erases the terminal, and what draws over it without that."""
_PATIENCE = 30.0
"""Seconds for a worker to perform a request: it looks every few seconds."""


def init(
    store: Annotated[
        Text,
        option(
            "URL",
            "Where the files of runs are kept: file:///shared/goals, s3://bucket/goals.",
        ),
    ] = None,
    root: Annotated[
        File,
        option(
            "DIR",
            "The folder of runs on each machine, the same path everywhere; default:"
            " /var/tmp/goal-fleet.",
        ),
    ] = None,
    db: _Db = None,
) -> int:
    """Prepare a database for a fleet, or bring it up to date.

    It can be called again at any time: it changes only what is named.
    """
    from goalrunner.fleet.database import database_url, shown_url
    from goalrunner.fleet.queue import prepare_database
    from goalrunner.fleet.settings import FleetSettings, change_settings, fleet_settings
    from goalrunner.fleet.store import FleetStore

    url = database_url(db, os.environ)
    if store is not None:
        store = _absolute_store(store)
        FleetStore(store).try_out()
    steps = asyncio.run(prepare_database(url))
    with _database(url) as database:
        earlier = database.call(fleet_settings)
        settings = FleetSettings(
            store or earlier.store, str(root.absolute()) if root else earlier.root
        )
        if not settings.store:
            raise UsageError(
                "the fleet needs a store for the files of its runs",
                "goal fleet init --store file:///shared/goals, or s3://bucket/goals",
            )
        database.call(lambda connection: change_settings(connection, settings))
    done = "is prepared" if steps else "is up to date"
    output.say(
        f"{shown_url(url)} {done}\n"
        f"store  {shown_url(settings.store)}\n"
        f"root   {settings.root or _ROOT}\n"
        "next   goal fleet worker, on each machine; goal fleet submit GOALS\n"
    )
    return 0


def _absolute_store(url: str) -> str:
    """Return the URL of a store; a path becomes one."""
    return url if "://" in url else Path(url).absolute().as_uri()


@contextmanager
def _database(url: str) -> Iterator[Database]:
    from goalrunner.fleet.database import Database, require_schema

    with Database(url) as database:
        database.call(require_schema)
        yield database


@contextmanager
def _fleet(db: str | None) -> Iterator[Database]:
    """Return a context with the database of the fleet that a command names."""
    from goalrunner.fleet.database import database_url

    with _database(database_url(db, os.environ)) as database:
        yield database


def _store(database: Database) -> FleetStore:
    from goalrunner.fleet.settings import fleet_settings
    from goalrunner.fleet.store import FleetStore

    return FleetStore(database.call(fleet_settings).store)


def worker(
    name: Annotated[
        Text, option("NAME", "Its name in the fleet; default: that of the machine.")
    ] = None,
    jobs: Annotated[
        int,
        option("N", "The most runs at the same time.", "--jobs", "-j", parser=COUNT),
    ] = 2,
    queue: Annotated[
        Texts, option("NAME", "A queue that it serves; may be repeated.")
    ] = None,
    labels: Annotated[str, option("LIST", "What this machine has: gpu,linux.")] = "",
    secret: Annotated[
        Texts,
        option(
            "NAME",
            "A variable that runs may need, such as OPENAI_API_KEY; may be repeated.",
        ),
    ] = None,
    no_sandbox: Annotated[
        bool, flag("--no-sandbox", "Let agents work without a sandbox.")
    ] = False,
    otlp: Annotated[
        Text,
        option("URL", "Send metrics of the fleet to this OpenTelemetry collector."),
    ] = None,
    db: _Db = None,
) -> int:
    """Take runs of a fleet on this machine, until Ctrl-C or SIGTERM.

    Its runs then stop cleanly, and continue at another worker. Agents and validators
    work in a sandbox, unless the goal has another one, or --no-sandbox is given. A
    worker takes no run that needs a label or a secret which it does not have.
    """
    from goalrunner.fleet.queue import labels_of
    from goalrunner.fleet.settings import fleet_settings
    from goalrunner.fleet.worker import FleetWorker, WorkerOptions

    missing = [each for each in secret or () if not os.environ.get(each)]
    if missing:
        raise UsageError(
            f"{missing[0]} is not set, so this worker does not have that secret",
            f"export {missing[0]}=..., or leave --secret {missing[0]} out",
        )
    with _fleet(db) as database:
        url, settings = database.url, database.call(fleet_settings)
    root = Path(settings.root or _ROOT)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.geteuid():
        raise UsageError(
            f"{root} belongs to another user",
            "goal fleet init --root DIR chooses another folder for all machines",
        )
    if not no_sandbox:
        _require_sandbox(root)
    worker_options = WorkerOptions(
        name or socket.gethostname(),
        jobs,
        root,
        settings.store,
        tuple(queue or (DEFAULT_QUEUE,)),
        labels_of(labels),
        tuple(secret or ()),
        sandbox="none" if no_sandbox else "bwrap",
    )
    output.complain(
        f"worker {worker_options.name} takes up to {jobs} runs; Ctrl-C ends it"
    )
    taker = FleetWorker(url, worker_options, lambda line: output.say(f"{line}\n"))
    with _metrics(otlp, url, taker):
        asyncio.run(taker.work())
    return 0


@contextmanager
def _metrics(otlp: str | None, url: str, worker: FleetWorker) -> Iterator[None]:
    """Return a context in which metrics are sent, if there is a collector."""
    if otlp is None:
        yield
        return
    from goalrunner.app.run_telemetry import require_extra
    from goalrunner.fleet.database import Database

    require_extra("--otlp")
    from goalrunner.fleet.fleet_metrics import FleetMetrics, otlp_reader

    database = Database(url)
    metrics = FleetMetrics(
        otlp_reader(otlp), database, worker.name, lambda: worker.runs_at_work
    )
    try:
        yield
    finally:
        metrics.close()


def submit(
    goals: Annotated[list[Path], goals_argument(f"{GOALS}.")],
    template: Annotated[
        File, option("FILE", "The goal file for the rows of tables.")
    ] = None,
    queue: Annotated[str, option("NAME", "The queue.")] = DEFAULT_QUEUE,
    priority: Annotated[
        int, option("N", "Goals with a higher number run first.", parser=_WHOLE_NUMBER)
    ] = 0,
    after: Annotated[
        Texts, option("RUN", "A run that must be complete before; may be repeated.")
    ] = None,
    labels: Annotated[str, option("LIST", "What the worker must have: gpu.")] = "",
    secret: Annotated[
        Texts, option("NAME", "A variable that the worker must have; may be repeated.")
    ] = None,
    batch: Annotated[str, option("NAME", "A name for all of these goals.")] = "",
    until: Annotated[
        Text,
        option(
            "TIME", "Give the goals up at this time of day, or moment.", parser=UNTIL
        ),
    ] = None,
    agent: options.Agent = None,
    model: AgentModel = None,
    judge: options.Judge = None,
    json: options.Json = False,
    db: _Db = None,
) -> int:
    """Queue goals for the workers of a fleet.

    The goal files and their workspaces are read now: the repository with its present
    commit, and what differs from it. Files that git ignores stay here.
    """
    from goalrunner.batches.submission import submit as read_goals
    from goalrunner.fleet.queue import enqueue_now, labels_of
    from goalrunner.fleet.submission import (
        SubmitOptions,
        insert_runs,
        new_ids,
        new_runs,
    )

    submission = read_goals(goals, template, goal_keys(agent, model, judge))
    submit_options = SubmitOptions(
        queue=queue,
        priority=priority,
        labels=labels_of(labels),
        secrets=tuple(secret or ()),
        after=tuple(after or ()),
        batch=batch,
        deadline=until,
    )
    with _fleet(db) as database:
        run_ids = database.call(
            lambda connection: new_ids(connection, submission.entries)
        )
        new = new_runs(submission, _store(database), submit_options, run_ids)
        database.call(lambda connection: insert_runs(connection, new, submit_options))
        asyncio.run(enqueue_now(database))
    ids = [run.run_id for run in new]
    if json:
        output.say({"runs": ids})
        return 0
    lines = [f"{run.run_id}   {run.entry.name}\n" for run in new]
    output.say("".join(lines))
    output.complain("goal fleet status --watch follows them")
    return 0


def status(
    run: Annotated[
        Text, argument("RUN", "Id of a run, or its beginning; default: all.")
    ] = None,
    watch: Annotated[bool, flag("--watch", "Show it again and again.")] = False,
    all_: Annotated[bool, flag("--all", "List all runs, not only 40.")] = False,
    batch: Annotated[str, option("NAME", "Only runs that were submitted so.")] = "",
    json: options.Json = False,
    db: _Db = None,
) -> int:
    """Show the runs and workers of a fleet, or one run.

    The exit code of one run is its own, and 4 while it has not ended.
    """
    with _fleet(db) as database:
        if run is not None:
            return _print_run(database, run, json=json)
        if not watch:
            _print_fleet(database, batch, everything=all_, json=json)
            return 0
        return _watch_fleet(database, batch)


def _watch_fleet(database: Database, batch: str) -> int:
    """Show the fleet again and again, until Ctrl-C."""
    from goalrunner.fleet.database import DatabaseUnreachable

    is_terminal = output.columns() is not None
    output.say(_CLEAR if is_terminal else "")
    try:
        while True:
            rows = shutil.get_terminal_size().lines - 1 if is_terminal else None
            try:
                lines = _fleet_lines(database, batch, _LISTED, rows)
            except DatabaseUnreachable as error:
                lines = [str(error)]
            # Each line replaces an old one, so that nothing flickers.
            output.say(
                f"{_HOME}{_LINE_END.join(lines)}{_REST}"
                if is_terminal
                else lines_text([*lines, ""])
            )
            time.sleep(_REFRESH)
    except KeyboardInterrupt:
        output.say("\n")
        return int(ExitCode.INTERRUPTED)


def _print_run(database: Database, reference: str, *, json: bool) -> int:
    from goalrunner.core.run_summary import NOT_ENDED
    from goalrunner.fleet.listing import find_fleet_run, runs_table

    fleet_run = database.call(lambda connection: find_fleet_run(connection, reference))
    if json:
        output.say(asdict(fleet_run))
    else:
        output.say(runs_table([fleet_run], output.columns()))
        output.complain(_next_command(fleet_run))
    return NOT_ENDED if fleet_run.exit_code is None else fleet_run.exit_code


def _next_command(run: FleetRun) -> str:
    if run.state == "running":
        return f"goal fleet logs {run.run_id} -f follows it"
    if run.state == "queued":
        return "goal fleet status shows the workers"
    if run.status == "complete":
        return f"goal show {run.run_id} and goal diff {run.run_id} show its work"
    return f"goal fleet retry {run.run_id} queues it again"


def _print_fleet(
    database: Database, batch: str, *, everything: bool, json: bool
) -> None:
    from goalrunner.fleet.listing import (
        count_runs,
        fleet_value,
        list_runs,
        list_workers,
    )

    most = None if everything else _LISTED
    if not json:
        output.say(lines_text(_fleet_lines(database, batch, most)))
        return
    listed = database.call(lambda connection: list_runs(connection, most, batch))
    counts = database.call(lambda connection: count_runs(connection, batch))
    output.say(fleet_value(listed, database.call(list_workers), counts))


def _fleet_lines(
    database: Database, batch: str, most: int | None, rows: int | None = None
) -> list[str]:
    """Return the workers, the first runs and the counts.

    `most` is the number of runs, `rows` that of all lines; None: as many as there are.
    """
    from goalrunner.fleet.listing import (
        count_runs,
        counts_line,
        list_runs,
        list_workers,
        runs_table,
        workers_table,
    )

    columns = output.columns()
    workers = database.call(list_workers)
    lines = ["No worker is running: goal fleet worker"]
    if workers:
        lines = workers_table(workers, columns).splitlines()
    if rows is not None:
        # The runs have at least half of the terminal.
        lines = _first_lines(lines, rows // 2)
        most = max(min(_LISTED, rows - len(lines) - _OTHER_ROWS), 1)
    listed = database.call(lambda connection: list_runs(connection, most, batch))
    counts = database.call(lambda connection: count_runs(connection, batch))
    counted = counts_line(counts) or "no runs: goal fleet submit GOALS"
    return [*lines, "", *runs_table(listed, columns).splitlines(), "", counted]


def _first_lines(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more workers"]


def logs(
    run: _FleetRun,
    follow: Annotated[
        bool, flag("--follow", "Go on until the run ends.", "-f")
    ] = False,
    db: _Db = None,
) -> int:
    """Show what a run of a fleet does, from any machine."""
    from goalrunner.fleet.listing import find_fleet_run
    from goalrunner.fleet.watching import show_log

    with _fleet(db) as database:
        fleet_run = database.call(lambda connection: find_fleet_run(connection, run))
        has_ended = show_log(database, fleet_run.run_id, follows=follow)
    return 0 if has_ended else int(ExitCode.INTERRUPTED)


def fetch(run: _FleetRun, json: options.Json = False, db: _Db = None) -> int:
    """Bring the records of a run here, for `goal show`, `goal diff` and more.

    With GOAL_FLEET set, these commands fetch a run themselves.
    """
    from goalrunner.fleet.listing import find_fleet_run
    from goalrunner.fleet.remote_runs import fetch_run

    with _fleet(db) as database:
        fleet_run = database.call(lambda connection: find_fleet_run(connection, run))
        folder = fetch_run(database, _store(database), fleet_run.run_id, runs.home())
    if json:
        output.say({"run_id": fleet_run.run_id, "path": str(folder.path)})
    else:
        output.say(f"{folder.path}\n")
    return 0


def cancel(
    run: Annotated[Text, argument("RUN", "Id of a run, or its beginning.")] = None,
    batch: Annotated[
        Text, option("NAME", "All runs that were submitted under this name.")
    ] = None,
    reason: Annotated[str, option("TEXT", "The reason.")] = "cancelled",
    db: _Db = None,
) -> int:
    """End a run or a batch of a fleet permanently, or take it out of the queue."""
    from goalrunner.fleet.cancelling import cancel_fleet_batch_named, cancel_run_named

    if (run is None) == (batch is None):
        raise UsageError("name a run, or a batch with --batch", "goal fleet status")
    with _fleet(db) as database:
        if batch is not None:
            output.say(cancel_fleet_batch_named(database, batch, reason))
        else:
            assert run is not None
            output.say(cancel_run_named(database, run, reason))
    return 0


def retry(run: _FleetRun, db: _Db = None) -> int:
    """Queue a run again: one that failed, is blocked, or was given up.

    It goes on where it was.
    """
    from goalrunner.fleet.listing import find_fleet_run, refuse_unless
    from goalrunner.fleet.queue import enqueue_now
    from goalrunner.fleet.runs import queue_again

    with _fleet(db) as database:
        fleet_run = database.call(lambda connection: find_fleet_run(connection, run))
        refuse_unless(
            fleet_run, ("ended", "dead"), "it need not be queued", "goal fleet status"
        )
        if fleet_run.status in ("complete", "cancelled"):
            raise UsageError(
                f"run {fleet_run.run_id} is {fleet_run.status}, which is final",
                "goal fleet submit starts a new run",
            )
        database.call(lambda connection: queue_again(connection, fleet_run.run_id))
        asyncio.run(enqueue_now(database))
    output.say(f"run {fleet_run.run_id} is queued\n")
    return 0


def drain(
    worker: Annotated[
        Text, argument("WORKER", "Name of a worker; default: all of them.")
    ] = None,
    db: _Db = None,
) -> int:
    """Let workers take no further run, and end when those at work have ended."""
    from goalrunner.fleet.runs import drain_workers

    with _fleet(db) as database:
        names = database.call(lambda connection: drain_workers(connection, worker))
    if not names:
        which = f"worker {worker}" if worker else "a worker"
        raise UsageError(f"there is no {which} to drain", "goal fleet status")
    output.say("".join(f"{name} ends when its runs have ended\n" for name in names))
    return 0


def limit(
    queue: Annotated[Text, option("NAME", "A queue.")] = None,
    account: Annotated[
        Text,
        option("NAME", "An agent's program, or the provider of a model: openai."),
    ] = None,
    runs: Annotated[
        int | None,
        option("N", "The most runs at once, on all workers.", "--runs", parser=ROUND),
    ] = None,
    cost_per_day: Annotated[
        float | None,
        option("USD", "The most US dollars a day, by UTC.", parser=DOLLARS),
    ] = None,
    json: options.Json = False,
    db: _Db = None,
) -> int:
    """Limit what all workers do with a queue or an account; or list limits.

    Without --runs and --cost-per-day, the limits of the queue or account are lifted.
    When the dollars of a day are spent, the runs at work end in order, and all go on on
    the next day. A usage limit of an account is met by one run, and pauses all.
    """
    from goalrunner.fleet.limits import list_limits, set_limit
    from goalrunner.fleet.listing import limits_table

    if queue is not None and account is not None:
        raise UsageError("--queue and --account cannot be combined", "use one of them")
    with _fleet(db) as database:
        name = queue or account
        if name is not None:
            database.call(
                lambda connection: set_limit(
                    connection,
                    "queue" if queue else "account",
                    name,
                    runs,
                    cost_per_day,
                )
            )
        elif runs is not None or cost_per_day is not None:
            raise UsageError(
                "say what is limited", "goal fleet limit --account claude --runs 3"
            )
        limits = database.call(list_limits)
    if json:
        output.say([asdict(each) for each in limits])
    else:
        output.say(limits_table(limits, output.columns()) or "there are no limits\n")
    return 0


def requeue(
    stalled: Annotated[
        bool, flag("--stalled", "The runs of workers that give no sign of life.")
    ] = False,
    db: _Db = None,
) -> int:
    """Queue runs again that nothing works on; workers do this by themselves."""
    from goalrunner.fleet.queue import enqueue_now
    from goalrunner.fleet.runs import free_runs_of_dead

    if not stalled:
        raise UsageError("say which runs", "goal fleet requeue --stalled")
    with _fleet(db) as database:
        freed = database.call(free_runs_of_dead)
        asyncio.run(enqueue_now(database, removes_stalled=True))
    lines: list[Any] = [f"run {run_id} is queued\n" for run_id in freed]
    output.say("".join(lines) or "no run is stalled\n")
    return 0


def _require_sandbox(root: Path) -> None:
    """Raise UsageError if no sandbox works on this machine."""
    from goalrunner.system.bubblewrap import choose

    choice = choose(os.environ, (root,), network=True)
    if choice.sandbox is None:
        raise UsageError(
            f"agents work in a sandbox here, and none can be used: {choice.why}",
            f"{choice.remedy}; or accept it: goal fleet worker --no-sandbox",
        )
