"""`across doctor --cluster --meet`: machines that meet at their tasks' addresses, here processes, and what they find."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from processes import across
from test_cluster_doctor import TWO, text

from across._cluster_doctor import meeting, rules_of_meetings
from across._cluster_doctor.config import Config
from across._cluster_doctor.meeting import Card, Meeting, Met
from across.workers import addresses

MEETS = """
import json, socket, sys, time
from dataclasses import asdict, replace
from across._cluster_doctor import config, meeting, rules_of_meetings

told, how = config.read(sys.argv[1]), json.loads(sys.argv[2])
card = meeting.own_card(told)
card = replace(card, versions={**card.versions, **how.get("versions", {})})
listener = meeting.listening(told)
if how.get("walled"):  # its address takes nothing: who comes has to wait for a place in a queue that is full
    listener.close()
    listener = socket.create_server(("127.0.0.1", config.port(told.addresses[told.task])), backlog=0)
    guests = [socket.socket() for _ in range(4)]
    for guest in guests:
        guest.setblocking(False)
        guest.connect_ex(listener.getsockname())
    other, listener = listener, socket.create_server(("127.0.0.1", 0))
seen = meeting.meet(card, listener, how["seconds"], lambda: time.time() + how.get("ahead", 0.0))
print(json.dumps([asdict(each) for each in rules_of_meetings.diagnose(seen)]))
"""


def met(*hows: dict[str, object], seconds: float = 20.0) -> list[dict[tuple[str, str], str]]:
    """What each of as many machines, here processes, finds: by key and task what it says."""
    spec = {"worker": addresses(len(hows))}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", MEETS, text(spec, index=index), json.dumps({"seconds": seconds, **how})],
            stdout=subprocess.PIPE,
            text=True,
        )
        for index, how in enumerate(hows)
    ]
    try:
        told = [one.communicate(timeout=90)[0] for one in running]
    finally:
        for one in running:
            one.kill()
            one.communicate()
    return [{(each["key"], each["task"]): each["says"] for each in json.loads(found)} for found in told]


def test_machines_that_meet_compare_versions_and_clocks_and_end_as_soon_as_all_have_met():
    start = time.monotonic()
    first, second, third = met({}, {"versions": {"TensorFlow": "2.15.1"}}, {"ahead": 3600.0}, seconds=60)
    assert time.monotonic() - start < 55
    assert first.keys() == second.keys() == {("versions", "worker:1"), ("clock", "worker:2")}
    assert "3600.0 s ahead" in first["clock", "worker:2"]
    assert third.keys() == {("versions", "worker:1"), ("clock", "worker:2")}
    assert third["clock", "worker:2"] == "The clock of worker:2, this machine, is 3600.0 s ahead of all others."


@pytest.mark.whole
def test_a_machine_that_gets_out_and_lets_nobody_in_is_named_by_all():
    first, second, third = met({}, {}, {"walled": True}, seconds=8)
    assert first.keys() == second.keys() == third.keys() == {("one way", "worker:2")}
    assert "worker:2 reaches us, and we do not reach worker:2" in first["one way", "worker:2"]
    assert "Nor does worker:1." in first["one way", "worker:2"]
    assert "nobody reaches worker:2" in third["one way", "worker:2"]


OWN = Card("worker:0", "one", {"TensorFlow": "2.21.0", "Keras": "3.1.0", "Python": "3.11.7"}, TWO)
OTHER_CARD = Card("worker:1", "two", OWN.versions, TWO, ("worker:0",), ("worker:0",))
MEETINGS = {
    "same task worker:0": Meeting(OWN, {"worker:1": Met()}, ("two",)),
    "same task worker:1": Meeting(OWN, {"worker:1": Met(replace(OTHER_CARD, task="worker:0"), True, True)}),
    "addresses differ worker:1": Meeting(
        OWN, {"worker:1": Met(replace(OTHER_CARD, addresses={**TWO, "worker:0": "a:9"}), True, True)}
    ),
    "versions worker:1": Meeting(
        OWN, {"worker:1": Met(replace(OTHER_CARD, versions={**OWN.versions, "Python": "3.12.1"}), True, True)}
    ),
    "clock worker:1": Meeting(OWN, {"worker:1": Met(OTHER_CARD, True, True, -60.0, 0.1)}),
    "one way worker:1": Meeting(OWN, {"worker:1": Met(OTHER_CARD, False, True, error="timed out")}),
    "one way worker:0": Meeting(OWN, {"worker:1": Met(OTHER_CARD, True, False)}),
    "not come worker:1": Meeting(OWN, {"worker:1": Met(error="refused")}),
}


@pytest.mark.parametrize("case", MEETINGS)
def test_a_meeting_shows_one_cause(case: str):
    found = rules_of_meetings.diagnose(MEETINGS[case])
    assert [f"{each.key} {each.task}" for each in found][:1] == [case]


THREE = {**TWO, "worker:2": "c:3000"}
OF_THREE = replace(OWN, addresses=THREE)


def test_who_was_told_another_address_of_us_shows_no_firewall_and_hides_nobody_who_has_not_come():
    wrong = replace(OTHER_CARD, addresses={**THREE, "worker:0": "a:1009"}, reached=())
    seen = Meeting(OF_THREE, {"worker:1": Met(wrong, True, False), "worker:2": Met(error="refused")})
    found = [(each.key, each.task) for each in rules_of_meetings.diagnose(seen)]
    assert found == [("addresses differ", "worker:1"), ("not come", "worker:2")]
    told = replace(OTHER_CARD, addresses={**TWO, "worker:0": "a:1009"}, reached=())  # and as that one sees it
    first = replace(OWN, reached=("worker:1",))
    seen = Meeting(replace(told, heard=("worker:0",)), {"worker:0": Met(first, False, True, error="refused")})
    assert [each.key for each in rules_of_meetings.diagnose(seen)] == ["addresses differ"]


def test_a_machine_that_lets_nobody_in_hides_nobody_who_has_not_come():
    card = replace(OTHER_CARD, addresses=THREE, reached=())
    seen = Meeting(OF_THREE, {"worker:1": Met(card, True, False), "worker:2": Met(error="refused")})
    found = [(each.key, each.task) for each in rules_of_meetings.diagnose(seen)]
    assert found == [("one way", "worker:0"), ("not come", "worker:2")]


def test_a_meeting_in_which_all_agree_shows_none():
    later = replace(OTHER_CARD, versions={**OWN.versions, "Python": "3.11.2"})
    assert rules_of_meetings.diagnose(Meeting(OWN, {"worker:1": Met(later, True, True, 0.5, 0.1)})) == []


@pytest.mark.parametrize(
    "said", [b"", b"[1]\n", b"{\n", b"GET / HTTP/1.1\r\n\r\n", b"[" * 99999 + b"\n", b'{"task": 1, "now": "x"}\n']
)
def test_who_writes_no_card_to_a_meeting_disturbs_nobody(said: bytes):
    own = replace(OWN, addresses=dict(zip(TWO, addresses(2), strict=True)))
    listener = meeting.listening(Config(own.addresses, own.task))
    assert listener is not None

    def disturb() -> None:
        with socket.create_connection(("127.0.0.1", listener.getsockname()[1])) as guest:
            guest.sendall(said)

    threading.Timer(0.2, disturb).start()
    seen = meeting.meet(own, listener, 1.0)
    assert (seen.others["worker:1"].reached, seen.others["worker:1"].heard, seen.twins) == (False, False, ())


def test_the_command_that_meets_says_who_has_its_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        here = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = across("doctor", "--cluster", "--meet", "--json", TF_CONFIG=text({"worker": [here, "127.0.0.1:1"]}))
    assert ended.returncode == 1, ended.stderr
    (found,) = json.loads(ended.stdout)["findings"]
    assert found["key"] == "taken port"
    assert str(os.getpid()) in found["says"]
