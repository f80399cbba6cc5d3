"""What is moved by hand says what the function says, at each place that the sliders reach."""

from __future__ import annotations

import html
import json
import logging
import math
import re
from typing import Any

import pytest
from processes import in_a_fresh_process

from across import hands
from across._draw.partitions import INPUT, VARIABLE
from across.placement import Op, Trace
from autograder.authoring import run

COUNTS, SIZES = [2, 4, 8], [1.0, 10.0, 1000.0]


def twice(n: int, size: float) -> float:
    return 2 * n * size


def part(n: int, size: float) -> float:
    return size / n


def drawn(**changed: Any) -> hands.Hands:
    lines = {"twice": twice, "a <part>": part}
    given: dict[str, Any] = {"title": "Two 'rules'", "y": "seconds", "start": (4, 10.0), "log": True}
    return hands.draw_lines(lines, {"devices": COUNTS, "MB": SIZES}, **given | changed)


def test_what_travels_is_what_the_function_says_of_each_place():
    data = drawn().data
    for line, rule in zip(data["lines"], (twice, part), strict=True):
        for size, texts in zip(SIZES, line["says"], strict=True):
            assert [float(text) for text in texts] == [pytest.approx(rule(n, size), rel=0.006) for n in COUNTS]


def test_places_in_the_picture_are_in_the_order_of_the_numbers_and_inside_of_it():
    found = drawn()
    places = [
        (number, y)
        for line in found.data["lines"]
        for says, row in zip(line["says"], line["y"], strict=True)
        for number, y in zip(map(float, says), row, strict=True)
    ]
    heights = [y for _, y in sorted(places)]
    assert heights == sorted(heights, reverse=True)
    assert all(0 < y < found.start.height for y in heights)
    assert found.data["x"] == sorted(found.data["x"])


def test_the_output_holds_its_data_a_picture_a_sentence_and_a_table_without_any_script():
    found = drawn()
    text = found._repr_mimebundle_()[0]["text/html"]
    known = re.search("data-hands='([^']*)'", text)
    assert known
    assert json.loads(html.unescape(known[1])) == found.data
    without = text.partition("<script>")[0]
    assert "seconds: twice 80, a &lt;part&gt; 2.5; devices 4, MB 10" in without
    assert re.findall(r"<td[^>]*>([^<]*)", without) == ["2", "40", "5", "4", "80", "2.5", "8", "160", "1.25"]
    assert found.start.alt in html.unescape(without)
    assert "http" not in hands.SCRIPT.read_text()


def told(found: hands.Hands) -> list[str | None]:
    """What the pictures of an output say of themselves, in their order."""
    seen = run._Pictures()
    seen.feed(found._repr_mimebundle_()[0]["text/html"])
    return seen.words


def test_the_picture_that_moves_says_what_the_still_one_says_and_its_lines_are_no_second_picture():
    alt = "Two 'rules', in seconds, at MB 10. twice 40 at 2, 160 at 8; a <part> 5 at 2, 1.25 at 8."
    assert told(drawn()) == [alt, alt]


def test_what_is_no_number_is_drawn_nowhere():
    found = hands.draw_lines(
        {"one": lambda n, size: math.nan if n > 2 else 1.0},
        {"n": COUNTS, "MB": SIZES},
        title="",
        y="",
        start=(2, 1.0),
    )
    assert all(row[1:] == [None, None] for row in found.data["lines"][0]["y"])


def test_a_start_that_no_slider_has_is_refused():
    with pytest.raises(ValueError, match="5"):
        drawn(start=(5, 10.0))


DEVICES = ("GPU:0", "GPU:1", "GPU:2")


def ran(product: str) -> Trace:
    """A weight on GPU:1, read there whatever its pin, and a product."""
    x = Op("x", "Input", "GPU:0", "float32", (2, 4), kind=INPUT)
    weight = Op("weight", "Variable", "GPU:1", "float32", (4, 4), kind=VARIABLE)
    read = Op("Read", "ReadVariableOp", "GPU:1", "float32", (4, 4), ("weight",))
    return Trace((x, weight, read, Op("MatMul", "MatMul", product, "float32", (2, 4), ("x", "Read"))), DEVICES)


def test_an_op_goes_to_the_lanes_where_tensorflow_ran_it_and_bytes_are_the_traces_own():
    found = hands._placed(ran("GPU:0"), [ran(device) for device in DEVICES], "One product", DEVICES)
    by_name = {op["name"]: op for op in found.data["ops"]}
    assert by_name["MatMul"]["answers"] == [0, 1, 2]
    assert by_name["ReadVariableOp Read"]["answers"] == [1, 1, 1]
    assert by_name["weight"]["fixed"]
    assert [by_name["MatMul"]["lane"], by_name["weight"]["lane"]] == [0, 1]
    copied = sum(op["bytes"] for op in found.data["ops"] if op["name"].startswith("Read"))
    assert copied == sum(ran("GPU:0").sent().values()) == 64
    assert found.says == "TensorFlow's placement: 1 copies, 64 bytes"
    assert found.start.alt.startswith("One product: 2 ops on 2 devices")
    assert told(found) == [found.start.alt, "One product: TensorFlow's placement: 1 copies, 64 bytes"]
    assert "MatMul" in found.table


@in_a_fresh_process(cpus=3)
def test_tensorflow_is_asked_of_each_lane():
    import tensorflow as tf

    cpus = ["/CPU:0", "/CPU:1", "/CPU:2"]
    with tf.device(cpus[1]):
        weight = tf.Variable(tf.ones([4, 4]))

    def product(x: tf.Tensor) -> tf.Tensor:
        with tf.device(cpus[2]):
            return x @ weight

    found = hands.draw_placement(product, tf.ones([2, 4]), title="", devices=cpus)
    warned: list[str] = []
    heard = logging.Handler()
    heard.emit = lambda record: warned.append(record.getMessage())
    tf.get_logger().addHandler(heard)
    for _ in range(2):  # TensorFlow counts to five tracings of one function
        hands.draw_placement(product, tf.ones([2, 4]), title="", devices=cpus)
    assert warned == []
    answers = {op["label"][0]: (op["lane"], op["answers"]) for op in found.data["ops"]}
    assert answers["MatMul"] == (2, [0, 1, 2])
    assert answers["ReadVariableOp"] == (1, [1, 1, 1])
