"""The judge: asks a second model for proof, and checks this proof.

Neither the agent nor the model is trusted. `audit` asks the questions, `judge_session`
holds one conversation. Prompts: `prompt_text` has the fixed texts, `prompt_builder`
puts goal and evidence together, `evidence` chooses what fits, `excerpt` shortens it.
Answers: `json_reader` and `verdict_parser` read them, `citations` looks up one
citation, `verdict_check` decides. A new question to the judge: an `AuditForm` in
`prompt_text`, its schema in `answer_schemas`, and a method of `LLMJudge`.
"""
