"""The generated parts of docs/reference: keys of the goal file, the outcome, and the command line.

`python -m tests.support.reference` writes them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import click
import typer.main

from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome

PAGES = Path(__file__).parents[2] / "docs" / "reference"
TABLES = (
    "agent",
    "judge",
    "critic",
    "budget",
    "workspace",
    "approvals",
    "redact",
    "records",
    "memory",
    "notify",
    "telemetry",
    "validators",
    "agents",
)
EXAMPLES = {
    "objective": '"Make parse() accept empty input."',
    "success_criteria": '["pytest passes"]',
    "constraints": '["keep the signature of parse()"]',
    "owner": '"parsers"',
    "resume_prompt": '"Not yet: {feedback}"',
    "timeout": '"30m"',
    "wait": '"6h"',
    "model": '"openai/gpt-5-mini"',
    "use": '"claude"',
    "run": '"pytest -q"',
    "python": '"checks:word_count"',
    "expires": '"24h"',
    "tokens": "200_000",
    "cost_usd": "2.50",
    "path": '"backend"',
    "keep": '"90d"',
    "otlp": '"http://localhost:4318"',
    "editable": '["src/**"]',
    "protect": '["tests/**"]',
    "allow": '["tests/data/**"]',
    "commands": '["git push*"]',
    "env": '{ CI = "1" }',
    "params": "{ temperature = 0.2 }",
}
"""Examples of keys whose default says little."""


def kind_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the type of a value in TOML's terms."""
    if "$ref" in schema:
        return kind_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "allOf" in schema:
        return kind_of(schema["allOf"][0], definitions)
    if "anyOf" in schema:
        kinds = dict.fromkeys(kind_of(one, definitions) for one in schema["anyOf"])
        return " or ".join(kind for kind in kinds if kind != "null")
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}), definitions)}"
    named = {
        "object": "table",
        "string": "text",
        "number": "number",
        "integer": "whole number",
        "boolean": "true, false",
    }
    return named.get(kind, kind)


def default_of(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else f"`{json.dumps(value)}`"


def rows(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], *, examples: bool
) -> Iterator[str]:
    yield "| key | type | default | meaning |" + (" example |" if examples else "")
    yield "|---|---|---|---|" + ("---|" if examples else "")
    for name, field in schema.get("properties", {}).items():
        cells = [
            f"`{name}`",
            kind_of(field, definitions),
            default_of(field),
            field.get("description", ""),
        ]
        if examples:
            example = EXAMPLES.get(name)
            cells.append(f"`{name} = {example}`" if example else "")
        yield (
            "| "
            + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
            + " |"
        )


def goal_tables() -> str:
    schema = Goal.model_json_schema()
    definitions = schema["$defs"]
    top = {
        name: field
        for name, field in schema["properties"].items()
        if name not in TABLES
    }
    lines = [
        "## Keys at the top",
        "",
        *rows({"properties": top}, definitions, examples=True),
    ]
    for name in TABLES:
        table = _table(schema["properties"][name], definitions)
        title = {"validators": "[[validators]]", "agents": "[agents.NAME]"}.get(
            name, f"[{name}]"
        )
        text = str(table.get("description", "")).partition("\n\n")[0].replace("\n", " ")
        lines += [
            "",
            f"## `{title}`",
            "",
            text,
            "",
            *rows(table, definitions, examples=True),
        ]
    return "\n".join(lines)


def _table(
    field: Mapping[str, Any], definitions: Mapping[str, Any]
) -> Mapping[str, Any]:
    found = re.findall(r"#/\$defs/(\w+)", json.dumps(field))
    return cast("Mapping[str, Any]", definitions[found[0]])


def outcome_tables() -> str:
    schema = GoalOutcome.model_json_schema(mode="serialization")
    definitions = schema.get("$defs", {})
    lines = ["## Fields of the outcome", "", *rows(schema, definitions, examples=False)]
    for name in ("GoalVerdict", "Usage"):
        lines += [
            "",
            f"### {name}",
            "",
            *rows(definitions[name], definitions, examples=False),
        ]
    return "\n".join(lines)


def commands() -> str:
    from goalrunner.cli.app import COMMANDS, app

    group = cast("click.Group", typer.main.get_command(app))
    lines: list[str] = []
    for name in COMMANDS:
        inner = click.Context(group, info_name="goal")
        for word in name.split():
            command = cast("click.Group", inner.command).get_command(inner, word)
            assert command is not None
            inner = click.Context(command, info_name=word, parent=inner)
        command = inner.command
        usage = " ".join(command.collect_usage_pieces(inner))
        lines += [
            f"## goal {name}",
            "",
            "```text",
            f"goal {name} {usage}".rstrip(),
            "```",
            "",
            (command.help or "").strip(),
        ]
        options = [
            parameter
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
        ]
        records = [
            record
            for record in (parameter.get_help_record(inner) for parameter in options)
            if record
        ]
        if records:
            lines += ["", "| option | meaning |", "|---|---|"]
            lines += [
                f"| `{_plain(left)}` | {_plain(right)} |" for left, right in records
            ]
        lines.append("")
    return "\n".join(lines).rstrip()


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PARTS = {
    "goal-file": ("goal", goal_tables),
    "outcome": ("outcome", outcome_tables),
    "command-line": ("commands", commands),
}


def page(name: str) -> str:
    """Return the text of a page with its generated part made anew."""
    mark, generate = PARTS[name]
    text = (PAGES / f"{name}.md").read_text()
    before, found, rest = text.partition(f"<!-- generated: {mark} -->\n")
    assert found, f"{name}.md has no mark for its generated part"
    after = rest.partition("<!-- end -->")[2]
    return f"{before}{found}\n{generate()}\n\n<!-- end -->{after}"


if __name__ == "__main__":
    for each in PARTS:
        (PAGES / f"{each}.md").write_text(page(each))
