"""What may be how slow: every bound of the benchmarks, in one table. Each is a ratio of two things measured in one run."""

from __future__ import annotations

BOUNDS = {
    # Processor time of workers and runs; the same goals, two at a time on both sides.
    "a goal of a fleet / a goal of a batch": 1.15,
    # One line, with a database on the same machine.
    "an intent in the database / 3 ms": 1.0,
    "goal --help / import typer": 1.5,
    "goal list / import typer": 2.5,
    "goal status RUN / import typer": 2.5,
    # The two ways of the README from a clone to the end of the demo, with nothing cached.
    "uvx --from . goal demo / python -m venv, pip install . and goal demo": 1.0,
    # From the start of the process to the first request at the model's server, against the whole bare import.
    "goal run to its first request / import litellm": 1.0,
    # From the start of the process to the first recorded reply, against half a second.
    "goal run to its first scripted reply / 0.5 s": 1.0,
    # From the start of the process to the first instruction of the agent: no judge, so no LiteLLM. A run imports pydantic
    # and the engine, takes a snapshot and runs the validator once before that. The aim is 1.
    "goal run to its first agent call / 1.5 x import typer and the agent's start": 6.0,
    # One round of one shell call, one text, one validator and one audit, against the same two commands and its three
    # requests made straight through litellm.completion: as long, with the same tools, streaming as they do. They do
    # not stream here, and the faster the bare calls are, the more of the ratio is the rest of the round.
    "a round / its commands and its calls made bare": 2.5,
    # From one look of the validators to the next, less the agent's command and the validator run by hand.
    "a round of an agent driven by its command, beyond the agent / 100 ms": 1.0,
    "a round of an agent driven by ACP, beyond the agent / 100 ms": 1.0,
    # What an agent prints is in a file, or in a pipe, and read piece by piece.
    "peak memory with 1 GB of an agent's stdout / with 1 MB": 1.15,
    "peak memory with 1 GB of an agent's stderr / with 1 MB": 1.15,
    # Of a single line the beginning is held, up to the longest that is taken for a message.
    "peak memory with 1 GB in one line of an agent's, beyond 1 MB / the longest line that is read": 1.3,
    # The chat and the index of observations grow by some kilobytes a round, and memory is got in larger pieces.
    "peak memory of 100 rounds / of 10": 1.15,
    # Texts are kept in a file; what stays in memory is an item for each call and each text.
    "peak memory of a transcript of 100 MB / of 1 MB": 1.8,
    # The interpreter and its imports are 36 MiB of it, and each of 80,000 items is kept.
    "peak memory of a transcript of 100 MB in small rows / 80 MiB": 1.0,
    "reading a transcript / decoding its lines": 8.0,
    # Processor time of two rounds with a callable validator; measured: 7 ms, of which Strands' own loop takes 1 ms.
    "a call without records, beyond a bare loop / 20 ms": 1.0,
    "GoalLoop without records, beyond Strands' own / 20 ms": 1.0,
    # Without the waits for the disk, which are no time of the processor.
    "a call without records / a call with records": 0.5,
    # Runs of one process share its interpreter; each writes and syncs files of its own.
    "100 runs of a program at once / one after the other": 1.5,
    # Snapshots are compared once, each with the one before it; the prompt of an audit is full at round 40.
    "an audit at round 200 / at round 40": 1.3,
    "a round at round 200 / at round 40": 1.3,
    "a round at round 60 / at round 5": 1.3,
    "a snapshot of 50,000 unchanged files / git status": 1.5,
    "the first snapshot of 50,000 files / git add -A": 1.5,
    # Processor time. Objects and times are taken over from the repository.
    "the first snapshot of 50,000 committed files / git status": 10.0,
    # From the start of a check to its end by the log's own clock, less the time of the validator: two snapshots, two
    # looks at what is ignored, and the check environment. On an idle machine `git status` takes 0.1 s and 0.4 s.
    "a check of 50,000 files beyond its suite / git status": 5.0,
    "a check of 200,000 files beyond its suite / git status": 5.0,
    # The store after 20 rounds of three changed files each, against the store after the first snapshot.
    # Encoding, redaction and the chain on top of one write that is on disk.
    "an event appended / the same bytes, synced": 5.0,
    # The state holds counts and the last hundred references, never the log.
    "peak memory of 1,000,000 events / of 10,000": 1.1,
    "goal list over 10,000 runs / 1 s": 1.0,
    # Namespaces and some twenty mounts, on top of the start of a shell and the look for whom it left behind.
    "a command in the sandbox / the same one bare": 15.0,
    # Each file is read and written once, as by git, in an interpreter.
    "the frozen base of 20,000 files / git worktree add": 2.0,
    # The agents wait for 20, 18 and 16 seconds, as for a model; two processors start three runs and a scheduler.
    "the best of three agents that wait on models / the slowest of them alone": 1.2,
    # Every file is looked at once, and git lists what is ignored. On an idle machine `git status` takes 0.05 s.
    "a copy of 20,000 files on its base / git status": 5.0,
    "a copy on disk / 1 MB": 1.0,
    "the store after 20 rounds / after the first snapshot": 1.2,
    # Processor time of everything that is started, beside `goal run --isolate` of the same goals.
    "a goal of a batch / a run of its own, and 100 ms": 1.0,
    # Of the processor time of one core, while the agents of all 50 goals work.
    "the scheduler of 50 runs at work / 2 % of a core": 1.0,
    # Of the runner alone, without its agent; pages that several processes share count in part.
    "memory of a run in a batch / 40 MiB": 1.0,
}
