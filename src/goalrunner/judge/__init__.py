"""The judge: asks a second model for proof, and checks this proof. Neither the agent nor the model is trusted."""
