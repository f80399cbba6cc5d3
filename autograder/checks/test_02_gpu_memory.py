"""Trusted checks of chapter 02: rules of memory on fresh numbers, settings as TensorFlow's own code would pass them on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from across.expecting import between, dict_of, list_of, maybe, number, row, shown, text, truth, whole
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded

mebibytes = between(0, math.inf).named("a number of MiB, and not less than nothing")
test_every_part_has_a_recorded_number = recorded("prediction", dict.fromkeys(("twelve", "freed", "six"), mebibytes))


# extend

EXTENSION = maybe(row(whole, whole)).named("two whole numbers, the region and the next step, or None")


def by_the_rules(size: int, step: int, left: int) -> list[int] | None:
    """BFCAllocator::Extend, in whole MiB."""
    if size > left:
        return None
    doublings = max(0, math.ceil(math.log2(size / step)))
    region = step << doublings
    return [min(region, left), region << (doublings == 0)]


def check_extend(student: Any, cases: list[list[int]], why: str) -> None:
    for (size, step, left), got in student.call("extend", cases, EXTENSION):
        case = f"A tensor of {size} MiB, step {step}, {left} left:"
        wanted = by_the_rules(size, step, left)
        if got is None or wanted is None:
            assert got == wanted, f"{case} you return {shown(got)}; {why}."
            continue
        region, following = got
        assert region >= size, f"{case} you take a region of {region}, too small for the tensor; see rule 2."
        assert region <= left, f"{case} you take a region of {region}, more than the limit leaves; see rule 3."
        assert region == wanted[0], f"{case} you take a region of {region}; {why}."
        assert following == wanted[1], f"{case} you make the next step {following}; {why}."


def steps(rng) -> int:
    return 1 << int(rng.integers(1, 9))


@exercise("extend")
def test_a_tensor_that_fits_the_step(student, rng):
    cases = []
    for _ in range(6):
        step = steps(rng)
        cases.append([int(rng.integers(1, step + 1)), step, step * 4 + int(rng.integers(100))])
    check_extend(student, [*cases, [8, 8, 99]], "when nothing had to be doubled, rule 4 doubles the step afterwards")


@exercise("extend")
def test_a_tensor_larger_than_the_step(student, rng):
    cases = []
    for _ in range(6):
        step = steps(rng)
        cases.append([step * int(rng.integers(2, 20)) + int(rng.integers(step)), step, step * 64])
    step = steps(rng)
    cases.append([step << int(rng.integers(1, 5)), step, step * 64])  # which doubling meets exactly
    check_extend(student, cases, "the step is doubled until the tensor fits, and then stays for next time")


@exercise("extend")
def test_the_limit_is_kept(student, rng):
    cases = []
    for _ in range(4):
        step, left = steps(rng), int(rng.integers(20, 200))
        cases += [[left + int(rng.integers(1, 50)), step, left], [left, step, left]]
        cases += [[int(rng.integers(2, left)), 256, left], [left - 1, 2, left]]
    check_extend(student, cases, "what is left decides: more is refused by None, exactly so much is not")


# first_come


def in_turn(total: int, context: int, n: int) -> list[int]:
    free, takes = total, []
    for _ in range(n):
        take = 0
        if free >= context:
            free -= context
            take = max(0, free - (225 if free < 2048 else 1536))
        takes.append(take)
        free -= take
    return takes


def check_first_come(student: Any, cases: list[list[int]]) -> None:
    def takes(case: Sequence[int]) -> Any:
        return list_of(whole, case[2]).named("a list with one whole number a program")

    for (total, context, n), got in student.call("first_come", cases, takes):
        case = f"{n} programs on {total} MiB, contexts of {context}:"
        assert min(got) >= 0, (
            f"{case} a program takes {min(got)} MiB; mind which reserve is kept back, and that one without room takes 0."
        )
        wanted = in_turn(total, context, n)
        if got[0] == total - 1536:
            says = f"{case} the first takes {got[0]}; its own context is not free any more."
            raise Misconception("context_forgotten", says)
        assert got[0] == wanted[0], (
            f"{case} the first takes {got[0]}; expected what is free after its context, less the reserve."
        )
        for i in range(1, n):
            assert got[i] == wanted[i], (
                f"{case} program {i + 1} takes {got[i]}; expected it to find what those before it left, contexts taken off."
            )


@exercise("first_come")
def test_one_program_takes_all_but_a_reserve(student, rng):
    large = [[int(rng.integers(4000, 90000)), int(rng.integers(250, 900)), 1] for _ in range(4)]
    small = [[int(rng.integers(1200, 2000)), int(rng.integers(250, 600)), 1] for _ in range(3)]
    context = int(rng.integers(250, 900))
    edges = [[context + free, context, 1] for free in (2047, 2048)]  # the last with the small reserve and the next
    check_first_come(student, large + small + edges)


@exercise("first_come")
def test_those_who_come_later_find_what_is_left(student, rng):
    cases = [[int(rng.integers(4000, 90000)), int(rng.integers(250, 900)), int(rng.integers(2, 6))] for _ in range(6)]
    context = int(rng.integers(250, 900))
    cases.append([context + int(rng.integers(1, 225)), context, 3])  # room for a context and for nothing else
    check_first_come(student, cases)


# seen_cards


def visible(value: str | None, cards: int) -> list[int]:
    found: list[int] = []
    for card in [] if value is None else value.split(","):
        if card not in map(str, range(cards)):
            break
        found.append(int(card))
    return list(range(cards)) if value is None else found


def check_seen(student: Any, cases: list[list[Any]], why: str) -> None:
    for (value, cards), got in student.call("seen_cards", cases, list_of(whole).named("a list of whole numbers")):
        assert got == visible(value, cards), f"{value!r} with {cards} cards: you see {shown(got)}; {why}."


@exercise("seen_cards")
def test_the_order_is_the_one_that_was_given(student, rng):
    cases = []
    for _ in range(4):
        cards = int(rng.integers(3, 9))
        order = rng.permutation(cards)[: int(rng.integers(1, cards + 1))]
        cases.append([",".join(map(str, order)), cards])
    check_seen(student, [*cases, ["2,0,1", 3], ["11,3", 12]], "the order given is the program's own numbering")


@exercise("seen_cards")
def test_all_and_none(student, rng):
    cards = int(rng.integers(2, 9))
    cases = [[None, cards], ["", cards], ["-1", cards]]
    check_seen(student, cases, "unset shows every card, an empty value or -1 none")


@exercise("seen_cards")
def test_reading_stops_at_what_is_no_card(student, rng):
    cases = []
    for stranger in ("-1", "8", "12", ""):
        order = [str(card) for card in rng.permutation(8)[:5]]
        order[int(rng.integers(1, 4))] = stranger
        cases.append([",".join(order), 8])
    check_seen(student, cases, "reading stops at the first that is no card")


# cards_for


def check_cards(student: Any, rng: Any, workers: int, cards: int) -> None:
    tasks = [f"ps:{i}" for i in range(int(rng.integers(1, 4)))] + [f"worker:{i}" for i in range(workers)]
    tasks = [tasks[i] for i in rng.permutation(len(tasks))]
    got = student.call_once("cards_for", tasks, cards, returns=dict_of().named("a dictionary from task to value"))
    owned: dict[str, list[int]] = {}
    for task in tasks:
        assert task in got, f"`cards_for` says nothing about {task}; expected every task."
        value = text.named("text, as the environment wants it: '' for none")(got[task], f"{task} gets")
        if task.startswith("ps"):
            assert value == "", (
                f"{task} gets {shown(value)}; a parameter server needs no card: expected an empty value."
            )
            continue
        owned[task] = visible(value, cards)
        there = value == ",".join(map(str, owned[task]))
        assert there, f"With {cards} cards {task} gets {shown(value)}; expected numbers of cards that are there."
    all_owned = [card for each in owned.values() for card in each]
    twice = sorted({card for card in all_owned if all_owned.count(card) > 1})
    assert not twice, f"Card {twice[0]} has two owners among {workers} workers; expected one."
    idle = sorted(set(range(cards)) - set(all_owned))
    assert not idle, (
        f"With {workers} workers and {cards} cards, card {idle[0]} belongs to nobody; expected all at work."
    )
    counts = [len(each) for each in owned.values()]
    assert max(counts) - min(counts) <= 1, f"The workers own {counts} cards; expected shares as equal as can be."


@exercise("cards_for")
def test_cards_that_divide_evenly(student, rng):
    workers = int(rng.integers(2, 4))
    check_cards(student, rng, workers, workers * int(rng.integers(1, 4)))


@exercise("cards_for")
def test_cards_that_do_not(student, rng):
    workers = int(rng.integers(3, 6))
    check_cards(student, rng, workers, workers * 2 + int(rng.integers(2, workers)))


# fair


@probe
def limited(student, cases):
    limits = []
    for case in cases:
        configuration = student.fair(*case)
        known = isinstance(configuration, tf.config.LogicalDeviceConfiguration)
        limits.append([configuration.memory_limit] if known else None)
    return limits


@exercise("fair")
def test_equal_pieces_that_all_fit(student, rng):
    cases = [[int(rng.integers(4000, 90000)), int(rng.integers(250, 900)), int(rng.integers(2, 6))] for _ in range(6)]
    configuration = row(maybe(number)).named("a tf.config.LogicalDeviceConfiguration")
    answers = student.ask(limited, cases=cases)
    for (total, context, n), (limit,) in each_answer(answers, cases, configuration, "`fair` led to"):
        case = f"{n} programs on {total} MiB, contexts of {context}:"
        assert limit is not None, f"{case} your configuration has no memory_limit."
        limit = whole.named("whole MiB")(limit, f"{case} the limit is")
        if limit == total // n:
            says = f"{case} limits of {limit} fill the card without a context; each program needs one."
            raise Misconception("contexts_forgotten", says)
        sum_ = n * (limit + context)
        assert sum_ <= total, f"{case} with limits of {limit} they come to {sum_} MiB; expected them all to fit."
        assert sum_ + n > total, (
            f"{case} with limits of {limit} {total - sum_} MiB lie idle; expected as large as fits."
        )


# settle: TensorFlow's own code says what it would pass on, for cards on paper


@probe
def settled(student, cards, limit):
    from across import memory

    with memory.paper(cards) as paper:
        try:
            student.settle(tf.config.list_physical_devices("GPU"), limit)
            asked = paper.asked
        except ValueError as error:
            return str(error)
    pieces = [[int(mib) for mib in each.memory_limit_mb] for each in asked.experimental.virtual_devices]
    return [bool(asked.allow_growth), pieces, asked.visible_device_list]


SETTINGS = row(truth, list_of(list_of(whole)), text).named("settings that can be read")


def check_settled(student: Any, cards: int, limit: int | None) -> None:
    got = student.ask(settled, cards=cards, limit=limit)
    case = f"{cards} card{'s' * (cards > 1)}, limit={limit}:"
    assert type(got) is not str, f"{case} TensorFlow refuses: {got[:150]}."
    growth, pieces, listed = SETTINGS(got, f"{case} your settings are")
    assert listed == ",".join(map(str, range(cards))), f"{case} not every card is seen any more; expected all."
    if limit is None:
        assert pieces == [], f"{case} pieces of {shown(pieces)} MiB are cut; expected no limit."
        assert growth, f"{case} no card grows; expected every one to."
    else:
        assert not growth, f"{case} the cards grow; expected limits alone."
        assert pieces != [], f"{case} no card has a limit; expected every one to."
        assert pieces == [[limit]] * cards, (
            f"{case} the cards' limits are {shown(pieces)}; expected one piece a card, as large as the limit."
        )


@exercise("settle")
def test_with_a_limit_every_card_has_it(student, rng):
    check_settled(student, 1, int(rng.integers(512, 9000)))
    check_settled(student, int(rng.integers(2, 6)), int(rng.integers(512, 9000)))


@exercise("settle")
def test_without_a_limit_every_card_grows(student, rng):
    check_settled(student, 1, None)
    check_settled(student, int(rng.integers(2, 6)), None)
