"""`goal memory` on the command line."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from tests.support.kept_run import kept_run

Capture = pytest.CaptureFixture[str]


def test_a_fact_is_promoted_listed_corrected_and_forgotten(
    own_home: Path, capsys: Capture
) -> None:
    kept_run(own_home)
    assert (
        main(["memory", "add", "k3f9", "o1", "--kind", "fact", "--expires", "90d"]) == 0
    )
    said = capsys.readouterr().out
    found = re.search(
        r"^(m\w+) +fact +parsers +o1 of k3f9-make-parse +low +(\S+) ",
        said,
        re.MULTILINE,
    )
    assert found is not None, said
    assert found[2] == (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
    assert (
        main(
            [
                "memory",
                "add",
                "k3f9",
                "o1",
                "--kind",
                "fact",
                "--text",
                "it gives None",
                "--replaces",
                found[1],
            ]
        )
        == 0
    )
    new = capsys.readouterr().out.splitlines()[1].split()[0]
    assert main(["memory"]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == [
        "ID",
        "KIND",
        "OWNER",
        "SOURCE",
        "SENSITIVITY",
        "EXPIRES",
        "TEXT",
    ]
    assert re.fullmatch(
        rf"{new}  fact  parsers  o1 of k3f9-make-parse  low          never    it gives None",
        row,
    )
    assert main(["memory", "--json", "--owner", "parsers"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["memory_id"], item["replaces"], item["expired"]) == (
        new,
        found[1],
        False,
    )
    assert main(["memory", "forget", new]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"forgotten  {new}  it gives None",
        f"forgotten  {found[1]}  parse() returns an empty Document",
    ]
    assert main(["memory"]) == 0
    assert capsys.readouterr().err.startswith(
        "No facts are kept. To keep one: goal memory add RUN ITEM"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["memory", "add", "k3f9", "o1", "--kind", "fact", "--expires", "soon"],
            '"soon" is not valid; use "90d", "12h" or "30m"',
        ),
        (
            ["memory", "add", "k3f9", "o1", "--kind", "rumour"],
            "Invalid value for '--kind'",
        ),
        (["memory", "add", "none", "o1", "--kind", "fact"], 'no run "none"'),
        (
            ["memory", "forget", "m123456"],
            'there is no kept fact with the id "m123456"',
        ),
    ],
)
def test_what_cannot_be_done_as_asked(
    own_home: Path, capsys: Capture, arguments: list[str], said: str
) -> None:
    kept_run(own_home)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_of_whose_facts_one_was_promoted_still_verifies(
    own_home: Path, tmp_path: Path, capsys: Capture
) -> None:
    from tests.support.forking import goal
    from tests.support.recordings import agent, recording, shell

    model = recording(
        tmp_path / "agent.jsonl", agent("", shell("touch made")), agent("done")
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "goal.toml").write_text(
        f'objective = "x"\nvalidator = "test -e made"\nmodel = "{model}"\nowner = "ann"\n'
        '[memory]\npromote = ["fact"]\n[workspace]\npath = "work"\n'
    )
    ended = goal("run", "goal.toml", cwd=tmp_path)
    assert ended.code == 0, ended
    (run,) = (own_home / "runs").iterdir()
    assert (
        main(
            [
                "memory",
                "add",
                run.name,
                "o2",
                "--kind",
                "fact",
                "--text",
                "it is made by touching it",
            ]
        )
        == 0
    )
    capsys.readouterr()
    assert main(["verify", run.name]) == 0, capsys.readouterr()
    assert main(["show", run.name]) == 0
    assert re.search(r"· memory +m\w+ +fact from o2", capsys.readouterr().out)
