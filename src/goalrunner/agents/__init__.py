"""The agents that work on a goal: the built-in one, and external ones.

The built-in agent is `chat`, a model with the tools of `toolbox`. An external agent is
a preset, which `external_agents` finds; `external_chat` is its conversation, by command
line (`command`, one process a round) or by the Agent Client Protocol
(`acp_conversation`, one process for all rounds). A turn is recorded by `turn`, and the
errors are in `agent_errors`. An agent's program is a judge in `judge_program`.
A new external agent: a preset in `presets`; if it prints JSON, a parser in
`builtin_agents`, built from the functions of `line_events`, and its name in
`external_agents`. A new tool: a subclass of `Tool`, listed in `toolbox`.
"""
