"""Audits of saved transcripts, and tests of judges: `goal audit`, `goal calibrate`, `goal canary`."""
