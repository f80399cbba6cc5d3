"""GPUs that are made of host memory. Each program is in a process of its own; what documents show is in test_gpu_programs."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import across, in_a_fresh_process

from across import _system, clusters, devices, doctor, fresh, gpu_traffic, kernels, placement, timeline
from across._gpu import building, loading
from across._jupyter import headless, lab

MIB = 1 << 20
TWO = {devices.GPUS: "2"}
needs = pytest.mark.skipif(bool(building.problem()), reason=f"no simulated GPU here: {building.problem()}")


def said(program: Callable[[], Any], **how: Any) -> str:
    """What a program raises in a fresh process, its type first; it must be one line."""
    outcome = fresh.call(program, timeout=120, **how)
    assert outcome.error is not None, outcome.value
    text = f"{type(outcome.error).__name__}: {outcome.error}"
    assert "\n" not in text
    return text


@needs
@in_a_fresh_process(gpus=2)
@pytest.mark.whole
def test_they_are_called_simulated():
    table = repr(devices.here())
    assert "2 simulated GPUs here: no card, this machine's memory." in table
    assert table.count("2.0 GiB") == 2
    assert devices.gpus(2) == devices.gpus_or_cpus(2) == ["/GPU:0", "/GPU:1"]
    assert devices.simulated_gpus().startswith("2 simulated GPUs of 2 GiB each")


@needs
def test_a_chapter_takes_simulated_gpus_and_so_do_the_processes_that_it_starts(built):
    def first_cell():
        import tensorflow as tf

        found = devices.gpus_or_cpus(2, memory="256 MiB")
        again = devices.gpus_or_cpus(2, memory="256 MiB") if tf.ones(1) is not None else []
        child = fresh.run(lambda: len(tf.config.list_physical_devices("GPU")))
        return found, again, [device.memory for device in devices.here().gpus], child

    outcome = fresh.call(first_cell, timeout=120)
    assert outcome.result() == (["/GPU:0", "/GPU:1"], ["/GPU:0", "/GPU:1"], [256 * MIB] * 2, 2)
    assert outcome.stdout == "2 GPUs: simulated GPU (host memory).\n" * 2


def test_a_chapter_takes_logical_cpus_where_none_can_be_simulated_and_says_why():
    outcome = fresh.call(lambda: devices.gpus_or_cpus(2), env={"CUDA_VISIBLE_DEVICES": "-1"}, timeout=120)
    assert outcome.result() == ["/CPU:0", "/CPU:1"]
    assert outcome.stdout.startswith(
        "2 logical CPUs stand in for 2 devices: this machine has no GPU. No simulated GPU: CUDA_"
    )


@needs
@pytest.mark.whole
def test_keras_trains_by_its_default_compile_without_a_warning(built):
    def fit():
        import warnings

        import numpy as np
        import tensorflow as tf

        warnings.simplefilter("error")
        keras = tf.keras
        images, labels = np.random.rand(32, 8, 8, 3).astype("f"), np.random.rand(32, 2).astype("f")
        layers = keras.layers
        convolutional = keras.Sequential(
            [layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten(), layers.Dense(2)]
        )
        convolutional.compile("adam", "mse")
        losses = convolutional.fit(images, labels, epochs=3, verbose=0).history["loss"]
        words = keras.Sequential([layers.Embedding(10, 4), layers.LSTM(3), layers.Dense(2)])
        words.compile("adam", "mse")
        words.fit(np.random.randint(0, 10, (32, 5)), labels, verbose=0)
        places = {variable.value.device[-5:] for variable in convolutional.trainable_variables}
        return losses, convolutional.jit_compile, places

    outcome = fresh.call(fit, gpus=2, timeout=120)
    losses, jit, places = outcome.result()
    assert losses[2] < losses[0]
    assert jit is True  # Keras takes XLA for granted: it runs without
    assert places == {"GPU:0"}
    assert outcome.output == ""


@needs
@in_a_fresh_process(gpus=2)
def test_what_xla_would_compile_runs_without_it_or_is_refused_in_a_sentence():
    import tensorflow as tf
    from tensorflow.python.compiler.xla import jit

    jitted: Any = tf.function(jit_compile=True)
    twice = jitted(lambda x: x + x)
    with tf.device("/GPU:1"):
        x = tf.ones([4, 4])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = twice(x)
        gradient = tape.gradient(y, x)
    nested = tf.function(lambda x: twice(x) * 2.0)(x)
    tf.config.optimizer.set_jit(True)
    clustered = tf.function(lambda x: tf.nn.relu(x @ x) + x)(x)
    tf.config.optimizer.set_jit(False)
    with tf.device("/CPU:0"):
        on_cpu = twice(tf.ones([2]))  # where XLA does compile

    @tf.function
    def scoped(x):
        with jit.experimental_jit_scope():
            return tf.nn.relu(x @ x) + x

    found = [y, gradient, nested, clustered, on_cpu]
    assert [float(tf.reshape(each, [-1])[0]) for each in found] == [2.0, 2.0, 4.0, 5.0, 2.0]
    assert y.device.endswith("GPU:1")
    with pytest.raises(tf.errors.UnimplementedError, match="compiles for cards, and this is a simulated GPU"):
        scoped(x)


@needs
@in_a_fresh_process(gpus=2)
def test_a_tensor_used_on_the_other_gpu_is_one_copy_of_its_bytes():
    import tensorflow as tf

    with tf.device("/GPU:0"):
        here = tf.ones([512, 512])  # 1 MiB
    with gpu_traffic.counting() as counted, tf.device("/GPU:1"):
        there = tf.identity(here)
    with gpu_traffic.counting() as read:
        there.numpy()
    with gpu_traffic.counting() as nothing, tf.device("/GPU:1"):
        tf.identity(there)
    assert there.device.endswith("GPU:1")
    assert dict(counted.traffic) == {("GPU:0", "GPU:1"): gpu_traffic.Copied(1, MIB)}
    assert dict(read.traffic) == {("GPU:1", "CPU:0"): gpu_traffic.Copied(1, MIB)}
    assert (dict(nothing.traffic), nothing.traffic["GPU:0", "GPU:1"]) == ({}, gpu_traffic.Copied())
    assert (repr(nothing.traffic), "1,048,576" in repr(counted.traffic)) == ("nothing was copied", True)


@needs
@in_a_fresh_process(gpus=2)
def test_slowed_copies_of_one_pair_take_latency_and_bytes_by_rate_each_after_the_other():
    import tensorflow as tf

    @tf.function
    def both(x):
        with tf.device("/GPU:0"):
            doubled, tripled = x * 2.0, x * 3.0
        with tf.device("/GPU:1"):
            return tf.reduce_sum(doubled) + tf.reduce_sum(tripled)

    with tf.device("/GPU:0"):
        x = tf.ones([MIB // 4])
    both(x)
    begun = time.perf_counter()
    with gpu_traffic.slowed(1e7, latency=0.01):
        both(x)
    assert time.perf_counter() - begun >= 2 * (0.01 + MIB / 1e7)


@pytest.mark.parametrize(("rate", "latency"), [(0, 0), (-1.0, 0), (float("inf"), 0), (float("nan"), 0), (1.0, -1)])
def test_a_rate_that_is_none_is_refused(rate: float, latency: float):
    with pytest.raises(ValueError, match="expected a rate above 0"), gpu_traffic.slowed(rate, latency):
        pass


@needs
@in_a_fresh_process(gpus=2)
def test_the_ops_of_a_gpu_run_one_after_the_other_and_the_trace_shows_it():
    import tensorflow as tf

    v1: Any = tf.compat.v1
    config = v1.ConfigProto(inter_op_parallelism_threads=4, intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    metadata = v1.RunMetadata()
    with tf.Graph().as_default():
        products = []
        for device in ("/gpu:0", "/gpu:0", "/gpu:0", "/gpu:1", "/gpu:1", "/gpu:1"):
            with tf.device(device):
                x = tf.random.normal([200, 200])
                products.append(x @ x)
        with v1.Session(config=config) as session:
            session.run(products)
            full = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            session.run(products, options=full, run_metadata=metadata)
    found = {}
    for device in metadata.step_stats.dev_stats:
        runs = [(n.all_start_nanos, n.all_start_nanos + n.op_end_rel_nanos) for n in device.node_stats]
        found[device.device.partition("device:")[2]] = sorted(runs)
    drawn = [op.lane for op in timeline.of_step(metadata.step_stats) if op.type == "MatMul"]
    assert sorted(lane for lane in drawn if lane.startswith("GPU")) == ["GPU:0"] * 3 + ["GPU:1"] * 3  # as they ran
    assert {"GPU:0", "GPU:1"} <= found.keys()  # where the host was
    for gpu in range(2):
        runs = found[f"GPU:{gpu}/stream:all"]  # when they ran
        assert len(runs) >= 6
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(runs))


@needs
@in_a_fresh_process(gpus=2)
def test_ops_that_wait_hold_no_gpu_and_no_error_ends_the_process():
    import tensorflow as tf
    from tensorflow.python.ops import data_flow_ops

    v1: Any = tf.compat.v1
    config = v1.ConfigProto(inter_op_parallelism_threads=1, allow_soft_placement=True)
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        queue = v1.FIFOQueue(4, tf.float32)
        taken, put = queue.dequeue() * 2.0, queue.enqueue(tf.constant(3.0) * 1.0)
        area: Any = data_flow_ops.StagingArea([tf.float32])
        staged, unstaged = area.put([tf.ones([])]), area.get()[0] * 2.0
        with v1.Session(config=config) as session:
            both = session.run([taken, put])[0], session.run(staged), session.run(unstaged)
    errors = []
    for wrong in (
        lambda: tf.raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=1, input_size=1, T=tf.float32, S=tf.int32),
        lambda: tf.ones([2, 3]) @ tf.ones([2, 3]),
    ):
        try:
            errors.append(str(wrong()))
        except tf.errors.OpError as error:
            errors.append(type(error).__name__)
    assert (both[0], both[2], errors) == (6.0, 2.0, ["UnimplementedError", "InvalidArgumentError"])


@needs
@in_a_fresh_process(gpus=2)
def test_a_trace_shows_gpus():
    import tensorflow as tf

    @tf.function
    def across_two(x):
        with tf.device("/GPU:0"):
            y = x @ x
        with tf.device("/GPU:1"):
            return y + y

    trace = placement.trace(across_two, tf.ones([4, 4]))
    assert {op.type: op.device for op in trace} == {"MatMul": "GPU:0", "AddV2": "GPU:1"}
    assert trace.available == ("CPU:0", "GPU:0", "GPU:1")


@needs
def test_what_the_registry_says_of_kernels_is_the_same_with_them(built):
    def matmul():
        return kernels.of("MatMul").rows(), sum(kernel.device_type == "GPU" for kernel in kernels.registered())

    assert fresh.run(matmul, gpus=2) == fresh.run(matmul)


@needs
@in_a_fresh_process(gpus=2)
def test_forks_of_a_process_that_has_loaded_them_use_them():
    import tensorflow as tf

    codes = []
    for gpu in range(2):
        if (pid := os.fork()) == 0:
            with tf.device(f"/GPU:{gpu}"):
                product = tf.ones([64, 64]) @ tf.ones([64, 64])
            os._exit(0 if product.device.endswith(f"GPU:{gpu}") else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    with tf.device("/GPU:1"):
        assert (codes, tf.ones([1]).device[-5:]) == ([0, 0], "GPU:1")


@needs
def test_servers_have_them_and_the_ps_has_none(built):
    import tensorflow as tf

    v1: Any = tf.compat.v1
    with clusters.LocalCluster(ps=1, worker=2, gpus=2) as cluster:
        graph = tf.Graph()
        with graph.as_default():
            with tf.device("/job:ps/task:0/cpu:0"):
                weight = v1.get_variable("w", initializer=tf.ones([8, 8]), use_resource=True)
            sums = []
            for task, gpu in ((0, 0), (0, 1), (1, 0), (1, 1)):
                with tf.device(f"/job:worker/task:{task}/gpu:{gpu}"):
                    sums.append(tf.reduce_sum(weight @ weight))
            config = v1.ConfigProto(operation_timeout_in_ms=30000)
            with v1.Session(cluster.target("worker", 0), config=config) as session:
                names = [device.name for device in session.list_devices() if "GPU" in device.name]
                session.run(v1.global_variables_initializer())
                found = session.run(sums)
    assert sorted(names) == [f"/job:worker/replica:0/task:{t}/device:GPU:{g}" for t in range(2) for g in range(2)]
    assert found == [512.0] * 4


@needs
def test_the_environment_asks_for_them_and_what_it_says_wrong_is_told(built):
    def look():
        import tensorflow as tf

        return len(tf.config.list_physical_devices("GPU")), devices.here().note()

    assert fresh.run(look, env=TWO)[0] == 2
    assert fresh.run(look, env={devices.GPUS: "0"})[0] == 0
    found, note = fresh.run(look, env={devices.GPUS: "many"})
    assert (found, "ACROSS_GPUS is 'many': expected a whole number of GPUs, from 1 to 16." in note) == (0, True)


@needs
def test_cuda_visible_devices_hides_them_as_it_hides_real_ones(built):
    def names():
        return devices.gpus(2)

    assert fresh.run(names, env={"CUDA_VISIBLE_DEVICES": "1"}) == ["/GPU:0"]
    assert "hides every GPU." in fresh.run(lambda: devices.here().note(), env={**TWO, "CUDA_VISIBLE_DEVICES": "-1"})
    assert "'-1', which hides every GPU; unset it" in said(names, env={"CUDA_VISIBLE_DEVICES": "-1"})


@needs
def test_the_doctor_says_that_they_are_simulated_and_why_there_is_no_card(built):
    def examined():
        from across import doctor

        return doctor.facts()

    facts = fresh.run(examined, gpus=1, timeout=120)
    assert facts["devices"][-1]["model"] == "simulated GPU (host memory)"
    assert facts["simulated_gpus"].startswith("1 simulated GPU of 2 GiB each")
    assert facts["diagnosis"]["says"] != "TensorFlow sees the GPU."
    assert not any("speed are real" in sentence for sentence in facts["chapters"].values())
    assert facts["chapters"]["03_device_placement"] == (  # its first cell asks for four
        "runs on 4 simulated GPUs: placement, copies and errors are real, speed is not"
    )


@needs
def test_a_process_whose_server_had_opened_it_needs_no_file_and_no_compiler(built):
    """As in the grader's box, where neither is."""

    def boxed():
        loading.open_if_built()
        os.environ.update({building.VARIABLE: "/nowhere", "PATH": ""})
        return devices.gpus(1)

    assert fresh.run(boxed) == ["/GPU:0"]


@needs
def test_asking_when_tensorflow_has_started_says_how_to_mend_it(built):
    def late():
        import tensorflow as tf

        tf.add(1, 2)
        devices.gpus(2)

    text = said(late)
    assert text.startswith("TooLate: TensorFlow has already started with no simulated GPUs")
    assert "fresh.run(fn, gpus=2)" in text


def test_a_real_card_always_wins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "_listed", lambda: 1)
    monkeypatch.setattr(devices, "_cut", lambda count, size: 1)  # too small for pieces
    assert devices.gpus(2) == ["/GPU:0"]
    assert not loading.loaded()
    assert devices.simulated_gpus() == "TensorFlow has a real GPU here: none is simulated."


@pytest.mark.parametrize("count", [0, -1, 17, True, "2", 2.0, None])
def test_a_wrong_number_of_gpus_is_refused(count: Any):
    with pytest.raises(ValueError, match=r"expected a whole number of GPUs, from 1 to 16"):
        devices.gpus(count)


@pytest.mark.parametrize(
    "memory", [0, -1, "0 GiB", "", "8", "8 parsecs", "GiB", "1 KiB", "1.1 TiB", 1 << 70, 8.0, None]
)
def test_a_wrong_memory_is_refused(memory: Any):
    with pytest.raises(ValueError, match=r"expected a size from 1 MiB to 1 TiB, such as"):
        devices.gpus(1, memory)


@needs
def test_more_memory_than_this_machine_can_manage_is_refused(built):
    assert "keeps a table of 1/32 of a GPU's memory, together 512 GiB" in said(lambda: devices.gpus(16, memory="1 TiB"))
    with pytest.raises(building.NoGpu, match="are more memory than can be mapped here; ask for less"):
        loading.load(16, 1 << 47, None)
    assert not loading.loaded()


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing is built, and the only compiler is one that a test writes into `bin`."""
    (tmp_path / "bin").mkdir()
    return {building.VARIABLE: str(tmp_path / "cache"), "PATH": str(tmp_path / "bin")}


def compiler(elsewhere: dict[str, str], *lines: str) -> None:
    """Write the compiler: a script that is given the file to make as $out."""
    script = Path(elsewhere["PATH"]) / "c++"
    find_out = 'while [ "$1" != -o ]; do shift; done; out=$2'
    script.write_text("\n".join((f"#!{shutil.which('sh')}", find_out, *lines)) + "\n")
    script.chmod(0o755)


def two() -> list[str]:
    return devices.gpus(2)


@needs
@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "none of c++, g++, clang++ is on the PATH: install one (Debian, Ubuntu: `apt-get install g++`"),
        (
            ["echo 'a.cc:1: error: no such thing' >&2", "exit 1"],
            "c++ could not build it (a.cc:1: error: no such thing)",
        ),
        (['echo nonsense > "$out"'], "cannot be loaded"),
    ],
    ids=["missing", "fails", "no library"],
)
def test_a_compiler_that_is_missing_fails_or_makes_no_library_is_told(
    elsewhere: dict[str, str], lines: list[str], says: str
):
    if lines:
        compiler(elsewhere, *lines)
    assert says in said(two, env=elsewhere)


@needs
def test_no_place_to_keep_it_names_the_folder_and_the_variable(elsewhere: dict[str, str], tmp_path: Path):
    compiler(elsewhere, "exit 0")
    (tmp_path / "cache").write_text("a file")
    text = said(two, env=elsewhere)
    assert f"it cannot be kept in {tmp_path}/cache/simulated_gpu" in text
    assert "set ACROSS_CACHE to a folder" in text
    (tmp_path / "cache").unlink()
    compiler(elsewhere, "echo 'as: No space left on device' >&2", "exit 1")
    assert "(No space left on device): set ACROSS_CACHE" in said(two, env=elsewhere)


@needs
def test_what_was_built_for_another_tensorflow_is_refused_and_not_loaded(built: Path, elsewhere: dict[str, str]):
    copy = f'"$CP" "{built}" "$out"'
    compiler(elsewhere, copy)

    def newer():
        import tensorflow as tf

        tf.__version__ = "2.21.9"
        devices.gpus(1)

    assert "was built for TensorFlow 2.21.0, and this is 2.21.9; remove it" in said(
        newer, env={**elsewhere, "CP": shutil.which("cp") or "cp"}
    )

    def another():
        import tensorflow as tf

        tf.__version__ = "2.22.0"
        devices.gpus(1)

    assert "it is written for TensorFlow 2.21, and this is 2.22.0" in said(another)


@needs
def test_two_processes_that_build_at_once_both_have_a_whole_one(built: Path, elsewhere: dict[str, str], tmp_path: Path):
    half = f'"$HEAD" -c 1000 "{built}" > "$out"; "$SLEEP" 0.5; "$CP" "{built}" "$out"'
    compiler(elsewhere, half)
    tools = {name.upper(): shutil.which(name) or name for name in ("head", "sleep", "cp")}
    found = fresh.side_by_side(two, [(), ()], env={**elsewhere, **tools}, timeout=120)
    assert found == [["/GPU:0", "/GPU:1"]] * 2
    assert [path.suffix for path in (tmp_path / "cache" / "simulated_gpu").iterdir()] == [".so"]


@needs
@pytest.mark.whole
def test_the_command_builds_it_ahead_and_says_in_a_line_why_it_cannot(elsewhere: dict[str, str]):
    refused = across("prepare", "gpu", **elsewhere)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "across: No simulated GPU: it is built by a C++ compiler" in refused.stderr


@needs
def test_lab_asks_for_them_and_goes_on_where_there_can_be_none(built: Path, monkeypatch: pytest.MonkeyPatch):
    assert lab.simulate(2) == "kernels have 2 simulated GPUs where TensorFlow finds no real one."
    assert os.environ[devices.GPUS] == "2"
    monkeypatch.delenv(devices.GPUS)
    monkeypatch.setattr(building, "WRITTEN_FOR", "1.0")
    assert "it is written for TensorFlow 1.0" in lab.simulate(2)
    assert devices.GPUS not in os.environ


def test_a_run_builds_ahead_what_its_notebook_asks_for_and_nothing_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Path] = []
    monkeypatch.setattr(building, "build", lambda: asked.append(tmp_path) or tmp_path)
    for source, times in (("D = devices.gpus_or_cpus(4)", 1), ("devices.gpus(2)", 2), ("devices.here()", 2)):
        (tmp_path / "a.ipynb").write_text(source)
        headless.build_ahead(tmp_path / "a.ipynb")
        assert len(asked) == times


def test_where_this_is_no_linux_it_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_system, "linux", lambda: False)
    with pytest.raises(building.NoGpu, match=r"No simulated GPU: it needs Linux"):
        building.build()
    assert devices.simulated_gpus().startswith("None can be simulated: it needs Linux")


@needs
def test_the_start_page_says_that_a_chapter_takes_simulated_gpus():
    facts = fresh.run(lambda: doctor.facts()["chapters"], timeout=120)
    assert facts["01_gpu_setup"].startswith("runs on 2 simulated GPUs")
    assert facts["03_device_placement"].startswith("runs on 4 simulated GPUs")
    assert facts["06_control_dependencies"] == "runs on the CPU"
