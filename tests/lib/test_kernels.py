"""What `across.kernels` promises, against TensorFlow's own lookup of a kernel."""

from __future__ import annotations

import lzma
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels as registry
from tensorflow.python.util import _pywrap_kernel_registry

from across import kernels


def looked_up(op: str, dtype: str, device: str) -> bool:
    """Whether TensorFlow's executor would find a kernel."""
    node = tf.compat.v1.NodeDef(name="n", op=op, device=f"/device:{device}:0")
    node.attr["T"].type = tf.as_dtype(dtype).as_datatype_enum
    return bool(_pywrap_kernel_registry.TryFindKernelClass(node.SerializeToString()))


@pytest.mark.parametrize("op", ["MatMul", "AddV2", "Sqrt", "Add", "BiasAdd"])
@pytest.mark.parametrize("device", ["CPU", "GPU"])
def test_an_op_has_the_kernels_that_tensorflow_finds(op, device):
    if device == "GPU" and not tf.test.is_built_with_cuda():
        pytest.skip("TensorFlow here is built without CUDA")
    listed = {
        dtype
        for kernel in kernels.of(op)
        for dtype in kernel.dtypes.get("T", kernels.DTYPES)
        if kernel.device in (device, "DEFAULT")
    }
    assert {d for d in kernels.DTYPES if d in listed} == {d for d in kernels.DTYPES if looked_up(op, d, device)}


def test_kernels_that_must_be_asked_for_by_name_are_left_out():
    labelled = {kernel.label for kernel in registry.get_registered_kernels_for_op("_MklMatMul").kernel}
    assert labelled == {"MklNameChangeOp"}
    assert len(kernels.of("_MklMatMul")) == 0


def test_an_unknown_op_has_no_kernels_and_no_picture():
    assert list(kernels.of("NoSuchOp")) == []
    with pytest.raises(ValueError, match="NoSuchOp has no kernels"):
        kernels.of("NoSuchOp").draw()


def test_a_kernel_without_constraints_takes_any_dtype():
    (row,) = kernels.of("NcclAllReduce").rows()
    assert row == ["NcclAllReduce", "GPU", "any", ""]


def test_data_that_stay_on_the_host_are_told_in_the_table_and_in_the_picture():
    adding = kernels.of("AddV2")
    assert ["AddV2", "GPU", "int32", "x, y, z"] in adding.rows()
    assert "int32 (data in the CPU's memory)" in adding.draw().alt


def test_pictures_to_be_compared_can_have_the_same_rows_and_a_handle_on_the_host_is_not_taken_for_the_data():
    told = [kernels.of(op).draw(devices=kernels.TYPES).alt for op in ("VariableV2", "VarHandleOp")]
    assert "GPU: bfloat16" in told[0]
    assert "GPU: none of these" in told[1]
    assert "in the CPU's memory" not in told[1]


# Where TensorFlow is built without CUDA


@pytest.fixture
def without_cuda(monkeypatch) -> Any:
    """TensorFlow says that it is built without CUDA, and its own list has the few GPU kernels that such a wheel has."""
    monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: False)
    every = registry.get_all_registered_kernels().kernel
    left = [kernel for kernel in every if kernel.device_type != "GPU" or kernel.op == "Identity"]
    listed = type(registry.get_all_registered_kernels())

    def of_op(op: str) -> Any:
        return listed(kernel=[kernel for kernel in left if kernel.op == op])

    monkeypatch.setattr(registry, "get_all_registered_kernels", lambda: listed(kernel=left))
    monkeypatch.setattr(registry, "get_registered_kernels_for_op", of_op)


OPS = ["MatMul", "AddV2", "FFTND", "NcclAllReduce", "VariableV2", "VarHandleOp", "Cast", "Sqrt", "NoSuchOp"]


def test_the_recorded_list_is_tensorflows_own(without_cuda, monkeypatch):
    recorded = {op: list(kernels.of(op)) for op in OPS}
    listed = sorted((kernel.op, kernel.device_type) for kernel in kernels.registered())
    monkeypatch.undo()
    if not tf.test.is_built_with_cuda():
        pytest.skip("TensorFlow here is built without CUDA")
    assert recorded == {op: list(kernels.of(op)) for op in OPS}
    assert listed == sorted((kernel.op, kernel.device_type) for kernel in kernels.registered())


def test_the_recording_is_small_and_can_be_made_again(tmp_path):
    if not tf.test.is_built_with_cuda():
        pytest.skip("TensorFlow here is built without CUDA")
    made = kernels.record(tmp_path / "kernels")
    assert lzma.decompress(made.read_bytes()) == lzma.decompress(kernels._RECORDING.read_bytes())
    assert made.stat().st_size < 50_000
    assert tf.__version__ == kernels.RECORDED


def test_the_list_that_is_shown_is_named(without_cuda, monkeypatch):
    assert kernels.source().startswith(f"recorded from TensorFlow {kernels.RECORDED} with CUDA")
    monkeypatch.undo()
    if tf.test.is_built_with_cuda():
        assert kernels.source() == f"read from TensorFlow {tf.__version__}, built with CUDA"


def test_nothing_is_recorded_without_cuda(without_cuda, tmp_path):
    with pytest.raises(RuntimeError, match="built without CUDA"):
        kernels.record(tmp_path / "kernels")
