"""What an agent acts on: one protocol, one module a kind of environment."""
