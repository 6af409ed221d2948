"""Audits of saved transcripts and tests of judges: `goal audit` and `goal judge`.

`commands` has the commands. `transcript_audits` audits one transcript, `auditor` many;
`kept_verdicts` keeps the verdicts and `spending` the budget of one call.
`calibration` and `judge_statistics` measure judges on labelled transcripts, `canaries`
tests them with copies that prove nothing. Text and pages stand in the modules with
`pages` in their names; a new test of judges is a module beside `canaries`, with a
command.
"""
