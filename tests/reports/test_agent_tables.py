"""The table of agents."""

from __future__ import annotations

from dataclasses import replace

from goalrunner.agents.facts import CHAT_FACTS
from goalrunner.reports.agent_tables import agents_text


def test_a_narrow_terminal_cuts_the_table_and_not_what_is_to_be_typed() -> None:
    install = "npm install -g @somebody/with-a-long-name"
    way = replace(CHAT_FACTS.ways[0], program="long", path="")
    missing = replace(CHAT_FACTS, name="long", ways=(way,), install=install)
    rows = agents_text([CHAT_FACTS, missing], columns=40).splitlines()
    assert rows[0].endswith("…")
    assert f"long  {install}" in rows
    assert " ".join(rows[rows.index(f"long  {install}") + 1 :]).strip() == (
        'Any other program can be an agent: [agent] use = "command" or "acp".'
    )
