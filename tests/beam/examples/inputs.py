"""Small input files for Beam's example programs."""

from __future__ import annotations

import json
from pathlib import Path

LEAR = """Flourish Flourish Flourish stomach
the king comes with his knights and asks
which of you shall we say doth love us most
"""
GLOUCESTER = """the duke meets the king in the storm
and the fool sings of wind and rain rain rain

"""


def write_inputs(folder: Path) -> None:
    """Fill a new folder with the files that `programs.toml` names."""
    (folder / "docs").mkdir()
    files = {
        "lear.txt": LEAR,
        "docs/lear.txt": LEAR,
        "docs/gloucester.txt": GLOUCESTER,
        "matrix.txt": "0: 1 2 3\n1: 0 1 0\n2: 2 0 1\n",
        "vector.txt": "1 2 3\n",
        "game.csv": _game(),
        "edits.json": _edits(),
        "matches.json": _matches(),
        "players.csv": "".join(f"player{n % 7},{n * n % 31}\n" for n in range(100)),
        "rides.csv": _rides(),
        "zones.csv": '"LocationID","Borough","Zone"\n' + "".join(f"{n},Borough{n % 3},Zone{n}\n" for n in range(9)),
        "email.tsv": _contacts("{0}@example.com", range(0, 9)) + _contacts("{0}@example.org", range(4, 6)),
        "phone.tsv": _contacts("555-{1}", range(3, 12)),
        "snailmail.tsv": _contacts("{1} Main Street", range(6, 14)),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _game() -> str:
    """Events of the game, of which a few cannot be read."""
    events = (f"user{n % 11},team{n % 3},{n * 7 % 20},{1447686663000 + n * 60000},time\n" for n in range(200))
    return "".join(events) + "user1,team1\nuser2,team2,many,1447686663000,time\n"


def _edits() -> str:
    """Edits of three users: without a pause, hour by hour, week by week; no month has more than ten sessions."""
    edits = [("ada", 600 * n) for n in range(40)] + [("ben", 3600 * n) for n in range(4)]
    edits += [("cleo", 604800 * n) for n in range(12)]
    return "".join(json.dumps({"contributor_username": user, "timestamp": time}) + "\n" for user, time in edits)


def _matches() -> str:
    teams = ["Ajax", "Benfica", "Celtic", "Derby"]
    matches = [
        {"host": [host, (3 * i + j) % 4], "guest": [guest, (i + 2 * j) % 3]}
        for i, host in enumerate(teams)
        for j, guest in enumerate(teams)
        if host != guest
    ]
    return "".join(json.dumps(match) + "\n" for match in matches)


def _rides() -> str:
    rides = (f"{n % 3},{n % 9},{n * 5 % 9},2019-01-{n % 28 + 1:02} 00:46:40\n" for n in range(100))
    return "passenger_count,PULocationID,DOLocationID,tpep_dropoff_datetime\n" + "".join(rides)


def _contacts(form: str, numbers: range) -> str:
    return "".join(f"Person {n}\t{form.format(f'person{n}', 1000 + n)}\n" for n in numbers)
