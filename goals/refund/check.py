"""The policy gate: is the recommendation what the policy says of the evidence, and was
exactly that paid?

`python3 check.py gate` looks at the recommendation alone, `python3 check.py` at the
payment too.
"""

import json
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent


def load(name: str) -> dict:
    """A JSON file beside this one."""
    return json.loads((HERE / name).read_text())


def problems(*, paid: bool) -> list[str]:
    """What does not hold, one sentence each."""
    missing = [
        name
        for name in ("policy.json", "recommendation.json")
        if not (HERE / name).exists()
    ]
    if missing:
        return [f"there is no {name}" for name in missing]
    said, policy = load("recommendation.json"), load("policy.json")
    order, delivery = load("orders.json")["O-104"], load("deliveries.json")["O-104"]
    days = (
        date.fromisoformat(delivery["returned"])
        - date.fromisoformat(delivery["delivered"])
    ).days
    eligible = "damaged" in delivery["status"] and days <= policy["days"]
    due = {
        "order": "order:O-104",
        "delivery": f"delivery:{delivery['delivery']}",
        "policy": f"policy:{policy['version']}",
        "decision": "refund" if eligible else "no refund",
        "amount": order["paid"] if eligible else "0.00",
    }
    wrong = [
        f"{key} is {said.get(key)!r}, not {value!r}"
        for key, value in due.items()
        if said.get(key) != value
    ]
    rows = (HERE / "ledger.csv").read_text().split()[1:]
    if paid and rows != ([f"O-104,{due['amount']}"] if eligible else []):
        wrong.append(f"the ledger holds {rows}")
    return wrong


if __name__ == "__main__":
    found = problems(paid=sys.argv[1:] != ["gate"])
    print("\n".join(found) or "policy gate: ok")
    sys.exit(bool(found))
