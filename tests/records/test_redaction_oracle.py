"""What betterleaks takes for a token of our kinds, we replace. Skipped aloud where `goalrunner[betterleaks]` is not installed."""

from __future__ import annotations

import pytest

from goalrunner.records.redaction import Redactor
from tests.support.tokens import tokens

betterleaks = pytest.importorskip(
    "pybetterleaks",
    reason="the oracle is not installed: pip install 'goalrunner[betterleaks]'",
)

CASES = [(kind, text) for kind, texts in tokens().items() for text in texts]


@pytest.mark.parametrize(
    ("kind", "text"),
    CASES,
    ids=[f"{kind}-{place}" for place, (kind, _) in enumerate(CASES)],
)
def test_what_the_oracle_finds_is_gone_after_redaction(kind: str, text: str) -> None:
    document = f"value = '{text}'\n"
    redacted = Redactor({}).text(document)

    findings = betterleaks.scan_text(document, redact=False).findings
    remaining_findings = betterleaks.scan_text(redacted, redact=False).findings

    assert not [
        finding.rule_id for finding in remaining_findings if finding.secret in text
    ], kind
    assert all(
        finding.secret not in redacted for finding in findings if finding.secret in text
    ), kind


def test_the_oracle_knows_most_of_the_formats() -> None:
    known = {
        kind
        for kind, text in CASES
        if betterleaks.scan_text(f"value = '{text}'\n", redact=False).findings
    }

    assert len(known) > 20, sorted(known)
