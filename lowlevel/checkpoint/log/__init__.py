"""The order of commits, and the fencing of replaced drivers (MillWheel paper §6.2)."""
