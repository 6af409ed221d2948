"""Secrets out, before anything is written or sent to a judge.

Three things are secrets: the values of environment variables whose names say so, as they are and as JSON, a URL or
base64 would write them; tokens of formats that are known; and what a goal's `[redact] extra` names.
"""

from goalrunner.redaction.extra import check_extra
from goalrunner.redaction.marker import is_redacted
from goalrunner.redaction.redactor import Redactor
from goalrunner.redaction.values import SHORTEST

__all__ = ["SHORTEST", "Redactor", "check_extra", "is_redacted"]
