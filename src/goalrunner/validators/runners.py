"""The one table of known test runners. Owns how each is recognised in a command line, and where its summary is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from goalrunner.shell import Program, programs
from goalrunner.validators import summaries
from goalrunner.validators.summaries import Summary

_Words = tuple[str, ...]


@dataclass(frozen=True)
class Runner:
    """A test runner. `arguments` gives those of a call of it, or None; `read` its last summary in an output's lines."""

    name: str
    arguments: Callable[[Program], _Words | None]
    read: Callable[[Sequence[str]], Summary | None]
    idle: frozenset[str] = frozenset()
    """Options with which it runs no test at all."""


@dataclass(frozen=True)
class Call:
    """A runner that a command line calls directly."""

    runner: Runner
    arguments: _Words
    program: Program

    @property
    def tests(self) -> bool:
        """Whether it is asked to run tests, rather than to list them or to say its version."""
        return not any(word.partition("=")[0] in self.runner.idle for word in self.arguments)


def calls(line: str) -> tuple[Call, ...]:
    """Every direct call of a known runner in a command line: `pytest -q`, `cd x && A=1 uv run python -m pytest`, ...

    What a Makefile, a script or another tool calls in its turn is no direct call.
    """
    found: list[Call] = []
    for program in programs(line):
        for runner in RUNNERS:
            arguments = runner.arguments(program)
            if arguments is not None:
                found.append(Call(runner, arguments, program))
                break
    return tuple(found)


def _named(*names: str) -> Callable[[Program], _Words | None]:
    return lambda program: program.words[1:] if program.name in names else None


def _unittest(program: Program) -> _Words | None:
    return program.words[1:] if program.module and program.name == "unittest" else None


def _go(program: Program) -> _Words | None:
    return program.words[2:] if program.name == "go" and program.words[1:2] == ("test",) else None


def _node_test(program: Program) -> _Words | None:
    return program.words[1:] if program.name == "node" and "--test" in program.words else None


def _cargo(program: Program) -> _Words | None:
    words = program.words
    if program.name != "cargo":
        return None
    at = 2 if words[1:2] and words[1].startswith("+") else 1
    return words[at + 1 :] if words[at : at + 1] and words[at] in ("test", "t") else None


_PYTEST_IDLE = frozenset(
    """
    --collect-only --collectonly --co --version -V -VV --help -h --fixtures --funcargs --fixtures-per-test --markers
    --setup-plan --setup-only --cache-show
    """.split()  # noqa: SIM905 - a table, to be read
)

RUNNERS: tuple[Runner, ...] = (
    Runner("pytest", _named("pytest", "py.test"), summaries.pytest, _PYTEST_IDLE),
    Runner("unittest", _unittest, summaries.unittest, frozenset({"-h", "--help"})),
    Runner("jest", _named("jest", "jest.js"), summaries.jest, frozenset({"--listTests", "--version", "--showConfig"})),
    Runner("vitest", _named("vitest", "vitest.mjs"), summaries.vitest, frozenset({"list", "--version"})),
    Runner(
        "mocha", _named("mocha", "_mocha", "mocha.js"), summaries.mocha, frozenset({"--dry-run", "--version", "--help"})
    ),
    Runner("node --test", _node_test, summaries.node),
    Runner("go test", _go, summaries.go, frozenset({"-list", "-c", "-n"})),
    Runner("cargo test", _cargo, summaries.cargo, frozenset({"--no-run", "--list"})),
)
"""Every runner whose words about itself are understood."""
