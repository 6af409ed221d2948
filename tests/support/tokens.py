"""Strings in the form of tokens, made when a test runs: no scanner finds any in this repository."""

from __future__ import annotations

import base64
import json
import random
import string

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def some(number: int, alphabet: str = ALNUM, seed: int = 7) -> str:
    """So many characters, the same each time; with digits and letters of both cases where the alphabet has them."""
    kinds = [
        set(string.digits),
        set(string.ascii_lowercase),
        set(string.ascii_uppercase),
    ]
    wanted = [kind for kind in kinds if kind & set(alphabet)]
    chance = random.Random(seed + number)
    while True:
        made = "".join(chance.choices(alphabet, k=number))
        if number < 10 or all(kind & set(made) for kind in wanted):
            return made


def jwt() -> str:
    """A signed JSON web token."""
    parts = [
        {"alg": "HS256", "typ": "JWT"},
        {"sub": some(10, string.digits), "name": "Jane Doe"},
    ]
    encoded = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in parts
    ]
    return ".".join([*encoded, some(43)])


def pem(lines: int = 20, kind: str = "RSA ") -> str:
    """A private key, as a file holds it."""
    rows = "\n".join(some(64, ALNUM + "+/", seed) for seed in range(lines))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{rows}\n{some(18)}==\n-----END {kind}PRIVATE KEY-----"


def tokens() -> dict[str, list[str]]:
    """Texts by the kind under which their secret is counted; each holds one."""
    base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return {
        "aws key": ["AKIA" + some(16, base32), "ASIA" + some(16, base32)],
        "github token": [
            *(f"gh{kind}_" + some(36) for kind in "pousr"),
            "github_pat_" + some(22) + "_" + some(59),
        ],
        "gitlab token": [
            "glpat-" + some(20),
            "glrt-" + some(20),
            "glpat-" + some(27) + ".01." + some(9, HEX),
        ],
        "slack token": [
            f"xoxb-{some(12, '123456789')}-{some(12, '123456789')}-{some(24)}",
            f"xoxp-{some(12, '123456789')}-{some(12, '123456789')}-{some(12, '123456789')}-{some(32, HEX)}",
            f"xapp-1-A{some(10, '0123456789ABC')}-{some(13, '123456789')}-{some(64, HEX)}",
        ],
        "slack webhook": [
            f"https://hooks.slack.com/services/T{some(8)}/B{some(10)}/{some(24)}"
        ],
        "anthropic key": ["sk-ant-api03-" + some(93, ALNUM + "_-") + "AA"],
        "openai key": [
            "sk-proj-"
            + some(74, ALNUM + "_-")
            + "T3Blbk"
            + "FJ"
            + some(74, ALNUM + "_-"),
            "sk-" + some(20) + "T3Blbk" + "FJ" + some(20),
        ],
        "openrouter key": ["sk-or-v1-" + some(64, HEX)],
        "google key": ["AIza" + some(35, ALNUM + "_-")],
        "google secret": ["GOCSPX-" + some(28)],
        "stripe key": [
            "sk_live_" + some(24),
            "rk_live_" + some(99),
            "sk_test_" + some(24),
        ],
        "npm token": ["npm_" + some(36)],
        "pypi token": ["pypi-AgE" + "IcHlwaS5vcmc" + some(150, ALNUM + "_-")],
        "huggingface token": ["hf_" + some(34, string.ascii_letters)],
        "sendgrid key": [f"SG.{some(22)}.{some(43)}"],
        "twilio key": ["SK" + some(32, HEX)],
        "digitalocean token": ["dop_v1_" + some(64, HEX)],
        "shopify token": ["shpat_" + some(32, HEX), "shpss_" + some(32, HEX)],
        "databricks token": ["dapi" + some(32, HEX), "dapi" + some(32, HEX) + "-2"],
        "postman key": [f"PMAK-{some(24, HEX)}-{some(34, HEX)}"],
        "linear key": ["lin_api_" + some(40)],
        "vault token": ["hvs." + some(95, ALNUM + "_-")],
        "docker token": ["dckr_pat_" + some(27)],
        "grafana token": [f"glsa_{some(32)}_{some(8, HEX)}"],
        "groq key": ["gsk_" + some(52)],
        "rubygems token": ["rubygems_" + some(48, HEX)],
        "jwt": [jwt()],
        "azure key": [f"AccountName=store;AccountKey={some(86, ALNUM + '+/')}==;"],
        "private key": [
            pem(),
            pem(6, ""),
            pem().replace("\n", "\\n"),
            pem().rpartition("\n")[0],
            pem(9, "EC "),
        ],
        "url password": [
            f"postgres://app:{some(14)}@db.example.org/app",
            f"https://x:{some(9)}!@example.org",
        ],
        "authorization": [
            f"Authorization: Bearer {some(30)}",
            f'{{"authorization": "Basic {base64.b64encode(some(20).encode()).decode()}"}}',
        ],
    }
