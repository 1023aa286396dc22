"""Pure red packet arithmetic: terms and a seed in, shares and proof out (docs/fairness.md)."""
