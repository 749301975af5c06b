"""Own generator after the published definition of Nexmark: persons, auctions and bids in proportion 1 : 3 : 46.

Events come at a steady rate, and by an event's number alone it is known which persons and auctions there are by then.
Half of all bids are for one hot auction, three quarters of them by one hot bidder, three quarters of all auctions are
of one hot seller; who is hot changes with every hundred new auctions or persons. Other bids and auctions choose among
the latest, and now and then one is named whose own event is still to come.

As in the definition, events may arrive out of order within groups of some size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.nexmark.events import AUCTION, BID, PERSON, SCHEMA

Numbers = npt.NDArray[np.int64]
SECOND = 1_000_000
PERSONS_OF, AUCTIONS_OF, ALL_OF = 1, 3, 50
"""Of every fifty events the first is a person, the next three are auctions, the rest bids."""
FIRST_ID = 1_000
"""Of persons and of auctions."""
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_EVERY = 100
"""So many persons or auctions come until another one is hot."""
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Bend",
    "Boise",
    "Cheyenne",
    "Kent",
    "Los Angeles",
    "Phoenix",
    "Portland",
    "Redmond",
    "San Francisco",
    "Seattle",
)
_GIVEN = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "John", "Niklaus", "Radia", "Tony")
_FAMILY = ("Allen", "Dijkstra", "Hoare", "Hopper", "Knuth", "Liskov", "Lovelace", "Perlman", "Turing")
_STIR = 953
"""The n-th to arrive of a group is event n × 953, modulo the group's size: each of them once in a thousand."""
_LETTERS = 1 << 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What to generate. Times in microseconds, lengths in characters.

    >>> Plan(events=1_000_000).span // SECOND
    3000
    """

    events: int = 1_000_000
    seed: int = 20_020_601
    start: int = 1_704_067_200 * SECOND
    """The first event's time, 2024-01-01T00:00:00Z."""
    interval: int = 3_000
    """From one event to the next. Whole milliseconds, as some systems have nothing finer; and ten seconds, a session's
    gap, is no multiple of it: systems differ on sessions that just touch."""
    group: int = 1_000
    """Events that arrive out of order among each other; no multiple of 953."""
    hot_auctions: int = 2
    hot_bidders: int = 4
    hot_sellers: int = 4
    """One in so many names another auction, bidder or seller than the hot one."""
    active_persons: int = 1_000
    """The latest persons, of whom all but the hot ones are chosen."""
    open_auctions: int = 100
    """The latest auctions, likewise; an auction lasts as long as so many take to come, on the average."""
    ahead: int = 10
    """How many persons or auctions are named before their own event."""
    person_length: int = 120
    auction_length: int = 250
    bid_length: int = 68
    """Of `extra`, on the average, so that events have some 200, 500 and 100 bytes."""

    @property
    def span(self) -> int:
        """How much event time there is."""
        return self.events * self.interval

    @property
    def disorder(self) -> int:
        """A watermark so far behind the latest event makes nothing late."""
        return self.group * self.interval


def generate(plan: Plan) -> pa.Table:
    """The events in order of arrival.

    >>> generate(Plan(events=100)).equals(generate(Plan(events=100)))
    True
    """
    rng = np.random.default_rng(plan.seed)
    numbers = np.arange(plan.events, dtype=np.int64)
    times = plan.start + plan.interval * numbers
    offsets = numbers % ALL_OF
    kinds = np.where(offsets < PERSONS_OF, PERSON, np.where(offsets < PERSONS_OF + AUCTIONS_OF, AUCTION, BID))
    words = _Words(rng)
    columns = {"kind": _column(kinds), "time": _column(times), "timestamp": _column(times)}
    columns |= _persons(plan, rng, numbers, kinds == PERSON)
    columns |= _auctions(plan, rng, numbers, kinds == AUCTION, words)
    columns |= _bids(plan, rng, numbers, kinds == BID)
    columns["id"] = _column(_ids(numbers, kinds), kinds != BID)
    lengths = np.array([plan.person_length, plan.auction_length, plan.bid_length])[kinds]
    columns["extra"] = words.of(lengths * 4 // 5 + rng.integers(0, 1 + lengths * 2 // 5))
    table = pa.table({field.name: columns[field.name].cast(field.type) for field in SCHEMA}, schema=SCHEMA)
    return table.take(pa.array(_arrivals(plan)))


def _arrivals(plan: Plan) -> Numbers:
    """Event numbers in order of arrival; what does not fill a group comes in order."""
    numbers = np.arange(plan.events, dtype=np.int64)
    place = numbers % plan.group
    stirred: Numbers = numbers - place + place * _STIR % plan.group
    whole = plan.events - plan.events % plan.group
    stirred[whole:] = numbers[whole:]
    return stirred


def _last_person(numbers: Numbers) -> Numbers:
    """The latest person at an event, counted from 0."""
    return numbers // ALL_OF


def _last_auction(numbers: Numbers) -> Numbers:
    """The latest auction at an event, counted from 0; -1 before the first."""
    rounds, offsets = np.divmod(numbers, ALL_OF)
    last: Numbers = rounds * AUCTIONS_OF + np.clip(offsets - PERSONS_OF, -1, AUCTIONS_OF - 1)
    return last


def _ids(numbers: Numbers, kinds: Numbers) -> Numbers:
    ids: Numbers = FIRST_ID + np.where(kinds == PERSON, _last_person(numbers), _last_auction(numbers))
    return ids


def _some_person(plan: Plan, rng: np.random.Generator, numbers: Numbers) -> Numbers:
    """One of the active persons, or one that is still to come."""
    people = _last_person(numbers) + 1
    active = np.minimum(people, plan.active_persons)
    chosen: Numbers = people - active + rng.integers(0, active + plan.ahead)
    return chosen


def _some_auction(plan: Plan, rng: np.random.Generator, numbers: Numbers) -> Numbers:
    """One of the open auctions, or one that is still to come."""
    last = _last_auction(numbers)
    first = np.maximum(last - plan.open_auctions, 0)
    chosen: Numbers = first + rng.integers(0, last - first + 1 + plan.ahead)
    return chosen


def _unless(rng: np.random.Generator, one_in: int, hot: Numbers, others: Numbers) -> Numbers:
    """The hot one, but for one in so many."""
    return np.where(rng.integers(0, one_in, len(hot)) > 0, hot, others)


def _prices(rng: np.random.Generator, count: int) -> Numbers:
    """Cents, from 100 to a hundred million; every power of ten is as likely."""
    prices: Numbers = np.rint(10.0 ** (rng.random(count) * 6) * 100).astype(np.int64)
    return prices


def _persons(
    plan: Plan, rng: np.random.Generator, numbers: Numbers, these: npt.NDArray[np.bool_]
) -> dict[str, pa.Array]:
    count = len(numbers)
    given, family = rng.integers(0, len(_GIVEN), count), rng.integers(0, len(_FAMILY), count)
    names = np.array([f"{first} {last}" for first in _GIVEN for last in _FAMILY])
    mails = np.array([f"{first}.{last}@example.org".lower() for first in _GIVEN for last in _FAMILY])
    both = given * len(_FAMILY) + family
    cards = [f"{number:019_}".replace("_", " ") for number in rng.integers(0, 10**16, int(these.sum())).tolist()]
    card = np.full(count, "", object)
    card[these] = cards
    return {
        "name": _column(names[both], these),
        "email": _column(mails[both], these),
        "card": _column(card, these),
        "city": _column(np.array(CITIES)[rng.integers(0, len(CITIES), count)], these),
        "state": _column(np.array(STATES)[rng.integers(0, len(STATES), count)], these),
    }


def _auctions(
    plan: Plan, rng: np.random.Generator, numbers: Numbers, these: npt.NDArray[np.bool_], words: _Words
) -> dict[str, pa.Array]:
    count = len(numbers)
    starting = _prices(rng, count)
    # Twice the mean is the longest; an auction lasts at least a microsecond.
    longest = 2 * plan.interval * (plan.open_auctions * ALL_OF // AUCTIONS_OF)
    expires = plan.start + plan.interval * numbers + 1 + rng.integers(0, longest, count)
    hot = _last_person(numbers) // HOT_EVERY * HOT_EVERY
    sellers = _unless(rng, plan.hot_sellers, hot, _some_person(plan, rng, numbers))
    return {
        "item": words.of(np.where(these, 20, 0), these),
        "description": words.of(np.where(these, 100, 0), these),
        "initial_bid": _column(starting, these),
        "reserve": _column(starting + _prices(rng, count), these),
        "expires": _column(expires, these),
        "seller": _column(FIRST_ID + sellers, these),
        "category": _column(FIRST_CATEGORY + rng.integers(0, CATEGORIES, count), these),
    }


def _bids(plan: Plan, rng: np.random.Generator, numbers: Numbers, these: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    hot_auction = np.maximum(_last_auction(numbers), 0) // HOT_EVERY * HOT_EVERY
    # One beside the hot seller: nobody bids for their own auctions only.
    hot_bidder = _last_person(numbers) // HOT_EVERY * HOT_EVERY + 1
    auctions = _unless(rng, plan.hot_auctions, hot_auction, _some_auction(plan, rng, numbers))
    bidders = _unless(rng, plan.hot_bidders, hot_bidder, _some_person(plan, rng, numbers))
    return {
        "auction": _column(FIRST_ID + auctions, these),
        "bidder": _column(FIRST_ID + bidders, these),
        "price": _column(_prices(rng, len(numbers)), these),
    }


class _Words:
    """Text without meaning: pieces of one long row of letters."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._letters = rng.integers(ord("a"), ord("z") + 1, _LETTERS, dtype=np.uint8).tobytes().decode("ascii")

    def of(self, lengths: Numbers, these: npt.NDArray[np.bool_] | None = None) -> pa.Array:
        """A piece of each length, none where `these` says so."""
        begins = self._rng.integers(0, _LETTERS - int(lengths.max(initial=0)), len(lengths))
        letters = self._letters
        pieces = [letters[begin:end] for begin, end in zip(begins.tolist(), (begins + lengths).tolist(), strict=True)]
        return _column(np.array(pieces, object), these)


def _column(values: npt.NDArray[np.generic], these: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The values, none where `these` says so."""
    return pa.array(values, mask=None if these is None else ~these)
