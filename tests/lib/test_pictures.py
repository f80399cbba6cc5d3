import base64
import io
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Text

from across import layers, parts, pictures, replicas
from across._draw import cluster, lanes
from across.diagnosis import Facts
from across.pictures import PALETTE, PAPER, Picture, Span, bars, luminance, readable_on, timeline
from across.placement import INPUT, Op, Trace


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def pixels(picture: Picture) -> np.ndarray:
    return imread(io.BytesIO(picture.png))


def chain(count: int, devices: int = 4) -> Trace:
    ops = [
        Op(
            f"step_{i}/with_a_rather_long_name",
            "ReadVariableOp",
            f"CPU:{i % devices}",
            "float32",
            (2, 2),
            (f"step_{i - 1}/with_a_rather_long_name",),
        )
        for i in range(count)
    ]
    return Trace(tuple(ops), tuple(f"CPU:{i}" for i in range(devices)))


def fan(count: int, devices: int = 4) -> Trace:
    ops = [Op(f"part_{i}", "MatMul", f"CPU:{i % devices}", "float32", (2, 2), ("x",)) for i in range(count)]
    given = Op("x", "Input", "CPU:0", "float32", (2, 2), kind=INPUT)
    total = Op("total", "AddN", "CPU:0", "float32", (2, 2), tuple(op.name for op in ops))
    return Trace((given, *ops, total), tuple(f"CPU:{i}" for i in range(devices)))


def under(text: Text, figure: Figure) -> str:
    """The colour beneath a text's middle: paper, and over it in their order the shapes that hold that point."""
    box = text.get_window_extent()
    middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
    found = np.array(to_rgb(PAPER))
    for shape in sorted((each for axes in figure.axes for each in axes.patches), key=lambda each: each.get_zorder()):
        if isinstance(shape, (Rectangle, FancyBboxPatch)) and shape.get_window_extent().contains(*middle):
            *colour, alpha = shape.get_facecolor()
            found = alpha * np.array(colour) + (1 - alpha) * found
    own = text.get_bbox_patch()
    return to_hex(found if own is None or own.get_facecolor()[3] == 0 else own.get_facecolor())


TASKS = [cluster.Box("ps:0", "127.0.0.1:1", ("CPU:0",)), cluster.Box("worker:0", "127.0.0.1:2", (), alive=False)]
DRAWN: dict[str, Callable[[], Picture]] = {
    "placement": lambda: fan(3).draw(
        title="lanes, boxes, an idle lane, a legend", devices=[f"CPU:{i}" for i in range(6)]
    ),
    "cluster": lambda: cluster.draw(TASKS, {("ps:0", "worker:0"): 4096, ("client", "ps:0"): 4}, "a task that ended"),
    "bars": lambda: bars({"one": [1.0, 2.0], "two": 4.0}, title="t", unit="ms"),
    "timeline": lambda: timeline([Span(f"{i}", 0, 9, f"op{i}") for i in range(8)], title="t", unit="ms"),
    "parts": lambda: parts.draw({"four": [[3, 3, 3, 1], [2, 2, 1, 0]]}, title="a share, a smaller one, none"),
    "layers": lambda: layers.draw(Facts(), title="t"),
    "schedule": lambda: replicas.draw([("read", 0), ("write", 0)], title="t"),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_every_letter_has_a_contrast_of_four_and_a_half_on_what_is_under_it(draw, monkeypatch):
    kept: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: kept.append(self))
    draw()
    kept[-1].canvas.draw()
    texts = [each for each in kept[-1].findobj(Text) if each.get_text().strip() and each.get_visible()]
    assert len(texts) > 3
    for text in texts:
        assert contrast(to_hex(text.get_color()), under(text, kept[-1])) >= 4.5, text.get_text()


@pytest.mark.parametrize("fill", PALETTE)
def test_text_reads_on_every_colour_of_the_palette(fill):
    assert contrast(readable_on(fill), fill) > 4.5


@pytest.mark.parametrize("trace", [chain(6), fan(8)], ids=["chain", "fan"])
def test_a_picture_is_paper_where_nothing_is_drawn_on_a_dark_page_too(trace):
    assert pixels(trace.draw())[0, 0].tolist() == [1.0, 1.0, 1.0, 1.0]


def test_no_picture_shows_the_backticks_of_prose(monkeypatch):
    kept: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: kept.append(self))
    timeline([Span("a lane", 0, 1, "`fit`")], title="`run` and `fit`", unit="ms")
    fan(2).draw(title="`schedule(n)`")
    for figure in kept:
        figure.canvas.draw()
        assert not [each.get_text() for each in figure.findobj(Text) if "`" in each.get_text()]


def test_a_picture_carries_its_alt_text_for_every_reader():
    picture = bars({"one": 3.0}, title='Speed of "one"', unit="ms")
    data, facts = picture._repr_mimebundle_()
    assert facts["image/png"]["alt"] == picture.alt == data["text/plain"]
    assert 'alt="Bar chart, Speed of &quot;one&quot;, in ms: one 3."' in data["text/html"]
    assert base64.b64decode(data["image/png"]) == picture.png


def test_the_alt_text_of_a_placement_says_what_ran_where_and_what_was_copied():
    assert fan(2, devices=3).draw(title="A sum").alt == (
        "A sum: 3 ops on 2 devices. CPU:0 ran MatMul (part_0), AddN (total). CPU:1 ran MatMul (part_1). "
        "Given: input x on CPU:0. Nothing ran on CPU:2. "
        "Copied between devices: x from CPU:0 to CPU:1, part_1 from CPU:1 to CPU:0."
    )


def test_a_trace_of_nothing_can_be_drawn():
    assert Trace((), ("CPU:0",)).draw().alt.startswith("0 ops on 0 devices")
    assert Trace(()).draw().width > 0


def test_lanes_can_be_chosen_and_ordered():
    picture = fan(8, devices=8).draw(devices=["/CPU:1", "/CPU:0"])
    assert picture.width < fan(8, devices=8).draw().width
    assert "CPU:2" not in picture.alt


def boxes_of(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> tuple[list, list, tuple[float, float]]:
    """Draw, and return the extents of the boxes and of the texts, in pixels, with the picture's size."""
    kept = {}
    monkeypatch.setattr(
        lanes, "render", lambda figure, alt: kept.setdefault("figure", figure) and Picture(b"", alt, 0, 0)
    )
    trace.draw(title="A title")
    figure = kept["figure"]
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = [patch.get_window_extent() for patch in axes.patches if patch.get_zorder() == 3]
    texts = [text.get_window_extent() for text in axes.texts if text.get_text()]
    return boxes, texts, tuple(figure.bbox.max)


@pytest.mark.parametrize(
    "trace",
    [chain(25), fan(25), fan(7, devices=8), chain(3, devices=1)],
    ids=["chain", "fan", "eight_lanes", "one_lane"],
)
def test_nothing_overlaps_and_everything_is_inside(trace, monkeypatch):
    boxes, texts, (width, height) = boxes_of(trace, monkeypatch)
    shown = len(trace.ops) + len(trace.given)
    assert len(boxes) == shown
    for group in (boxes, texts):
        for i, one in enumerate(group):
            assert one.x0 >= 0
            assert one.y0 >= 0
            assert one.x1 <= width
            assert one.y1 <= height
            assert not any(one.overlaps(other) for other in group[:i])


def test_twenty_five_ops_on_four_devices_fit_a_notebook_page():
    picture = fan(25).draw()
    assert picture.width <= 1050
    assert picture.height <= 1000


def test_bars_show_the_median_of_repeated_runs_and_their_spread():
    picture = bars({"one": [1.0, 2.0, 9.0], "two": 4.0}, title="Time", unit="ms")
    assert picture.alt == "Bar chart, Time, in ms: one 2 (1 to 9 in 3 runs); two 4."


def test_a_timeline_stacks_what_overlaps_in_a_lane():
    spans = [Span("CPU:0", 0, 3, "a"), Span("CPU:0", 1, 4, "b"), Span("CPU:0", 3, 5, "c")]
    placed, depth = pictures._stacked(spans)
    assert [(span.label, row) for span, row in placed] == [("a", 0), ("b", 1), ("c", 0)]
    assert depth == 2
    assert timeline(spans, title="Who", unit="ms").alt == "Timeline, Who, in ms. CPU:0: a 0 to 3, b 1 to 4, c 3 to 5."


def test_in_a_timeline_colour_means_the_op():
    spans = [Span("one", 0, 1, "MatMul"), Span("two", 0, 1, "MatMul_1"), Span("two", 1, 2, "Relu"), Span("two", 2, 3)]
    assert [pictures._kind(span) for span in spans] == ["MatMul", "MatMul", "Relu", "two"]


@pytest.mark.parametrize("draw", [lambda: bars({}, title="", unit=""), lambda: timeline([], title="", unit="")])
def test_a_chart_of_nothing_is_refused(draw):
    with pytest.raises(ValueError, match="no "):
        draw()


def test_drawing_leaves_pyplot_alone():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    bars({"one": 1.0}, title="", unit="ms")
    fan(2).draw()
    assert plt.get_fignums() == before


def test_a_picture_can_be_saved(tmp_path):
    path = bars({"one": 1.0}, title="", unit="ms").save(tmp_path / "bars.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_timelines_to_be_compared_have_the_same_lanes():
    picture = timeline([Span("CPU:2", 0.0, 1.0, "a")], title="one", unit="s", lanes=["CPU:1", "CPU:2"])
    assert "CPU:1: idle; CPU:2: a 0 to 1" in picture.alt
