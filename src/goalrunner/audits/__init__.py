"""Audits of saved transcripts, and tests of judges: `goal audit`, `goal judge`."""
