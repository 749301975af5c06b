"""Nexmark: thirteen queries over the events of an online auction, ours beside Beam's direct runner."""
