"""A model of a fleet that is larger than any machine here: goals, workers, accounts.

It simulates each goal by itself (SimPy): from its submission through the queue to its
end, with workers that are lost and accounts that reach a usage limit. What it does not
simulate are statements of the database: `scale_costs` computes them from the counts that
this model returns, and from measured costs.

Every number of `FleetShape` is an assumption about the users of a fleet, except for
those that are marked as a setting of the program or as measured.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import simpy

Steps: TypeAlias = Generator[Any, Any, None]


@dataclass(frozen=True)
class FleetShape:
    """What is simulated. Times are in seconds."""

    goals: int = 1_000_000
    workers: int = 10_000
    """Runs at the same time."""
    service: float = 600.0
    """Mean time of a run that nothing interrupts; exponential."""
    load: float = 0.9
    """The share of the workers that the goals would keep at work."""
    batch: int = 2_000
    """Mean number of goals that are submitted at once; geometric."""
    shares: Sequence[float] = (0.6, 0.3, 0.1)
    """Of the batches, by priority 0, 1, 2."""
    accounts: int = 20
    allowance: float | None = 1.25
    """What an account may use in a window, by the mean use; None: no limit."""
    window: float = 5 * 3600.0
    between_losses: float | None = 86_400.0
    """Mean time from the loss of a worker to that of the same one; None: none is lost."""
    replacement: float = 120.0
    """Time until another worker stands in for a lost one."""
    rounds: int = 3
    """Of a run. The open one is done again after a take-over on another machine."""
    start: float = 4.0
    """From the delivery of a run to its first round: measured, on a loaded machine."""
    lease: float = 30.0
    """A setting: `goalrunner.fleet.runs.LEASE`."""
    upkeep: float = 5.0
    """A setting: a sixth of the lease."""
    portion: int = 1_000
    """A setting: the most runs that one upkeep queues."""


@dataclass
class Account:
    """The usage limit of one account, and its pauses."""

    allowance: float
    window: float
    ends: float
    used: float = 0.0
    since: float = 0.0
    until: float = 0.0
    paused_before: float = 0.0
    pauses: int = 0
    held: list[Goal] = field(default_factory=list)

    def paused(self, now: float) -> float:
        """Return for how many seconds it has been paused until now."""
        return self.paused_before + max(0.0, min(now, self.until) - self.since)

    def use(self, seconds: float, now: float) -> bool:
        """Use the account; return whether it is paused from now on."""
        while now >= self.ends:
            self.ends += self.window
            self.used = 0.0
        self.used += seconds
        if self.used <= self.allowance or now < self.until:
            return False
        self.paused_before = self.paused(now)
        self.since, self.until = now, self.ends
        self.pauses += 1
        return True


@dataclass(order=True)
class Goal:
    """One goal; ordered as the queue delivers."""

    rank: int
    number: int
    """The position in the queue: of two goals of one priority, the first one begins."""
    account: int = field(compare=False)
    left: float = field(compare=False)
    """Work that is left, in seconds."""
    round: float = field(compare=False)
    """Seconds of one of its rounds."""
    queued_at: float = field(compare=False)
    waited: float = field(default=0.0, compare=False)
    has_begun: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Sample:
    """The fleet at one moment."""

    at: float
    queued: int
    running: int
    paused: int
    starts: int
    """Until then, as are the following ones."""
    ends: int
    enqueued: int
    losses: int
    holds: int


@dataclass
class ScaleResult:
    """What a simulation has counted."""

    waits: list[list[float]]
    """By priority: the seconds from the submission of each goal to its first start."""
    samples: list[Sample] = field(default_factory=list)
    submitted: int = 0
    enqueued: int = 0
    """Deliveries: also those after a take-over, or a pause."""
    starts: int = 0
    ended: int = 0
    losses: int = 0
    holds: int = 0
    """Deliveries of runs whose account was paused."""
    lost_work: float = 0.0
    """Seconds of work that were done again."""
    pauses: int = 0
    seconds: float = 0.0
    queue_area: float = 0.0
    """The number of queued goals, over time."""
    total_wait: float = 0.0
    """Seconds of all goals in the queue, with those after a take-over."""


class ScaleModel:
    """One simulation; the same seed gives the same result."""

    def __init__(self, shape: FleetShape, seed: int = 1) -> None:
        self.shape = shape
        # Two streams: the same goals arrive, whatever fails.
        self.arrivals = Random(seed)
        self.failures = Random(seed + 1_000)
        self.env = simpy.Environment()
        self.result = ScaleResult([[] for _ in shape.shares])
        self.ready: list[Goal] = []
        self.idle = shape.workers
        self.running = 0
        self.queued = 0
        self._changed_at = 0.0
        self._number = 0
        self._running_of = [0] * shape.accounts
        self.accounts = [self._account(number) for number in range(shape.accounts)]

    def simulate(self) -> ScaleResult:
        """Simulate until each goal has ended."""
        self.env.process(self._submit_batches())
        self.env.process(self._watch())
        self.env.run()
        self.result.seconds = self.env.now
        self.result.pauses = sum(account.pauses for account in self.accounts)
        return self.result

    def _account(self, number: int) -> Account:
        shape = self.shape
        usual = shape.load * shape.workers / shape.accounts * shape.window
        allowance = float("inf") if shape.allowance is None else shape.allowance * usual
        # The windows of accounts do not begin at the same time.
        offset = shape.window * (number + 1) / shape.accounts
        return Account(allowance, shape.window, offset)

    def _submit_batches(self) -> Steps:
        shape = self.shape
        rate = shape.load * shape.workers / shape.service
        while self.result.submitted < shape.goals:
            size = (
                1 + int(self.arrivals.expovariate(1 / shape.batch))
                if shape.batch > 1
                else 1
            )
            size = min(size, shape.goals - self.result.submitted)
            self.result.submitted += size
            self.env.process(self._submit(size))
            yield self.env.timeout(self.arrivals.expovariate(rate / shape.batch))

    def _submit(self, size: int) -> Steps:
        """Queue a batch, whose goals have one priority and one account."""
        shape = self.shape
        ranks = range(len(shape.shares))
        (priority,) = self.arrivals.choices(ranks, shape.shares)
        account = self.arrivals.randrange(shape.accounts)
        submitted_at = self.env.now
        for first in range(0, size, shape.portion):
            if first:
                yield self.env.timeout(shape.upkeep)
            for _ in range(min(shape.portion, size - first)):
                service = self.arrivals.expovariate(1 / shape.service)
                goal = Goal(
                    -priority, 0, account, service, service / shape.rounds, submitted_at
                )
                self._enqueue(goal, submitted_at)
            self._deliver()

    def _enqueue(self, goal: Goal, since: float) -> None:
        # A goal of a later portion has been waiting since its submission.
        self.result.queue_area += self.env.now - since
        self._number += 1
        goal.number = self._number
        goal.queued_at = since
        self.result.enqueued += 1
        self._count_queued(1)
        heapq.heappush(self.ready, goal)

    def _count_queued(self, change: int) -> None:
        self.result.queue_area += self.queued * (self.env.now - self._changed_at)
        self._changed_at = self.env.now
        self.queued += change

    def _deliver(self) -> None:
        while self.idle and self.ready:
            goal = heapq.heappop(self.ready)
            account = self.accounts[goal.account]
            if self.env.now < account.until:
                # The limit holds it back until the account can be used again.
                self.result.holds += 1
                account.held.append(goal)
                continue
            self._begin(goal, account)

    def _begin(self, goal: Goal, account: Account) -> None:
        self._count_queued(-1)
        waited = self.env.now - goal.queued_at
        self.result.total_wait += waited
        if not goal.has_begun:
            goal.has_begun = True
            self.result.waits[-goal.rank].append(waited)
            # A run is charged as a whole when it begins.
            if account.use(goal.left, self.env.now):
                self.env.process(self._release(account))
        self.result.starts += 1
        self.idle -= 1
        self.running += 1
        self._running_of[goal.account] += 1
        self.env.process(self._run(goal, account))

    def _release(self, account: Account) -> Steps:
        """Queue what a pause has held back, when it is over."""
        yield self.env.timeout(account.until - self.env.now)
        held, account.held = account.held, []
        for goal in held:
            self.result.enqueued += 1
            heapq.heappush(self.ready, goal)
        self._deliver()

    def _run(self, goal: Goal, account: Account) -> Steps:
        shape = self.shape
        needed = goal.left + shape.start
        life = float("inf")
        if shape.between_losses is not None:
            life = self.failures.expovariate(1 / shape.between_losses)
        yield from self._work(min(needed, life), account)
        self.running -= 1
        self._running_of[goal.account] -= 1
        if life < needed:
            yield from self._lose_worker(goal, life)
            return
        self.result.ended += 1
        self.idle += 1
        self._deliver()

    def _work(self, seconds: float, account: Account) -> Steps:
        """Let a run work for so long. It keeps its worker while its account is paused."""
        while seconds > 1e-6:
            began = self.env.now
            paused = account.paused(began)
            pause = max(0.0, account.until - began)
            yield self.env.timeout(pause + seconds)
            seconds -= self.env.now - began - (account.paused(self.env.now) - paused)

    def _lose_worker(self, goal: Goal, worked: float) -> Steps:
        """Let another worker take a run over after the lease."""
        shape = self.shape
        done = max(0.0, worked - shape.start)
        kept = done - done % goal.round if goal.round else done
        self.result.losses += 1
        self.result.lost_work += worked - kept
        goal.left -= kept
        self.env.process(self._replace())
        seen = self.failures.uniform(0, shape.upkeep)
        noticed = self.failures.uniform(0, shape.upkeep)
        yield self.env.timeout(shape.lease - seen + noticed)
        self._enqueue(goal, self.env.now)
        self._deliver()

    def _replace(self) -> Steps:
        yield self.env.timeout(self.shape.replacement)
        self.idle += 1
        self._deliver()

    def _watch(self, pause: float = 10.0) -> Steps:
        """Note the fleet now and then."""
        result = self.result
        while result.ended < self.shape.goals:
            paused = sum(
                running
                for running, account in zip(
                    self._running_of, self.accounts, strict=True
                )
                if self.env.now < account.until
            )
            result.samples.append(
                Sample(
                    self.env.now,
                    self.queued,
                    self.running,
                    paused,
                    result.starts,
                    result.ended,
                    result.enqueued,
                    result.losses,
                    result.holds,
                )
            )
            yield self.env.timeout(pause)


def simulate(shape: FleetShape, seed: int = 1) -> ScaleResult:
    """Return what a simulation counts."""
    return ScaleModel(shape, seed).simulate()
