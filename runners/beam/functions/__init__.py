"""How functions of Beam's SDK are called: DoFns of every kind, CombineFns, state and timers, keys."""
