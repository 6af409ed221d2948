"""Goals, verdicts, outcomes, observations: the nouns of the domain. Pure data; no module here does I/O."""
