"""The loop: perform the steps that `decide` returns, and record them."""
