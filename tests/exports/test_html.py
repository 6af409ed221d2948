"""The page of a run: its parts, its links, what it leaves out, and texts of agents that try to be more than text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest

from goalrunner.batches.group_table import GroupRow, group_rows
from goalrunner.batches.ranking import GroupRun
from goalrunner.core import events
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Event, Record
from goalrunner.core.evidence_index import evidence_of
from goalrunner.core.observation import (
    ArtifactRef,
    DiffStat,
    Observation,
    TranscriptRef,
)
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    ValidatorResult,
)
from goalrunner.exports.html import page_text
from goalrunner.exports.run_page import Round, RunPage
from tests.support.told_run import HASH, created, message, numbered, started

OUTPUT = "2 failed, 41 passed\n"
REF = ArtifactRef(sha256=HASH, size=len(OUTPUT))


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._in_style = False
        self.style = ""
        self.feed(text)
        self.close()

    def handle_starttag(
        self, tag: str, attrs: Sequence[tuple[str, str | None]]
    ) -> None:
        """Keep an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._in_style = tag == "style"
        self.texts += [" "] if tag in ("td", "th") else []

    def handle_endtag(self, tag: str) -> None:
        """End the stylesheet."""
        self._in_style = False

    def handle_data(self, data: str) -> None:
        """Keep text."""
        if self._in_style:
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """The whole text, white space as one space."""
        return " ".join("".join(self.texts).split())

    def values(self, name: str, tag: str = "") -> list[str]:
        """The values of an attribute, of all elements or of one kind."""
        return [
            found[name]
            for one, found in self.elements
            if name in found and tag in ("", one)
        ]


def page(
    records: Sequence[Record],
    output: str = OUTPUT,
    words: str = "Done.",
    patches: Sequence[tuple[int | None, str]] = (),
) -> Page:
    """The page of these records, in which every output and every message is the same."""
    return Page(html(records, output, words, patches))


def html(
    records: Sequence[Record],
    output: str = OUTPUT,
    words: str = "Done.",
    patches: Sequence[tuple[int | None, str]] = (),
) -> str:
    """The same as text."""

    def ends(ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        data = output.encode()
        return (data, b"") if len(data) <= 2 * each else (data[:each], data[-each:])

    def read(_: TranscriptRef) -> str:
        return words

    run = RunPage(records, words=read, ends=ends)
    run.add_patches(patches)
    return page_text([run])


def two_rounds(
    hidden: bool = False, size: int = REF.size, said: str = "2 failed, 41 passed"
) -> list[Record]:
    """Round 1 fails a validator; in round 2 it passes, and the judge cites it and the agent's command."""
    ref = ArtifactRef(sha256=HASH, size=size)

    def checked(number: int, identifier: str, passed: bool) -> Event:
        result = ValidatorResult(
            name="tests", passed=passed, reason="passed" if passed else "red", command="pytest -q", duration=1.1,
            summary=said if not passed else "43 passed", tests_failed=0 if passed else 2, hidden=hidden, observation=identifier,
        )  # fmt: skip
        observation = Observation(
            id=identifier,
            source="validator tests",
            command="pytest -q",
            round=number,
            output=ref,
        )
        return events.ValidatorsFinished(
            round=number,
            results=(result,),
            **{"concealed" if hidden else "observations": (observation,)},
        )

    shell = Observation(
        id="o2",
        source="shell",
        facts=("exit 0",),
        command="cat parser.py",
        round=2,
        output=ref,
    )
    evidence = (
        Citation(observation="o3", quote="43 passed"),
        Citation(observation="[o2]", fact="exit 0"),
    )
    verdict = GoalVerdict(
        score=1.0,
        complete=True,
        criteria=(
            CriterionVerdict(criterion="it parses", satisfied=True, evidence=evidence),
        ),
    )
    return numbered(
        created(),
        started(),
        events.RoundStarted(round=1, prompt="first"),
        message(),
        events.UsageRecorded(
            account="agent",
            usage=Usage(input_tokens=900, output_tokens=100, cost_usd=0.1, calls=1),
        ),
        events.RoundFinished(round=1, steps=1),
        checked(1, "o1", passed=False),
        events.RoundStarted(round=2, prompt="retry"),
        events.ToolResultRecorded(
            tool_call_id="c",
            evidence_ref="o2",
            observation=shell,
            duration=0.1,
            summary="exit 0",
        ),
        events.RoundFinished(round=2, steps=1),
        checked(2, "o3", passed=True),
        events.UsageRecorded(
            account="judge",
            usage=Usage(input_tokens=90, output_tokens=10, cost_usd=0.02, calls=1),
        ),
        events.VerdictRecorded(round=2, verdict=verdict, citations_checked=2),
        events.RunEnded(stop_reason=StopReason.SATISFIED, message="verdict of round 2"),
    )


def test_a_page_has_every_part_of_a_run() -> None:
    html_page = page(two_rounds())
    assert (
        "Complete after 2 rounds: 1 criterion is met, by 2 citations that the runner checked."
        in html_page.text
    )
    assert {"overview", "criteria", "rounds", "changes", "usage", "labels"} <= set(
        html_page.values("id")
    )
    assert "1 ✗failed: not complete 0.00 2 4.0 s 1,000 tokens · $0.10" in html_page.text
    assert "2 ✓passed: complete 1.00 0 6.0 s 100 tokens · $0.02" in html_page.text
    assert "agent 1 1,000 tokens 900 100 $0.10 91 %" in html_page.text
    assert "judge 1 100 tokens 90 10 $0.02 9 %" in html_page.text


def test_each_citation_is_a_link_to_its_observation_on_the_page() -> None:
    html_page = page(two_rounds())
    assert [
        link
        for link in html_page.values("href")
        if link.startswith("#o") and link[2:].isdigit()
    ] == [
        "#o3",
        "#o2",
        "#o3",
    ]
    identifiers = html_page.values("id")
    assert len(identifiers) == len(set(identifiers))
    assert {link[1:] for link in html_page.values("href")} <= set(identifiers)


def test_a_citation_of_an_observation_that_does_not_exist_is_no_link() -> None:
    criterion = CriterionVerdict(
        criterion="c",
        satisfied=False,
        evidence=(Citation(observation="javascript:alert(1)", quote="x"),),
    )
    verdict = GoalVerdict(score=0, complete=False, missing="m", criteria=(criterion,))
    html_page = page(
        [
            *two_rounds()[:-2],
            *_after(
                two_rounds()[:-2], events.VerdictRecorded(round=2, verdict=verdict)
            ),
        ]
    )
    assert "javascript:alert(1) no such observation" in html_page.text
    assert not [link for link in html_page.values("href") if not link.startswith("#")]


def _after(records: Sequence[Record], event: Event) -> list[Record]:
    return [records[-1].model_copy(update={"seq": records[-1].seq + 1, "event": event})]


def test_charts_have_a_point_for_each_round() -> None:
    html_page = page(two_rounds())
    assert html_page.values("points") == [
        "8.0,90.0 292.0,10.0 ",
        "8.0,23.3 292.0,10.0 ",
        "8.0,10.0 292.0,90.0 ",
    ]
    assert [label.partition(".")[0] for label in html_page.values("aria-label", "svg")] == [
        "Score, round 1: 0", "Cost, round 1: $0", "Failing tests, round 1: 2, round 2: 0",
    ]  # fmt: skip


def test_a_run_in_which_no_person_decided_has_no_part_about_approvals() -> None:
    asked = events.ApprovalRequested(
        approval_id="a1", kind="shell", action="deploy", rule="deploy*"
    )
    html_page = page([*two_rounds()[:-1], *_after(two_rounds()[:-1], asked)])
    assert "approvals" in html_page.values("id")
    assert "#approvals" in html_page.values("href")
    html_page = page(two_rounds())
    assert "approvals" not in html_page.values("id")
    assert "#approvals" not in html_page.values("href")


def test_without_a_judge_there_is_no_chart_of_scores() -> None:
    def unjudged(event: Event) -> Event:
        return started(judge="") if isinstance(event, events.RunStarted) else event

    told = [unjudged(record.event) for record in two_rounds()]
    html_page = page(
        numbered(
            *(event for event in told if not isinstance(event, events.VerdictRecorded))
        )
    )
    assert [
        label.partition(",")[0] for label in html_page.values("aria-label", "svg")
    ] == [
        "Cost",
        "Failing tests",
    ]


@pytest.mark.parametrize(
    ("summary", "number"),
    [
        ("2 failed, 41 passed", 2),
        ("1 failed, 2 errors", 3),
        ("3 tests, FAILED, failures=2, errors=1", 3),
        ("4 passing, 1 failing", 1),
        ("exit 1", 1),
    ],
)
def test_failing_tests_are_those_that_the_test_runner_reports(
    summary: str, number: int
) -> None:
    red = ValidatorResult(name="tests", passed=False, summary=summary)
    green = ValidatorResult(name="lint", passed=True, summary="0 failed")
    assert Round(1, results=(red, green)).failing == number


def test_unknown_spend_is_not_drawn_as_nothing() -> None:
    def silent(event: Event) -> Event:
        return (
            event.model_copy(update={"usage": Usage.unknown()})
            if isinstance(event, events.UsageRecorded)
            else event
        )

    html_page = page(
        [
            record.model_copy(update={"event": silent(record.event)})
            for record in two_rounds()
        ]
    )
    assert [
        label.partition(",")[0] for label in html_page.values("aria-label", "svg")
    ] == [
        "Score",
        "Failing tests",
    ]
    assert "agent 1 tokens unknown unknown unknown cost unknown" in html_page.text


def test_a_page_needs_nothing_from_elsewhere_and_allows_nothing_but_its_own_style() -> (
    None
):
    html_page = page(two_rounds())
    digest = base64.b64encode(
        hashlib.sha256(html_page.style.encode()).digest()
    ).decode()
    (policy,) = [
        value for value in html_page.values("content") if "default-src" in value
    ]
    assert (
        policy
        == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert not {"script", "link", "iframe", "img", "object", "base", "form"} & {
        tag for tag, _ in html_page.elements
    }
    assert not html_page.values("style")
    assert not html_page.values("src")
    assert "url(" not in html_page.style
    assert "@import" not in html_page.style


HOSTILE = (
    "<script>alert(1)</script>",
    "</pre></details><img src=x onerror=alert(1)>",
    "</title></style><style>*{display:none}</style>",
    '" onmouseover="alert(1)" x="',
    "' autofocus onfocus=alert(1) '",
    "<svg onload=alert(1)><a xlink:href=javascript:alert(1)>x</a></svg>",
    "<link rel=stylesheet href=//example.org><base href=//example.org>",
    "&lt;script&gt;&#60;script&#62;&#x3c;b&#x3e;",
    "{{ 7 * 7 }}{% raw %}{# #}",
    "javascript:alert(1)",
    "]]><!-- <b> --><![CDATA[",
)


def hostile_run(text: str, instead: str | None = None) -> str:
    """The page of a run in which every text of the agent, the judge and a person is this one. `instead`: another one."""
    text_shown = text if instead is None else instead
    lines = "".join(f"+{line}\n" for line in text_shown.split("\n"))
    patch = f"diff --git a/x.html b/x.html\n--- a/x.html\n+++ b/x.html\n@@ -0,0 +1,{lines.count('+')} @@\n{lines}"
    criterion = CriterionVerdict(
        criterion=text_shown,
        satisfied=False,
        missing=text_shown,
        evidence=(Citation(observation="o1", quote=text_shown),),
    )
    observation = Observation(
        id="o1",
        source="shell",
        facts=(text_shown,),
        command=text_shown,
        round=1,
        output=REF,
        reported_by=text_shown,
    )
    verdict = GoalVerdict(
        score=0, complete=False, missing=text_shown, criteria=(criterion,)
    )
    records = numbered(
        created(text_shown),
        started(agent=text_shown),
        events.RoundStarted(round=1, prompt="first"),
        message(),
        events.ToolResultRecorded(
            tool_call_id="c",
            evidence_ref="o1",
            observation=observation,
            summary=text_shown,
        ),
        events.ApprovalRequested(
            approval_id="a1", kind="shell", action=text_shown, rule=text_shown
        ),
        events.ApprovalRecorded(
            approval_id="a1", decision="denied", by=text_shown, reason=text_shown
        ),
        events.RoundFinished(round=1, steps=1),
        events.VerdictRecorded(round=1, verdict=verdict, refusals=(text_shown,)),
        events.RunEnded(stop_reason=StopReason.MAX_ITERATIONS, message=text_shown),
    )
    return html(records, text_shown, text_shown, [(None, patch), (1, patch)])


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_of_an_agent_is_only_text(text: str) -> None:
    tried, harmless = Page(hostile_run(text)), Page(hostile_run(text, "x" * len(text)))
    elements, expected = (
        [(tag, sorted(found)) for tag, found in one.elements if tag != "i"]
        for one in (tried, harmless)
    )
    assert elements == expected
    assert tried.style == harmless.style
    assert "".join("".join(tried.texts).split()).count("".join(text.split())) > 10


def test_control_and_direction_characters_are_removed() -> None:
    text = html(two_rounds(), "a\x1b[31mred\x1b[0m \u202egnp.exe\u2066 \x00\x08b\n")
    assert "ared gnp.exe b" in text
    assert not set(text) & set("\x1b\x00\x08\u202e\u2066")


def test_the_middle_of_a_long_output_is_left_out_with_the_command_that_prints_it() -> (
    None
):
    html_page = page(two_rounds(size=1_000_000), output="a" * 500_000 + "b" * 500_000)
    assert (
        html_page.text.count(
            "992,000 bytes are left out here: goal show k3f9-make-parse o3"
        )
        == 1
    )
    assert len(html_page.text) < 40_000


def test_the_output_of_a_hidden_validator_is_not_on_the_page() -> None:
    html_page = page(two_rounds(hidden=True), output="the hidden case\n")
    assert html_page.text.count("the hidden case") == 1  # of the agent's command
    assert (
        "The output of a hidden validator is not on this page: goal show k3f9-make-parse o1"
        in html_page.text
    )
    assert "the case of the feedback" not in html_page.text
    records = two_rounds(hidden=True, said="exit 1")[:7]
    ended = page(
        [
            *records,
            *_after(records, events.RunEnded(stop_reason=StopReason.MAX_ITERATIONS)),
        ]
    )
    assert "the case of the feedback" not in ended.text


def test_a_run_that_is_not_complete_says_what_is_missing_and_what_comes_next() -> None:
    records = [
        *two_rounds()[:7],
        *_after(
            two_rounds()[:7], events.RunEnded(stop_reason=StopReason.MAX_ITERATIONS)
        ),
    ]
    html_page = page(records)
    assert (
        "Capped after 1 round (max iterations): validator tests: 2 failed, 41 passed"
        in html_page.text
    )
    assert "goal resume k3f9-make-parse --max-iterations" in html_page.text


def test_a_run_that_has_not_ended_has_a_page() -> None:
    assert "Not ended: 1 round checked so far." in page(two_rounds()[:9]).text
    assert "Not ended: 0 rounds checked so far." in page(two_rounds()[:2]).text


def compared(ranking: Sequence[GroupRow] = ()) -> str:
    """The page of two runs, of a group if there is a ranking."""
    both = (two_rounds(), two_rounds()[:7])
    pages = [
        RunPage(records, words=lambda _: "", ends=lambda *_: (b"", b""))
        for records in both
    ]
    return page_text(pages, ranking)


def ranking() -> list[GroupRow]:
    """Two verified runs of a group, and one that never began."""
    changes = DiffStat(files=1, added=9, removed=2)
    runs = [
        GroupRun("1", "claude", "k3f9-one", "complete", 1, 0.95, changes, 0.2, 1_200),
        GroupRun("2", "codex", "b2aa-two", "complete", 3, 1.0),
        GroupRun("3", "gemini <b>", "", "pending"),
    ]
    return group_rows(runs)


def test_the_page_of_a_group_has_its_runs_in_their_order() -> None:
    text = compared(ranking())
    cells = [
        re.sub("<[^>]+>", "|", row).strip("|").split("|")
        for row in re.findall(r"<tr><td>.*?</tr>", text)
    ]
    texts = [[cell for cell in row if cell] for row in cells]
    assert texts == [
        [
            *("1", "claude", "k3f9-one", "complete", "1 failure", "0.95"),
            *("1 file changed, +9 −2", "$0.20", "1,200 tokens"),
            "fewer failures of hidden validators",
        ],
        ["2", "codex", "b2aa-two", "complete", "3 failures", "1.00"],
        ["gemini &lt;b&gt;", "pending"],
    ]
    assert "Two runs side by side" in text


def test_a_page_reads_the_records_once_and_takes_its_evidence_from_them() -> None:
    run_page = RunPage(
        iter(two_rounds()),
        words=lambda _: "",
        ends=lambda *_: (b"", b""),
        run_path="/runs/k3f9-one",
    )
    state, rows = evidence_of(two_rounds())
    assert state is not None
    assert run_page.outcome == outcome_of(state, "/runs/k3f9-one").model_copy(
        update={"evidence": rows}
    )
    with pytest.raises(UsageError, match="the log of run k3f9-one has no events"):
        RunPage(
            [],
            words=lambda _: "",
            ends=lambda *_: (b"", b""),
            run_path="/runs/k3f9-one",
        )


def test_two_runs_are_drawn_to_one_scale() -> None:
    html_page = Page(compared())
    assert html_page.values("points")[-1] == "8.0,10.0 "
    assert html_page.text.count("scale 0 to 2") == 2
    assert not [link for link in html_page.values("href") if link != "#main"]
