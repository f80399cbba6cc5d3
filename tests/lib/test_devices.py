import pytest
from processes import in_a_fresh_process

from across import devices, fresh
from across._gpu import building

needs = pytest.mark.skipif(bool(building.problem()), reason=f"no simulated GPU here: {building.problem()}")


@in_a_fresh_process(cpus=4)
def test_simulated_cpus_are_there_may_be_asked_for_twice_and_are_listed_with_their_memory():
    import tensorflow as tf

    assert devices.simulate(4) == devices.simulate(4) == ["/CPU:0", "/CPU:1", "/CPU:2", "/CPU:3"]
    assert [device.name for device in tf.config.list_logical_devices("CPU")] == [f"/device:CPU:{i}" for i in range(4)]
    seen = devices.here()
    assert seen.settled
    cpus = [device for device in seen.devices if device.type == "CPU"]
    assert [(device.name, device.physical) for device in cpus] == [(f"/CPU:{i}", "CPU:0") for i in range(4)]
    assert seen.devices[0].memory
    assert "/CPU:3" in repr(seen)
    assert "fixed until the process ends" in repr(seen)
    assert devices.gpus_or_cpus(3) == ["/CPU:0", "/CPU:1", "/CPU:2"]  # no exact number is needed any more


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


@in_a_fresh_process()
def test_looking_does_not_start_tensorflow():
    assert not devices.here().settled
    assert not devices.started()
    assert devices.simulate(2) == ["/CPU:0", "/CPU:1"]


@in_a_fresh_process()
def test_memory_of_less_than_a_gib_is_told_in_mib():
    import tensorflow as tf

    devices.gpus(1, "2 GiB")
    pieces = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in (768, 1024)]
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0], pieces)
    tf.config.list_logical_devices()
    assert [row[3] for row in devices.here().rows() if "GPU" in row[0]] == ["768 MiB", "1.0 GiB"]


def as_a_card(mib: int, asked: int, before: int = 0) -> tuple[list[str], list[int | None], str]:
    """Names, MiB and line of `asked` GPUs where a (here: simulated) card has `mib`, cut by its user into `before` pieces."""
    import contextlib
    import io
    from unittest import mock

    import tensorflow as tf

    devices.gpus(1, "1 GiB")
    (card,) = tf.config.list_physical_devices("GPU")
    if before:
        tf.config.set_logical_device_configuration(
            card, [tf.config.LogicalDeviceConfiguration(memory_limit=64)] * before
        )
    memory = {tf.config.experimental.get_device_details(card)["device_name"]: mib << 20}
    printed = io.StringIO()
    with (
        mock.patch.object(devices.loading, "loaded", return_value=False),
        mock.patch.object(devices, "_card_memory", return_value=memory),
        contextlib.redirect_stdout(printed),
    ):
        names = devices.gpus_or_cpus(asked)
        made = [gpu.memory and gpu.memory >> 20 for gpu in devices.here().gpus]
    with tf.device(names[-1]):
        assert tf.add(1.0, 2.0).device.endswith(names[-1].strip("/"))
    return names, made, printed.getvalue()


@needs
@pytest.mark.parametrize(
    ("mib", "asked", "before", "pieces", "says"),
    [
        (81_559, 4, 0, [2048] * 4, "4 GPUs, pieces of 1 card: simulated GPU (host memory)."),
        (4_096, 4, 0, [512] * 4, "4 GPUs, pieces of 1 card: "),  # two such processes fit
        (4_096, 1, 0, [4096], "1 GPU: "),
        (1_500, 4, 0, [1500], "4 logical CPUs stand in for 4 devices: this machine has 1 GPU."),
        (81_559, 2, 3, [64] * 3, "2 GPUs, pieces of 1 card: "),
        (81_559, 4, 3, [64] * 3, "4 logical CPUs stand in for 4 devices: this machine has 3 GPUs."),
    ],
    ids=["large", "small", "enough", "too-small", "cut-by-its-user", "cut-in-too-few"],
)
def test_a_card_is_cut_where_more_are_asked_for(mib, asked, before, pieces, says):
    names, made, line = fresh.run(as_a_card, mib, asked, before, timeout=120)
    assert (made, line.startswith(says)) == (pieces, True), line
    assert names == [f"/{'CPU' if 'CPUs' in says else 'GPU'}:{index}" for index in range(asked)]
