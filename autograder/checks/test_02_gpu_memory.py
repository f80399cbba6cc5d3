"""Trusted checks of chapter 02: rules of memory on fresh numbers, settings as TensorFlow's own code would pass them on."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from autograder.probe.asking import equivalent, exercise, probe, right, wrong


def whole(value: Any) -> bool:
    """Whether a value is a whole number: an int, or a float without a fraction."""
    return type(value) is int or (type(value) is float and value.is_integer())


def show(value: Any) -> str:
    """A value as a sentence can bear it."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


# prediction

PARTS = ("twelve", "freed", "six")


@probe
def recorded(student):
    return student.prediction


@exercise("prediction")
def test_every_part_has_a_recorded_number(student):
    guess = student.ask(recorded)
    assert type(guess) is dict, (
        f"`prediction` is of type {type(guess).__name__}; expected a dictionary with three entries."
    )
    missing = [part for part in PARTS if part not in guess]
    assert not missing, f"`prediction` has no entry for {', '.join(missing)}; expected one for each of the three parts."
    empty = [part for part in PARTS if guess[part] is None]
    assert len(empty) < len(PARTS), "Nothing is predicted yet: expected a number of MiB in place of each None."
    assert not empty, f"{', '.join(empty)} is left open; a prediction is a commitment: expected a number there too."
    for part in PARTS:
        number = type(guess[part]) in (int, float) and math.isfinite(guess[part])
        assert number, f"{part} is predicted as {show(guess[part])}; expected a number of MiB."
        assert guess[part] >= 0, f"{part} is predicted as {guess[part]}; a process cannot take less than nothing."


equivalent("prediction", because="a guess is recorded, not marked: any that is complete earns the point")
wrong("prediction", name="one_left_open", change=('"freed": 128', '"freed": None'), says="is left open")
wrong("prediction", name="a_word_for_a_number", change=('"six": 128', '"six": "128 MiB"'), says="a number of MiB")
wrong("prediction", name="given_back_twice", change=('"freed": 128', '"freed": -96'), says="less than nothing")
right("prediction", name="tensors_only", source='prediction = {"twelve": 96, "freed": 0, "six": 48.0}')


# extend


@probe
def extended(student, cases):
    answers = []
    for size, step, left in cases:
        answer = student.extend(size, step, left)
        answers.append(list(answer) if isinstance(answer, (tuple, list)) else answer)
    return answers


def by_the_rules(size: int, step: int, left: int) -> list[int] | None:
    """BFCAllocator::Extend, in whole MiB."""
    if size > left:
        return None
    doublings = max(0, math.ceil(math.log2(size / step)))
    region = step << doublings
    return [min(region, left), region << (doublings == 0)]


def check_extend(student: Any, cases: list[list[int]], why: str) -> None:
    answers = student.ask(extended, cases=cases)
    for (size, step, left), got in zip(cases, answers, strict=True):
        case = f"A tensor of {size} MiB, step {step}, {left} left:"
        wanted = by_the_rules(size, step, left)
        if wanted is None:
            assert got is None, f"{case} you return {show(got)}; {why}."
            continue
        pair = type(got) is list and len(got) == 2 and all(map(whole, got))
        assert pair, f"{case} you return {show(got)}; expected two whole numbers, the region and the next step."
        assert got[0] >= size, f"{case} you take a region of {got[0]}, too small for the tensor; see rule 2."
        assert got[0] <= left, f"{case} you take a region of {got[0]}, more than the limit leaves; see rule 3."
        assert got[0] == wanted[0], f"{case} you take a region of {got[0]}; {why}."
        assert got[1] == wanted[1], f"{case} you make the next step {got[1]}; {why}."


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
    reason = "the step is doubled until the tensor fits, and then stays for next time"
    check_extend(student, cases, reason)


@exercise("extend")
def test_the_limit_is_kept(student, rng):
    cases = []
    for _ in range(4):
        step, left = steps(rng), int(rng.integers(20, 200))
        cases += [[left + int(rng.integers(1, 50)), step, left], [left, step, left]]
        cases += [[int(rng.integers(2, left)), 256, left], [left - 1, 2, left]]
    check_extend(student, cases, "what is left decides: more is refused by None, exactly so much is not")


wrong(
    "extend",
    name="always_doubles",
    change=("*= 2\n    return min(step, left), step", "*= 2\n    return min(step, left), step * 2"),
    says="until the tensor fits, and then stays",
)
wrong("extend", name="doubles_once_too_often", change=("step < size", "step <= size"), says="until the tensor fits")
wrong("extend", name="never_doubles_after", change=("step * 2", "step"), says="rule 4")
wrong(
    "extend",
    name="just_the_tensor",
    source="def extend(size, step, left):\n    return (size, step) if size <= left else None",
    says="rule 4",
)
wrong("extend", name="over_the_limit", change=("min(step, left), step * 2", "step, step * 2"), says="rule 3")
wrong("extend", name="refuses_the_last", change=("size > left", "size >= left"), says="two whole numbers")
right(
    "extend",
    name="by_a_flag",
    source="""
    def extend(size, step, left):
        doubled = False
        while size > step:
            step, doubled = step + step, True
        if size > left:
            return None
        region = step if step < left else left
        return [region, step if doubled else 2 * step]
    """,
)


# first_come


@probe
def came(student, cases):
    return [student.first_come(*case) for case in cases]


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
    answers = student.ask(came, cases=cases)
    for (total, context, n), got in zip(cases, answers, strict=True):
        case = f"{n} programs on {total} MiB, contexts of {context}:"
        good = type(got) is list and len(got) == n and all(map(whole, got))
        assert good, f"{case} you return {show(got)}; expected a list with one whole number a program."
        assert min(got) >= 0, (
            f"{case} a program takes {min(got)} MiB; mind which reserve is kept back, and that one without room takes 0."
        )
        wanted = in_turn(total, context, n)
        assert got[0] != total - 1536, f"{case} the first takes {got[0]}; its own context is not free any more."
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


wrong("first_come", name="context_forgotten", change=("            free -= context\n", ""), says="its own context")
wrong(
    "first_come",
    name="reserve_always_large",
    change=("(225 if free < 2048 else 1536)", "1536"),
    says="reserve",
)
wrong(
    "first_come",
    name="everyone_is_first",
    change=("        free -= take\n", "        free = total\n"),
    says="those before it left",
)
wrong(
    "first_come",
    name="less_than_nothing",
    change=("max(0, free - (225 if free < 2048 else 1536))", "free - (225 if free < 2048 else 1536)"),
    says="one without room takes 0",
)
wrong("first_come", name="no_more_than_2048", change=("free < 2048", "free <= 2048"), says="less the reserve")
equivalent(
    "first_come",
    change=("free >= context", "free > context"),
    because="with room for a context and nothing else a program takes nothing, with the context or without",
)
right("first_come", name="debts_take_nothing", change=("if free >= context:", "if True:"))
right(
    "first_come",
    name="by_recursion",
    source="""
    def first_come(total, context, n):
        if n == 0:
            return []
        if total < context:
            return [0] * n
        rest = total - context
        reserve = 1536 if rest >= 2048 else 225
        mine = rest - reserve if rest > reserve else 0
        return [mine] + first_come(rest - mine, context, n - 1)
    """,
)


# seen_cards


@probe
def looked(student, cases):
    return [student.seen_cards(value, cards) for value, cards in cases]


def visible(value: str | None, cards: int) -> list[int]:
    found: list[int] = []
    for text in [] if value is None else value.split(","):
        if text not in map(str, range(cards)):
            break
        found.append(int(text))
    return list(range(cards)) if value is None else found


def check_seen(student: Any, cases: list[list[Any]], why: str) -> None:
    answers = student.ask(looked, cases=cases)
    for (value, cards), got in zip(cases, answers, strict=True):
        case = f"{value!r} with {cards} cards:"
        good = type(got) is list and all(type(card) is int for card in got)
        assert good, f"{case} you return {show(got)}; expected a list of whole numbers."
        assert got == visible(value, cards), f"{case} you see {show(got)}; {why}."


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
    check_seen(
        student, [[None, cards], ["", cards], ["-1", cards]], "unset shows every card, an empty value or -1 none"
    )


@exercise("seen_cards")
def test_reading_stops_at_what_is_no_card(student, rng):
    cases = []
    for stranger in ("-1", "8", "12", ""):
        order = [str(card) for card in rng.permutation(8)[:5]]
        order[int(rng.integers(1, 4))] = stranger
        cases.append([",".join(order), 8])
    check_seen(student, cases, "reading stops at the first that is no card")


wrong("seen_cards", name="sorted", change=("    return found", "    return sorted(found)"), says="the order given")
wrong("seen_cards", name="skips_strangers", change=("            break", "            continue"), says="reading stops")
wrong("seen_cards", name="empty_is_all", change=("if value is None:", "if not value:"), says="an empty value")
wrong("seen_cards", name="one_card_too_many", change=(">= cards", "> cards"), says="reading stops")
right(
    "seen_cards",
    name="by_takewhile",
    source="""
    import itertools

    def seen_cards(value, cards):
        names = [str(i) for i in range(cards)]
        given = names if value is None else value.split(",")
        return [int(text) for text in itertools.takewhile(names.__contains__, given)]
    """,
)


# cards_for


@probe
def shared_out(student, tasks, cards):
    return student.cards_for(tasks, cards)


def some_tasks(rng: Any, servers: int, workers: int) -> list[str]:
    tasks = [f"ps:{i}" for i in range(servers)] + [f"worker:{i}" for i in range(workers)]
    return [tasks[i] for i in rng.permutation(len(tasks))]


def check_cards(got: Any, tasks: list[str], cards: int) -> None:
    assert type(got) is dict, f"`cards_for` returned {show(got)}; expected a dictionary from task to value."
    owned: dict[str, list[int]] = {}
    for task in tasks:
        assert task in got, f"`cards_for` says nothing about {task}; expected every task."
        value = got[task]
        assert type(value) is str, (
            f"{task} gets {show(value)}; expected text, as the environment wants it: '' for none."
        )
        if task.startswith("ps"):
            assert value == "", f"{task} gets {show(value)}; a parameter server needs no card: expected an empty value."
            continue
        owned[task] = visible(value, cards)
        there = value == ",".join(map(str, owned[task]))
        assert there, f"With {cards} cards {task} gets {show(value)}; expected numbers of cards that are there."
    all_owned = [card for each in owned.values() for card in each]
    twice = sorted({card for card in all_owned if all_owned.count(card) > 1})
    assert not twice, f"Card {twice[0]} has two owners among {len(owned)} workers; expected one."
    idle = sorted(set(range(cards)) - set(all_owned))
    assert not idle, (
        f"With {len(owned)} workers and {cards} cards, card {idle[0]} belongs to nobody; expected all at work."
    )
    counts = [len(each) for each in owned.values()]
    assert max(counts) - min(counts) <= 1, f"The workers own {counts} cards; expected shares as equal as can be."


@exercise("cards_for")
def test_cards_that_divide_evenly(student, rng):
    workers = int(rng.integers(2, 4))
    tasks, cards = some_tasks(rng, int(rng.integers(1, 4)), workers), workers * int(rng.integers(1, 4))
    check_cards(student.ask(shared_out, tasks=tasks, cards=cards), tasks, cards)


@exercise("cards_for")
def test_cards_that_do_not(student, rng):
    workers = int(rng.integers(3, 6))
    tasks, cards = some_tasks(rng, int(rng.integers(1, 4)), workers), workers * 2 + int(rng.integers(2, workers))
    check_cards(student.ask(shared_out, tasks=tasks, cards=cards), tasks, cards)


wrong(
    "cards_for",
    name="all_for_every_worker",
    change=("range(i, cards, len(workers))", "range(cards)"),
    says="has two owners",
)
wrong(
    "cards_for", name="nothing_is_left_unset", change=('fromkeys(tasks, "")', "fromkeys(tasks)"), says="expected text"
)
wrong("cards_for", name="ps_gets_card_0", change=('fromkeys(tasks, "")', 'fromkeys(tasks, "0")'), says="needs no card")
wrong(
    "cards_for",
    name="the_rest_stays_idle",
    change=("range(i, cards, len(workers))", "range(i, cards // len(workers) * len(workers), len(workers))"),
    says="belongs to nobody",
)
right(
    "cards_for",
    name="in_blocks",
    source="""
    def cards_for(tasks, cards):
        workers = [task for task in tasks if task.split(":")[0] == "worker"]
        blocks = np.array_split(np.arange(cards), len(workers))
        owned = {worker: ",".join(map(str, block)) for worker, block in zip(workers, blocks)}
        return {task: owned.get(task, "") for task in tasks}
    """,
)


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
    answers = student.ask(limited, cases=cases)
    assert type(answers) is list and len(answers) == len(cases), "Your code did not lead to a configuration."
    for (total, context, n), got in zip(cases, answers, strict=True):
        case = f"{n} programs on {total} MiB, contexts of {context}:"
        assert type(got) is list and len(got) == 1, f"{case} expected a tf.config.LogicalDeviceConfiguration."
        limit = got[0]
        assert limit is not None, f"{case} your configuration has no memory_limit."
        assert type(limit) is int, f"{case} the limit is {show(limit)}; expected whole MiB."
        sum_ = n * (limit + context)
        assert limit != total // n, f"{case} limits of {limit} fill the card without a context; each program needs one."
        assert sum_ <= total, f"{case} with limits of {limit} they come to {sum_} MiB; expected them all to fit."
        assert sum_ + n > total, (
            f"{case} with limits of {limit} {total - sum_} MiB lie idle; expected as large as fits."
        )


wrong("fair", name="contexts_forgotten", change=("(total - n * context) // n", "total // n"), says="without a context")
wrong("fair", name="one_context_for_all", change=("n * context", "context"), says="all to fit")
wrong("fair", name="fraction_of_a_mib", change=("// n", "/ n"), says="whole MiB")
wrong(
    "fair",
    name="a_number_for_a_configuration",
    source="def fair(total, context, n):\n    return (total - n * context) // n",
    says="LogicalDeviceConfiguration",
)
right(
    "fair",
    name="share_less_context",
    source="""
    def fair(total, context, n):
        piece = total // n - context
        return tf.config.LogicalDeviceConfiguration(piece)
    """,
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


def check_settled(student: Any, cards: int, limit: int | None) -> None:
    got = student.ask(settled, cards=cards, limit=limit)
    case = f"{cards} card{'s' * (cards > 1)}, limit={limit}:"
    assert type(got) is not str, f"{case} TensorFlow refuses: {got[:150]}."
    good = type(got) is list and len(got) == 3 and type(got[1]) is list
    assert good, f"{case} your settings could not be read."
    growth, pieces, listed = got
    assert listed == ",".join(map(str, range(cards))), f"{case} not every card is seen any more; expected all."
    if limit is None:
        assert pieces == [], f"{case} pieces of {show(pieces)} MiB are cut; expected no limit."
        assert growth is True, f"{case} no card grows; expected every one to."
    else:
        assert growth is False, f"{case} the cards grow; expected limits alone."
        assert pieces != [], f"{case} no card has a limit; expected every one to."
        assert pieces == [[limit]] * cards, (
            f"{case} the cards' limits are {show(pieces)}; expected one piece a card, as large as the limit."
        )


@exercise("settle")
def test_with_a_limit_every_card_has_it(student, rng):
    check_settled(student, 1, int(rng.integers(512, 9000)))
    check_settled(student, int(rng.integers(2, 6)), int(rng.integers(512, 9000)))


@exercise("settle")
def test_without_a_limit_every_card_grows(student, rng):
    check_settled(student, 1, None)
    check_settled(student, int(rng.integers(2, 6)), None)


wrong(
    "settle",
    name="growth_on_one_card",
    change=("for card in cards:", "for card in cards[:1]:"),
    says="the cards' limits",
)
wrong(
    "settle",
    name="both",
    source="""
    def settle(cards, limit=None):
        for card in cards:
            piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit or 1024)
            tf.config.set_logical_device_configuration(card, [piece])
            tf.config.experimental.set_memory_growth(card, True)
    """,
    says="TensorFlow refuses",
)
wrong(
    "settle",
    name="growth_always",
    source="""
    def settle(cards, limit=None):
        for card in cards:
            tf.config.experimental.set_memory_growth(card, True)
    """,
    says="the cards grow",
)
right(
    "settle",
    name="two_loops",
    source="""
    def settle(cards, limit=None):
        if limit:
            for card in cards:
                tf.config.experimental.set_virtual_device_configuration(
                    card, [tf.config.experimental.VirtualDeviceConfiguration(memory_limit=limit)]
                )
            return
        for card in cards:
            tf.config.experimental.set_memory_growth(card, True)
    """,
)
