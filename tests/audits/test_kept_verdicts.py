"""The file of verdicts: what is found again, and which file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.audits.kept_verdicts import KeptVerdicts, TranscriptAudit
from goalrunner.core.errors import RecordError, UsageError


def verdict(key: str, *, complete: bool = True) -> TranscriptAudit:
    return TranscriptAudit(
        key=key, transcript="a.json", result="complete" if complete else "not complete"
    )


def test_a_verdict_is_found_by_its_key_in_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "made" / "verdicts.jsonl"
    verdicts = KeptVerdicts(path)
    for complete in (False, True):
        verdicts.add(verdict("a", complete=complete))
    again = KeptVerdicts(path)
    assert (again.get("a"), again.get("b")) == (verdict("a"), None)
    assert path.stat().st_mode & 0o777 == 0o600


def test_two_processes_add_to_one_file(tmp_path: Path) -> None:
    first, second = (KeptVerdicts(tmp_path / "verdicts.jsonl") for _ in range(2))
    first.add(verdict("a"))
    second.add(verdict("b"))
    first.add(verdict("c"))
    verdicts = KeptVerdicts(tmp_path / "verdicts.jsonl")
    assert [verdicts.get(key) is not None for key in "abc"] == [True, True, True]


def test_a_torn_line_stays_alone_and_is_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    KeptVerdicts(path).add(verdict("a"))
    path.write_bytes(path.read_bytes()[:-4])
    verdicts = KeptVerdicts(path)
    assert verdicts.get("a") is None
    verdicts.add(verdict("b"))
    assert KeptVerdicts(path).get("b") == verdict("b")


def test_a_verdict_of_another_version_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "verdicts.jsonl").write_text('{"key":"a","passed":true}\n')
    assert KeptVerdicts(tmp_path / "verdicts.jsonl").get("a") is None


@pytest.mark.parametrize(
    "content",
    [
        b'{"path": "a"}\n',
        b"a file of mine",
        b"a line of mine\n",
        b"[1]\n",
        b"3\n",
        b"\n",
    ],
)
def test_another_file_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"mine\.jsonl:1  not a verdict"):
        KeptVerdicts(path)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    verdicts = KeptVerdicts(tmp_path / "verdicts.jsonl")
    verdicts.path.unlink()
    verdicts.path.mkdir()
    with pytest.raises(RecordError, match="could not be written"):
        verdicts.add(verdict("a"))
    with pytest.raises(UsageError, match="verdicts cannot be kept there"):
        KeptVerdicts(verdicts.path)
