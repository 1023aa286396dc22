"""A seeded chaos run on real servers: `make chaos SEED=n MINUTES=m`."""
