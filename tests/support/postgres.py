"""A real PostgreSQL of the tests: its own folder and port, started and ended by them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
"""Where Debian puts the programs of the server, which are not on PATH."""
SETTINGS = {
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
}


def server_program(name: str) -> str | None:
    """The path of a program of PostgreSQL; None if it is not installed."""
    path = os.pathsep.join((*map(str, FOLDERS), os.environ.get("PATH", "")))
    return shutil.which(name, path=path)


@dataclass
class Server:
    """A server that may be killed and started again."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Beside, or instead of, `SETTINGS`."""

    @property
    def user(self) -> str | None:
        """Root may not run the server."""
        return "postgres" if os.geteuid() == 0 else None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        """Make the files of a new server."""
        self.folder.mkdir(mode=0o700, parents=True)
        if self.user:
            shutil.chown(self.folder, self.user)
        initdb = server_program("initdb")
        assert initdb is not None
        options = ("--auth=trust", "--username=postgres", "--no-sync", "-E", "UTF8")
        subprocess.run(
            [initdb, "-D", str(self.folder / "data"), *options],
            user=self.user,
            check=True,
            capture_output=True,
            cwd="/",
        )

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        postgres = server_program("postgres")
        assert postgres is not None
        values = {**SETTINGS, **self.settings}
        settings = [f"-c{name}={value}" for name, value in values.items()]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(postgres, "-D", str(self.folder / "data"), "-p", str(self.port)),
                    *("-k", str(self.folder), *settings),
                ],
                user=self.user,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        import psycopg

        until = time.monotonic() + 60
        while True:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "log").read_text()
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self, number: int = signal.SIGQUIT) -> None:
        """End it: SIGQUIT is the mode "immediate", as after a power cut."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def new_database(self, name: str) -> str:
        """Make an empty database; return its URL."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url(name)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def server(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A running server in a new folder; afterwards nothing of it is left."""
    running = Server(folder, free_port(), settings=settings or {})
    running.make()
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)
