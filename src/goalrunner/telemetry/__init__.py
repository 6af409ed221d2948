"""Traces and metrics of runs, for OpenTelemetry: `[telemetry]` of a goal.

`observer.py` opens the telemetry of a run, and is all that `app/build.py` needs. It
gets each record, and passes it to `spans.py` and `metrics.py`, which know the events.
`conventions.py` has the names: those of OpenTelemetry for generative AI, and the own
ones below `goal.`. `content.py` reads prompts and outputs, which are sent only on
request. `trace_context.py` says to which trace a session of a run belongs, and
`delivery.py` sends everything in a thread. The packages of OpenTelemetry are an extra:
they are imported when a goal with `[telemetry]` starts.
"""
