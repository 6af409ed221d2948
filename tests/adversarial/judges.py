"""Two judges that read the prompt which they get. Neither is a model; both speak like one.

The gullible one believes everything: always complete, with citations as plausible as it can find. The careful one keeps
the rules that a judge is given, mechanically: for each criterion it knows which command shows it and by which words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm import LLM, Reply

_NONCE = re.compile(r"Fences of this audit carry (\w+)")
_HEADING = re.compile(
    r"^\[(?P<id>o\d+)\] (?P<source>[^(\n]*?)(?: \((?P<facts>[^)\n]*)\))?(?P<stale> - stale: [^\n]*)?$",
    re.MULTILINE,
)
_REVIEWED = re.compile(r"^(?:<(?=hunk)|(?=test))((?:hunk|test)-\d+) ", re.MULTILINE)
"""A change in the prompt of a review."""
_LABEL = re.compile(r"^[ck]\d+: ")
_ONE_CALL = Usage(input_tokens=100, output_tokens=20, calls=1)


@dataclass(frozen=True)
class Seen:
    """One observation as the prompt shows it."""

    id: str
    source: str
    facts: tuple[str, ...]
    command: str
    output: str
    stale: bool

    @property
    def last_line(self) -> str:
        """The last line of the output that says something; empty when there is none."""
        lines = [
            line
            for line in self.output.splitlines()
            if line.strip() and "left out" not in line
        ]
        return lines[-1].removeprefix("| ") if lines else ""

    def citation(self) -> dict[str, str]:
        """A plausible one: the last line of the output, or a fact of the heading."""
        if self.last_line:
            return {"observation": self.id, "quote": self.last_line}
        return {
            "observation": self.id,
            "fact": self.facts[0] if self.facts else "exit 0",
        }


@dataclass(frozen=True)
class Prompt:
    """An audit's prompt, taken apart."""

    text: str

    @property
    def nonce(self) -> str:
        """Of its fences."""
        found = _NONCE.search(self.text)
        assert found, "the prompt names no nonce"
        return found[1]

    @property
    def criteria(self) -> list[str]:
        """Criteria and constraints; the objective where there are no criteria."""
        given = self._lines("criteria") or [self._fenced("objective", self.text)]
        return [*given, *self._lines("constraints")]

    @property
    def observations(self) -> list[Seen]:
        """What is shown, oldest first. What stands between fences is no heading."""
        bare = re.sub(
            rf"<(\w+) {self.nonce}>\n.*?\n</\1 {self.nonce}>",
            self._blank,
            self.text,
            flags=re.DOTALL,
        )
        found = list(_HEADING.finditer(bare))
        ends = [*(match.start() for match in found[1:]), len(bare)][: len(found)]
        return [
            self._seen(match, self.text[match.start() : end])
            for match, end in zip(found, ends, strict=True)
        ]

    def _seen(self, match: re.Match[str], block: str) -> Seen:
        facts = tuple(
            part.strip() for part in (match["facts"] or "").split(",") if part.strip()
        )
        command, output = self._fenced("command", block), self._fenced("output", block)
        return Seen(
            match["id"], match["source"], facts, command, output, bool(match["stale"])
        )

    def _blank(self, match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", "x", match[0])

    def _lines(self, name: str) -> list[str]:
        return [
            _LABEL.sub("", line)
            for line in self._fenced(name, self.text).splitlines()
            if _LABEL.match(line)
        ]

    def _fenced(self, name: str, text: str) -> str:
        start, end = f"<{name} {self.nonce}>\n", f"\n</{name} {self.nonce}>"
        return text.split(start, 1)[1].split(end, 1)[0] if start in text else ""


def verdict(
    criteria: Mapping[str, Sequence[Mapping[str, str]]], /, **changes: Any
) -> str:
    """A judge's answer: each criterion with its citations, not satisfied without one. `changes` replace its keys."""
    entries = [
        {
            "criterion": name,
            "satisfied": bool(cited),
            "evidence": list(cited),
            "missing": "" if cited else "not shown",
        }
        for name, cited in criteria.items()
    ]
    complete = all(entry["satisfied"] for entry in entries)
    missing = (
        ""
        if complete
        else "; ".join(name for name, cited in criteria.items() if not cited)
    )
    whole = {
        "criteria": entries,
        "score": 1.0 if complete else 0.2,
        "complete": complete,
        "missing": missing,
    }
    return json.dumps({**whole, **changes})


@dataclass
class Judge(LLM):
    """The surface of a model, for a judge. `prompts` is what it was asked."""

    model: str = "scripted/judge"
    account: Account = "judge"
    api_key_env: str | None = None
    _api_base: str | None = None
    usage: Usage = field(default_factory=Usage)
    prompts: list[Prompt] = field(default_factory=list)
    confirms: bool = True
    """Its second opinion on any claim that the goal is blocked."""
    asked_for: str = ""
    """The words of the goal that it quotes for every change of checks; without them, it accepts none."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        **_: Any,
    ) -> Reply:
        """Answer the audit, give a second opinion, or review changed checks."""
        self.usage = self.usage + _ONE_CALL
        asked = next(
            str(message["content"]) for message in messages if message["role"] == "user"
        )
        if schema_name == "review":
            return Reply(self._review(asked), (), _ONE_CALL, "stop")
        prompt = Prompt(asked)
        self.prompts.append(prompt)
        if schema_name == "opinion":
            return Reply(
                json.dumps({"confirmed": self.confirms, "reason": "So it seems."}),
                (),
                _ONE_CALL,
                "stop",
            )
        return Reply(self.answer(prompt), (), _ONE_CALL, "stop")

    def _review(self, prompt: str) -> str:
        """Return the answer to a review of changed checks."""
        items = sorted(set(_REVIEWED.findall(prompt)))
        if self.asked_for:
            return json.dumps(
                {"accepted": [{"items": items, "quote": self.asked_for}], "refused": []}
            )
        return json.dumps(
            {
                "accepted": [],
                "refused": [{"items": items, "why": "the goal does not ask for it"}],
            }
        )

    def answer(self, prompt: Prompt) -> str:
        """The verdict on a prompt."""
        raise NotImplementedError


@dataclass
class GullibleJudge(Judge):
    """Always complete. Cites the newest check or command for everything, or what `cite` makes of what it was shown."""

    cite: Callable[[Prompt], list[dict[str, str]]] | None = None
    say: Callable[[Prompt], str] | None = None
    """The whole answer, for one that is no plain verdict."""

    def answer(self, prompt: Prompt) -> str:
        """Complete."""
        if self.say is not None:
            return self.say(prompt)
        evidence = self.cite(prompt) if self.cite else plausible(prompt)
        entries = [
            {"criterion": name, "satisfied": True, "evidence": evidence, "missing": ""}
            for name in prompt.criteria
        ]
        return verdict({}, criteria=entries, score=1.0, complete=True, missing="")


def plausible(prompt: Prompt) -> list[dict[str, str]]:
    """A citation of the newest check, else of the newest command, else of anything."""
    shown = prompt.observations
    checks = [item for item in shown if item.source.startswith("validator ")]
    commands = [item for item in shown if item.source == "shell"]
    newest = (checks or commands or shown)[-1:]
    return [item.citation() for item in newest] or [
        {"observation": "o1", "fact": "exit 0"}
    ]


@dataclass(frozen=True)
class Shows:
    """What shows a criterion: a command that matches `command` as a whole, and a line or a fact that matches `words`."""

    command: str
    words: str


@dataclass
class CarefulJudge(Judge):
    """Keeps to its rules: each criterion needs a fresh run of the very command that shows it, and its words.

    `shows` says so for each criterion. What is printed from a file, echoed, or stands in a claim shows nothing.
    """

    shows: Mapping[str, Shows] = field(default_factory=dict)

    def answer(self, prompt: Prompt) -> str:
        """Criterion by criterion."""
        return verdict(
            {
                name: self._evidence(name, prompt.observations)
                for name in prompt.criteria
            }
        )

    def _evidence(self, criterion: str, shown: Sequence[Seen]) -> list[dict[str, str]]:
        rule = self.shows[criterion]
        runs = [
            item for item in shown if re.fullmatch(rule.command, item.command.strip())
        ]
        for item in runs[-1:]:
            if item.stale or item.source != "shell":
                return []
            for line in item.output.splitlines():
                if re.search(rule.words, line):
                    return [{"observation": item.id, "quote": line.removeprefix("| ")}]
            for fact in item.facts:
                if re.fullmatch(rule.words, fact):
                    return [{"observation": item.id, "fact": fact}]
        return []
