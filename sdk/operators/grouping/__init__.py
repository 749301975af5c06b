"""Windows, triggers and panes of one key: the grouping that can do everything."""
