"""What the machine of a case has besides the project: doubles of tools that are not installed with the tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import psutil

from tests.honest.running import machine_of
from tests.support.arena import Arena

_COVERAGE = '''\
"""The part of pytest-cov that decides: --cov and --cov-fail-under."""

import coverage
import pytest


def pytest_addoption(parser):
    group = parser.getgroup("cov")
    group.addoption("--cov", default="src")
    group.addoption("--cov-fail-under", type=float, default=0)


def pytest_configure(config):
    config.pluginmanager.register(Plugin(config), "_cov")


class Plugin:
    def __init__(self, config):
        self.wanted = config.getoption("--cov-fail-under")
        self.coverage = coverage.Coverage(source=[config.getoption("--cov")], data_file=None)
        self.coverage.start()
        self.total = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session):
        result = yield
        self.coverage.stop()
        with open("/dev/null", "w") as nothing:
            self.total = self.coverage.report(file=nothing)
        if self.total < self.wanted:
            session.testsfailed += 1
        return result

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write(f"TOTAL {self.total:.0f}%\\n")
        if self.total < self.wanted:
            said = f"FAIL Required test coverage of {self.wanted:g}% not reached. Total coverage: {self.total:.2f}%"
            terminalreporter.write(said + "\\n", red=True, bold=True)
        else:
            said = f"Required test coverage of {self.wanted:g}% reached. Total coverage: {self.total:.2f}%"
            terminalreporter.write(said + "\\n", green=True)
'''


def coverage_plugin(arena: Arena) -> None:
    """Install a double of pytest-cov."""
    (machine_of(arena) / "pytest_cov.py").write_text(_COVERAGE)


def program(arena: Arena, name: str, text: str) -> None:
    """Install a program."""
    path = machine_of(arena) / name
    path.write_text(text)
    path.chmod(0o755)


_TOX = """\
import configparser, re, subprocess, sys
from pathlib import Path

settings = configparser.ConfigParser()
settings.read("tox.ini")
deps = [re.split(r"[=<>]", line)[0].strip() for line in settings["testenv"]["deps"].split()]
code = 0
site = Path(__file__).with_name("site")
sys.path.insert(0, str(site))
import os
os.environ["PYTHONPATH"] = os.pathsep.join(str(site / name) for name in deps)
for command in settings["testenv"]["commands"].strip().splitlines():
    code = code or subprocess.run(command, shell=True).returncode
print("  py: OK" if code == 0 else "  py: FAIL")
raise SystemExit(code)
"""


def tox(arena: Arena) -> None:
    """Install a double of tox, for which the package colour can be had."""
    machine = machine_of(arena)
    package = machine / "site/colour"
    package.mkdir(parents=True)
    (package / "colour.py").write_text("RED = 1\n")
    program(arena, "tox", f"#!{sys.executable}\n{_TOX}")


def in_zone(arena: Arena) -> None:
    """Set a time zone and a variable, as a shell does."""
    arena.environ |= {"TZ": "UTC-1", "SHOP": "yes"}


def new_environment(arena: Arena) -> None:
    """Make an environment with one installed package."""
    arena.write({".venv/lib/old/__init__.py": "", ".venv/pyvenv.cfg": "home = /usr\n"})


def leftover(arena: Arena) -> None:
    """End the processes that the agent left in the workspace."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.cwd() == str(arena.workspace):
                process.kill()


def rust(arena: Arena) -> None:
    """Let the machine have the Rust of this machine."""
    home = Path.home()
    cargo = shutil.which("cargo") or str(home / ".cargo/bin/cargo")
    arena.environ |= {
        "PATH": f"{arena.environ['PATH']}{os.pathsep}{Path(cargo).parent}",
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(home / ".rustup")),
        "CARGO_HOME": str(arena.folder / "cargo"),
    }
