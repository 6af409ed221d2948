"""Logs of Inspect, which its own library reads; some tests need the extra `inspect`."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Observation
from goalrunner.transcripts import read_transcript


def test_without_its_library_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", "{}")
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(UsageError, match="which is not installed") as caught:
        read_transcript(path)
    assert "pip install 'goalrunner[inspect]'" in caught.value.hint
    path.write_text(
        '{"version": 2, "status": "success", "eval": {"task": "t"}, "samples": [{"id": 1}]}'
    )
    with pytest.raises(UsageError, match="which is not installed"):
        read_transcript(path)


def test_another_archive_is_no_transcript(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "43 passed")
    with pytest.raises(UsageError, match="the format of this transcript is not known"):
        read_transcript(path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with two samples, written by the library."""
    pytest.importorskip("inspect_ai")
    from inspect_ai import log, model  # type: ignore[import-not-found,unused-ignore]
    from inspect_ai.tool import ToolCall, ToolCallError  # type: ignore[import-not-found,unused-ignore]

    def messages(output: str) -> list[object]:
        call = ToolCall(id="a", function="bash", arguments={"cmd": "pytest -q"})
        lost = ToolCall(id="b", function="bash", arguments={"cmd": "sleep 99"})
        return [
            model.ChatMessageUser(content="Make the tests pass."),
            model.ChatMessageAssistant(
                content="43 passed, I think.", tool_calls=[call, lost]
            ),
            model.ChatMessageTool(content=output, tool_call_id="a", function="bash"),
            model.ChatMessageTool(
                content="",
                tool_call_id="b",
                function="bash",
                error=ToolCallError(type="timeout", message="Timed out"),
            ),
        ]

    samples = [
        log.EvalSample(
            id=name, epoch=1, input="i", target="t", messages=messages(output)
        )
        for name, output in (("one", "2 failed"), ("two", "43 passed"))
    ]
    spec = log.EvalSpec(
        created="2026-11-21T20:44:19+00:00",
        task="t",
        dataset=log.EvalDataset(),
        model="m",
        config=log.EvalConfig(),
    )
    path = tmp_path / "log.eval"
    log.write_eval_log(
        log.EvalLog(status="success", eval=spec, samples=samples), str(path)
    )
    return path


def test_one_sample_of_a_log_is_chosen(log: Path) -> None:
    for name in (log, f"{log}#three"):
        with pytest.raises(
            UsageError,
            match=rf"the log has 2 samples; choose one, as {log}#ID: one:1, two:1",
        ):
            read_transcript(name)
    trail = read_transcript(f"{log}#one:1")
    assert trail.format == "inspect"
    assert [trail.read(item) for item in trail.items] == [
        "43 passed, I think.",
        "2 failed",
        "Timed out",
    ]
    observed = [item for item in trail.items if isinstance(item, Observation)]
    assert [(item.heading, item.command) for item in observed] == [
        ("[o1] bash, reported by inspect", "pytest -q"),
        ("[o2] bash, reported by inspect (error)", "sleep 99"),
    ]


def test_texts_that_are_stored_apart_are_read(log: Path) -> None:
    name, file = "1" * 32, "samples/one_epoch_1.json"
    with zipfile.ZipFile(log) as archive:
        files = {known: archive.read(known) for known in archive.namelist()}
    assert b'"attachments":{}' in files[file]
    kept = json.dumps({name: "2 failed"}).encode()
    sample = files[file].replace(b'"2 failed"', f'"attachment://{name}"'.encode())
    files[file] = sample.replace(b'"attachments":{}', b'"attachments":' + kept)
    with zipfile.ZipFile(log, "w") as archive:
        for known, data in files.items():
            archive.writestr(known, data)
    trail = read_transcript(f"{log}#one")
    assert trail.read(trail.items[1]) == "2 failed"


def test_a_log_is_recognised_by_its_content(log: Path) -> None:
    renamed = log.rename(log.with_name("notes.txt"))
    assert read_transcript(f"{renamed}#two").format == "inspect"


def test_a_log_in_json_is_read_as_well(log: Path) -> None:
    import inspect_ai.log as library  # type: ignore[import-not-found,unused-ignore]

    path = log.with_name("notes.txt")
    library.write_eval_log(
        library.read_eval_log(str(log)), str(log.with_suffix(".json")), format="json"
    )
    log.with_suffix(".json").rename(path)
    trail = read_transcript(f"{path}#one")
    assert (trail.format, trail.read(trail.items[1])) == ("inspect", "2 failed")


def test_a_torn_log_is_an_error(log: Path) -> None:
    data = log.read_bytes()
    log.write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match=str(log)):
        read_transcript(f"{log}#one")
