"""The judge: asks a second model for proof, and checks the proof itself. Trusts neither agent nor judge."""
