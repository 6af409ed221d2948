"""The reader of logs of Inspect."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from goalrunner.core.errors import UsageError
from goalrunner.core.messages import at, block_text, text
from goalrunner.core.observation import Trail
from goalrunner.core.trail_builder import Deliverable
from goalrunner.transcripts.chat import ChatReader
from goalrunner.transcripts.source import TranscriptSource


class InspectReader(ChatReader):
    """Logs of Inspect, read by its own library."""

    DESCRIPTION = (
        "log of Inspect, .eval or JSON; one sample is FILE#ID or FILE#ID:EPOCH "
        "(extra: inspect)"
    )
    HAS_PARTS = True
    reporter = "inspect"
    # An .eval file is a ZIP archive.
    _ARCHIVE = b"PK\x03\x04"
    _MOST_NAMES = 8

    def matches(self, source: TranscriptSource) -> bool:
        if source.head.startswith(self._ARCHIVE):
            return b"_journal/" in source.head
        task = at(source.members.get("eval"), "task")
        return task is not None and "status" in source.members

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail of one sample."""
        try:
            log: Any = import_module("inspect_ai.log")
        except ImportError:
            raise UsageError(
                f"{source.name}: logs of Inspect are read by its library, "
                "which is not installed",
                "pip install 'goalrunner[inspect]'",
            ) from None
        try:
            messages = self._messages(log, source)
        except UsageError:
            raise
        # A damaged log raises errors of the archive, of JSON and of the models.
        except Exception as error:
            raise source.error(
                f"the library of Inspect cannot read the log: {error}"
            ) from error
        for message in messages:
            self._add_message(message)
        return self.trail.finish(deliverable)

    def _messages(self, log: Any, source: TranscriptSource) -> list[dict[str, Any]]:
        """Return the messages of the chosen sample, read by the module `log`."""
        file = str(source.piped or source.path)
        is_archive = source.head.startswith(self._ARCHIVE)
        log_format = "eval" if is_archive else "json"
        summaries = log.read_eval_log_sample_summaries(file, format=log_format)
        samples = [(summary.epoch, summary.id) for summary in summaries]
        epoch, name = self._choose_sample(source, samples)
        # Long texts are stored apart from the messages.
        sample = log.read_eval_log_sample(
            file, id=name, epoch=epoch, resolve_attachments=True, format=log_format
        )
        return [message.model_dump(mode="json") for message in sample.messages]

    def _add_message(self, message: dict[str, Any]) -> None:
        if message["role"] == "tool":
            output = block_text(message["content"])
            if not output:
                output = text(at(message, "error", "message"))
            self.trail.result(
                text(message.get("tool_call_id")),
                output,
                ("error",) if message.get("error") else (),
                tool=text(message.get("function")),
            )
        elif message["role"] == "user" and message.get("source") != "input":
            # Written by the scaffold, so no person said it.
            self.trail.user()
        else:
            calls = [
                {**call, "name": call.get("function")}
                for call in message.get("tool_calls") or ()
            ]
            self.add({**message, "tool_calls": calls})

    def _choose_sample(
        self, source: TranscriptSource, samples: list[tuple[int, Any]]
    ) -> tuple[int, Any]:
        """Return epoch and id of the sample that is selected, or of the only one."""
        selected = []
        for epoch, name in samples:
            if source.part in ("", str(name), f"{name}:{epoch}"):
                selected.append((epoch, name))
        if len(selected) == 1:
            return selected[0]
        first_samples = samples[: self._MOST_NAMES]
        names = ", ".join(f"{name}:{epoch}" for epoch, name in first_samples)
        raise source.error(
            f"the log has {len(samples)} samples; choose one, "
            f"as {source.name}#ID: {names}"
        )
