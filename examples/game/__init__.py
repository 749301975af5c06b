"""A mobile game's points, in four programs that ask for more and more.

`user_score`: what. `hourly_team_score`: where in event time. `leader_board`: when, and how panes relate. `game_stats`:
an answer that needs another one, as a side input, and sessions. Each runs as `python -m examples.game.NAME`.
"""
