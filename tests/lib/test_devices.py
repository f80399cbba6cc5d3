import pytest

from across import devices, fresh


def test_simulated_cpus_are_there_and_may_be_asked_for_twice(in_four):
    def asked():
        import tensorflow as tf

        return (
            devices.simulate(4),
            devices.simulate(4),
            [device.name for device in tf.config.list_logical_devices("CPU")],
        )

    once, twice, real = in_four(asked)
    assert once == twice == ["/CPU:0", "/CPU:1", "/CPU:2", "/CPU:3"]
    assert real == [f"/device:CPU:{i}" for i in range(4)]


def test_simulating_too_late_says_how_to_mend_it_in_one_line():
    def late():
        import tensorflow as tf

        tf.add(1, 2)
        devices.simulate(3)

    with pytest.raises(
        devices.TooLate, match=r"already started with 1 logical CPU: restart the kernel .* simulate\(3\)"
    ) as caught:
        fresh.run(late)
    assert "\n" not in str(caught.value)


def test_simulating_no_cpu_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        devices.simulate(0)


def test_looking_does_not_start_tensorflow():
    def look():
        seen = devices.here()
        return seen.settled, devices.started(), devices.simulate(2)

    assert fresh.run(look) == (False, False, ["/CPU:0", "/CPU:1"])


def test_what_is_here_lists_each_logical_device_with_its_memory(in_four):
    def look():
        import tensorflow as tf

        tf.add(1, 2)
        seen = devices.here()
        return seen.settled, [(device.name, device.physical, device.type) for device in seen.devices], repr(seen), seen

    settled, listed, text, seen = in_four(look)
    assert settled
    assert [row for row in listed if row[2] == "CPU"] == [(f"/CPU:{i}", "CPU:0", "CPU") for i in range(4)]
    assert seen.devices[0].memory > 0
    assert "/CPU:3" in text
    assert "fixed until the process ends" in text


def test_the_devices_are_logical_cpus_where_there_are_no_gpus(capsys):
    names = fresh.run(devices.gpus_or_cpus, 2, env={"CUDA_VISIBLE_DEVICES": ""})
    assert names == ["/CPU:0", "/CPU:1"]
    assert "2 logical CPUs stand in for 2 devices" in capsys.readouterr().out


def test_gpus_are_preferred_and_named(monkeypatch, capsys):
    card = devices.Device("/GPU:0", "GPU", "GPU:0", "A card", 1 << 30, (9, 0))
    second = devices.Device("/GPU:1", "GPU", "GPU:1", "A card", 1 << 30, (9, 0))
    monkeypatch.setattr(devices, "here", lambda: devices.Here((card, second), settled=False))
    monkeypatch.setattr(devices, "_listed", lambda: 2)
    assert devices.gpus_or_cpus(2) == ["/GPU:0", "/GPU:1"]
    assert capsys.readouterr().out == "2 GPUs: A card.\n"


def test_the_devices_need_no_exact_number_once_tensorflow_has_started(in_four):
    def ask():
        import tensorflow as tf

        tf.add(1, 2)
        return devices.gpus_or_cpus(3)

    assert in_four(ask) == ["/CPU:0", "/CPU:1", "/CPU:2"]
