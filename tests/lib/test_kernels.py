"""What `across.kernels` promises, against TensorFlow's own lookup of a kernel."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.image import imread
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
    listed = {
        dtype
        for kernel in kernels.of(op)
        for dtype in kernel.dtypes.get("T", kernels.DTYPES)
        if kernel.device in (device, "DEFAULT")
    }
    assert {d for d in kernels.DTYPES if d in listed} == {d for d in kernels.DTYPES if looked_up(op, d, device)}


def test_every_op_of_the_registry_is_listed():
    everything = registry.get_all_registered_kernels().kernel
    assert set(kernels.ops()) == {kernel.op for kernel in everything}
    assert sum(kernels.counts().values()) == len(everything)


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


def test_the_picture_shows_something_and_says_it_in_words():
    picture = kernels.of("MatMul").draw()
    assert np.ptp(imread(io.BytesIO(picture.png))) > 0
    assert "GPU: " in picture.alt
    assert "uint8" not in picture.alt


def test_a_handle_on_the_host_is_not_taken_for_the_data():
    assert "in the CPU's memory" not in kernels.of("VarHandleOp").draw().alt
