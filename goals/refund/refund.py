"""What a refund assistant may call: `show ORDER` to look, `issue ORDER AMOUNT` to pay
what the policy gate agrees to, once.
"""

import json
import sys
from pathlib import Path

from check import problems

HERE = Path(__file__).parent
LEDGER = HERE / "ledger.csv"


def show(order: str) -> str:
    """Everything that is known of an order, each part under its reference."""
    delivery = json.loads((HERE / "deliveries.json").read_text())[order]
    policy = json.loads((HERE / "policy.json").read_text())
    recommendation = HERE / "recommendation.json"
    said = recommendation.read_text().strip() if recommendation.exists() else "none yet"
    return "\n".join(
        [
            f"order:{order} {json.loads((HERE / 'orders.json').read_text())[order]}",
            f"delivery:{delivery['delivery']} {delivery}",
            f"policy:{policy['version']} {policy['rule']}",
            f"recommendation: {said}",
            f"ledger: {LEDGER.read_text().split()[1:]}",
        ]
    )


def issue(order: str, amount: str) -> str:
    """Pay what the recommendation says, if the policy gate agrees to it and nothing was
    paid for the order before.
    """
    if found := problems(paid=False):
        sys.exit(f"policy gate: {'; '.join(found)}")
    recommended = json.loads((HERE / "recommendation.json").read_text())
    if (recommended["order"], recommended["amount"], recommended["decision"]) != (
        f"order:{order}",
        amount,
        "refund",
    ):
        sys.exit(f"policy gate: {amount} for {order} is not what was recommended")
    if any(row.startswith(f"{order},") for row in LEDGER.read_text().split()):
        sys.exit(f"policy gate: {order} is paid already")
    with LEDGER.open("a") as ledger:
        ledger.write(f"{order},{amount}\n")
    return f"issued {amount} for {order}"


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    print({"show": show, "issue": issue}[command](*arguments))
