"""The call of an agent's program as a model: its command line, prompt and files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.agent_ports import Message
from goalrunner.core.agent_preset import JudgeCommand, Preset
from goalrunner.core.messages import clean, text_of


@dataclass(frozen=True)
class ProgramChoice:
    """A program that answers."""

    name: str
    """The name of the agent."""
    preset: Preset
    model: str = ""
    """The model, in the agent's own naming; empty: its default."""

    @property
    def label(self) -> str:
        """The name for people."""
        return f"{self.name} {self.model}".strip()


@dataclass(frozen=True)
class PromptParts:
    """A chat as texts for a process that has no memory."""

    rules: str
    """The system messages."""
    prompt: str
    """The other messages, with earlier answers quoted."""


def prompt_of(messages: Sequence[Message]) -> PromptParts:
    """Return a chat as rules and one prompt."""
    rules: list[str] = []
    chat: list[Message] = []
    for message in messages:
        if message.get("role") == "system":
            rules.append(text_of(message.get("content")))
        else:
            chat.append(message)
    headings = {"assistant": "Your answer was:", "user": "The next message to you:"}
    parts: list[str] = []
    for message in chat:
        text = text_of(message.get("content"))
        if parts:
            heading = headings.get(str(message.get("role")), "")
            text = f"{heading}\n{text}"
        parts.append(text)
    return PromptParts("\n\n".join(rules), "\n\n".join(parts))


@dataclass(frozen=True)
class ProgramCall:
    """One call: its command line, and the files that it needs, below `root`."""

    choice: ProgramChoice
    program: str
    """The path of the program."""
    root: Path
    schema: str
    """The JSON schema of the answer."""
    parts: PromptParts

    @property
    def folder(self) -> Path:
        """Where the process runs."""
        return self.root / "work"

    @property
    def _judge(self) -> JudgeCommand:
        return self.choice.preset.judge

    @property
    def stdin(self) -> bytes:
        """The prompt, after the rules unless the command has its own place for them."""
        prompt = self.parts.prompt
        if not self._takes_rules:
            prompt = f"{self.parts.rules}\n\n{prompt}".strip()
        return clean(prompt).encode()

    @property
    def _takes_rules(self) -> bool:
        judge = self._judge
        words = " ".join((*judge.argv, *judge.env.values(), *judge.files.values()))
        return "{system}" in words or "{system_file}" in words

    def prepare(self) -> tuple[str, ...]:
        """Write the files of the call; return its command line."""
        self.folder.mkdir()
        (self.root / "schema.json").write_text(self.schema, encoding="utf-8")
        rules = clean(self.parts.rules)
        (self.root / "system.md").write_text(rules, encoding="utf-8")
        # Settings of the program that have no option of its command line.
        for name, text in self._judge.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        words = [self.program]
        for word in self._judge.argv[1:]:
            if word == "{model}":
                words += self._model_words()
            else:
                words.append(self._filled(word))
        return tuple(words)

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the call."""
        env = self._judge.env
        variables = {name: self._filled(value) for name, value in env.items()}
        # Without it, a program may take the runner's folder for its own.
        variables["PWD"] = str(self.folder)
        return variables

    def _model_words(self) -> list[str]:
        model = self.choice.model
        if not model:
            return []
        # Without a model, the program uses its own default.
        return [word.replace("{name}", model) for word in self.choice.preset.model]

    def _filled(self, word: str) -> str:
        """Return a word of the command with its placeholders replaced."""
        values = {
            "schema": self.schema,
            "schema_file": str(self.root / "schema.json"),
            # An argument of a process cannot contain NUL.
            "system": clean(self.parts.rules).replace("\0", "\ufffd"),
            "system_file": str(self.root / "system.md"),
        }
        return re.sub(
            r"\{(schema|schema_file|system|system_file)\}",
            lambda match: values[match[1]],
            word,
        )
