"""What the `redpacket` command does for an operator: one file a subcommand."""
