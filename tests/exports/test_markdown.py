"""The summary of a run in Markdown, as a reader of CommonMark with GitHub's tables sees it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from goalrunner.core import events
from goalrunner.core.observation import Change, EvidenceRow
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.run_state import RunState
from goalrunner.core.verdict import GoalVerdict, ValidatorResult
from goalrunner.exports.markdown import block, code, escaped, summary_markdown
from tests.support import told_run
from tests.support.told_run import outcome

ATTACKS = [
    "<img src=x onerror=alert(1)>",
    "[click](https://evil.example/x)",
    "![pixel](https://evil.example/x.png)",
    "<!-- hidden -->",
    "</details><h1>complete</h1>",
    "`code` | ✅ | next cell",
    "a \\| b `",
    "``` ` ``",
    "**bold** _it_ ~~no~~ $x$",
    "# heading\n## heading\n- [x] done",
    "https://evil.example www.evil.example @maintainer #1 org/repo#2 person@evil.example",
    "&lt;script&gt;",
    "\x1b[31mred\u202e\x00",
    "",
]


def tokens(text: str) -> Iterator[Token]:
    """All tokens of a text, those inside of lines as well."""
    for token in (
        MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .parse(text)
    ):
        yield token
        yield from token.children or ()


def rendered(text: str) -> str:
    return str(
        MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .render(text)
    )


def row(**values: object) -> EvidenceRow:
    known: dict[str, object] = {
        "criterion": "the tests pass",
        "satisfied": True,
        "observation": "o7",
        "known": True,
    }
    return EvidenceRow.model_validate(
        {**known, "source": "shell", "command": "pytest -q", **values}
    )


def test_a_complete_run_has_figures_evidence_and_files_and_no_next_step() -> None:
    text = summary_markdown(
        outcome().model_copy(update={"evidence": (row(quote="43 passed"),)}),
        files=[
            Change(path="src/parser.py", kind="modified"),
            Change(path="new.py", kind="added"),
        ],
    )
    assert text.startswith(
        "## goal: complete\n\n> Make parse() accept empty input.\n\n2 rounds · 3 min 12 s · "
    )
    assert "| ✅ | the tests pass | `o7` `pytest -q` → `43 passed` |" in text
    assert "### Changed files\n\n- M `src/parser.py`\n- A `new.py`\n" in text
    assert "### Next" not in text
    assert "### Missing" not in text


def failed(*results: ValidatorResult) -> RunState:
    """The state of a run whose validators failed."""
    return told_run.state_of(
        events.RoundStarted(round=1, prompt="first"),
        events.RoundFinished(round=1),
        events.ValidatorsFinished(round=1, results=results),
    )


def test_a_run_that_is_not_complete_has_the_output_of_red_validators_and_the_commands_that_come_next() -> (
    None
):
    capped = outcome(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS)
    red = ValidatorResult(
        name="tests",
        passed=False,
        summary="2 failed",
        feedback="E  assert 1 == 2\n2 failed\n",
    )
    hidden = ValidatorResult(
        name="secret",
        passed=False,
        summary="exit 1",
        feedback="the case is ''",
        hidden=True,
    )
    text = summary_markdown(capped, state=failed(red, hidden))
    assert text.startswith("## goal: capped (max iterations)\n")
    assert (
        "<details><summary>tests: 2 failed</summary>\n\n```text\nE  assert 1 == 2\n2 failed\n```"
        in text
    )
    assert "the case is" not in text
    assert (
        "```sh\ngoal resume k3f9-make-parse --max-iterations 20  # continue\ngoal diff k3f9-make-parse"
        in text
    )


def test_a_verdict_of_the_judge_is_shown_with_what_it_misses() -> None:
    verdict = GoalVerdict(
        score=0.4, complete=False, missing="no proof of\nthe second case"
    )
    capped = outcome(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS).model_copy(
        update={"verdict": verdict}
    )
    assert (
        "### Missing\n\n```text\nno proof of\nthe second case\n```"
        in summary_markdown(capped)
    )


def test_protected_files_that_are_still_changed_come_before_the_message() -> None:
    left = {
        "labels": ("protected files changed: a.py",),
        "left_changed": ("a.py",),
        "message": "not complete after 2 rounds",
    }
    ended = outcome(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS)
    text = summary_markdown(ended.model_copy(update=left))
    restore = f"goal restore {ended.run_id} 0 --path a.py"
    assert text.index(restore) < text.index("not complete after 2 rounds")


def test_a_label_and_its_meaning_are_one_entry() -> None:
    text = summary_markdown(
        outcome().model_copy(update={"labels": ("self-judged", "flaky: tests")})
    )
    listed = (
        text.partition("### What weakens the result\n\n")[2]
        .partition("\n\n")[0]
        .splitlines()
    )
    assert (
        listed[0]
        == "- self-judged. Agent and judge are the same model, or the same program and not known to be different models."
    )
    assert [line[:15] for line in listed[1:]] == ["- flaky: tests."]


def test_each_citation_of_a_criterion_is_in_its_row_with_what_weakens_it() -> None:
    rows = (
        row(quote="43 passed"),
        row(
            observation="o9",
            fact="exit 0",
            reported_by="claude",
            stale="src/a.py changed",
        ),
        row(
            criterion="is documented",
            satisfied=False,
            missing="no README",
            observation="",
            known=False,
        ),
        row(criterion="is fast", observation="o99", known=False),
        row(criterion="is small", observation="", known=False),
    )
    text = summary_markdown(outcome().model_copy(update={"evidence": rows}))
    assert [
        line for line in text.splitlines() if line.startswith(("| ✅", "| ❌"))
    ] == [
        (
            "| ✅ | the tests pass | `o7` `pytest -q` → `43 passed`<br>`o9` `pytest -q` → `exit 0` (reported by claude)"
            " (stale: src/a.py changed) |"
        ),
        "| ❌ | is documented | missing: no README |",
        "| ✅ | is fast | `o99` does not exist |",
        "| ✅ | is small | no evidence is cited |",
    ]


@pytest.mark.parametrize("text", ATTACKS)
def test_texts_of_agents_stay_text(text: str) -> None:
    verdict = GoalVerdict(score=0.4, complete=False, missing=f"x{text}")
    evidence = (
        row(criterion=f"x{text}", quote=text, command=text),
        row(criterion="last", missing=text, satisfied=False),
    )
    red = ValidatorResult(
        name=f"x{text}", passed=False, summary=text, feedback=f"{text}\n{text}"
    )
    capped = outcome(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS).model_copy(
        update={
            "verdict": verdict,
            "evidence": evidence,
            "objective": text,
            "labels": (f"checks changed: {text}",),
        }
    )
    document = summary_markdown(
        capped, files=[Change(path=f"x{text}", kind="added")], state=failed(red)
    )
    document += summary_markdown(capped)
    markdown_tokens = list(tokens(document))
    plain = {
        token.type
        for token in tokens(
            summary_markdown(
                outcome(), state=failed(red.model_copy(update={"feedback": "x"}))
            )
        )
    }
    assert {token.type for token in markdown_tokens} <= plain | {
        *(
            "table_open",
            "thead_open",
            "tr_open",
            "th_open",
            "td_open",
            "tbody_open",
            "table_close",
            "thead_close",
        ),
        *(
            "tr_close",
            "th_close",
            "td_close",
            "tbody_close",
            "html_inline",
            "code_inline",
            "fence",
            "html_block",
        ),
        *(
            "bullet_list_open",
            "list_item_open",
            "bullet_list_close",
            "list_item_close",
            "softbreak",
        ),
    }
    assert {
        token.content for token in markdown_tokens if token.type == "html_inline"
    } <= {"<br>"}
    assert all(
        token.content.startswith(("<details><summary>", "</details>"))
        for token in markdown_tokens
        if token.type == "html_block"
    )
    cells = [token for token in markdown_tokens if token.type == "td_open"]
    assert len(cells) == 2 * 2 * 3, "two tables of two rows"
    assert "\x1b" not in document
    assert "\u202e" not in document


@pytest.mark.parametrize(
    "text",
    [
        "@maintainer",
        "#1",
        "org/repo#2",
        "https://evil.example",
        "WWW.evil.example",
        "a@b.c",
        "GH-12",
    ],
)
def test_prose_has_no_mention_reference_or_link_that_github_makes_of_plain_text(
    text: str,
) -> None:
    assert escaped(text) != text
    assert escaped(text).replace("\u200b", "") == text


@pytest.mark.parametrize("text", [text for text in ATTACKS if text])
def test_code_shows_the_text_itself(text: str) -> None:
    (inline,) = [token for token in tokens(code(text)) if token.type == "code_inline"]
    assert inline.content.strip() == " ".join(
        text.replace("\x1b[31m", "").replace("\u202e\x00", "").split()
    )
    (fence,) = [token for token in tokens(block(text)) if token.type == "fence"]
    assert (
        fence.content == text.replace("\x1b[31m", "").replace("\u202e\x00", "") + "\n"
    )


def test_what_is_very_long_is_cut() -> None:
    rows = tuple(
        row(criterion=f"{number} {'word ' * 1_000}", quote="x" * 9_000)
        for number in range(500)
    )
    files = [
        Change(path=f"src/{number}/{'x' * 200}.py", kind="added")
        for number in range(9_000)
    ]
    text = summary_markdown(
        outcome().model_copy(update={"evidence": rows}), files=files
    )
    assert len(text) < 65_536
    assert "and 450 more" in text
    assert "- and 8950 more" in text
