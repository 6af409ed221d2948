"""The loop: perform the steps that `decide` returns, and record them.

`run` is the loop, `turns` one turn of the agent, `checks` the steps between two turns,
`approvals` the questions to a person. Each records through `journal` or `recorder`;
`resumption` reads the records of an earlier process. The texts for the agent are in
`prompts` and `plans`. A new step: a class in `core.decision`, an arm in `Run.advance`,
and a method of `Checks` or `ApprovalGate`. A new adapter: a field of `Parts`.
"""
