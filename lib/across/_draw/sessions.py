"""Running a traced function as a graph in a session of TensorFlow 1, whose statistics tell allocations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from across import tracing


def peak(function: Callable[..., Any], *args: Any, threads: int = -1) -> int:
    """Run `function(*args)` and return the most bytes that its ops' results took at the same time; variables do not count.

    `threads` is the size of the pool in which ops run; with -1 the caller's own thread runs them, first in, first out.
    Variables are left alone: the graph has copies of them. Raises what TensorFlow raises.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    concrete = tracing.concrete(function, *args)
    captured = [(outside, inside) for outside, inside in concrete.graph.captures]
    inside = {tensor.op.name for _, tensor in captured}
    parameters = [tensor for tensor in concrete.inputs if tensor.op.name not in inside]
    given = [each for each in tf.nest.flatten(list(args)) if isinstance(each, tf.Tensor | tf.Variable)]
    feed = {tensor.name: each.numpy() for tensor, each in zip(parameters, given, strict=False)}
    graph_def = concrete.graph.as_graph_def()
    variables: dict[str, tf.Variable] = {}
    for outside, tensor in captured:
        owner = next((each for each in concrete.graph.variables if each.handle is outside), None)
        if owner is None:
            feed[tensor.name] = outside.numpy()
        else:
            variables[tensor.op.name] = owner
    for node in graph_def.node:
        if node.name in variables:
            tracing.as_variable(node, node.name, variables[node.name])
    values = {name: variable.numpy() for name, variable in variables.items()}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        first = [
            tf.raw_ops.AssignVariableOp(resource=graph.get_tensor_by_name(f"{name}:0"), value=value)
            for name, value in values.items()
        ]
    fetches = [tensor.name for tensor in concrete.outputs] or [op.name for op in graph.get_operations()]
    seen = v1.RunMetadata()
    config, options = settings(threads)
    options.trace_level = v1.RunOptions.FULL_TRACE
    with v1.Session(graph=graph, config=config) as session:
        session.run(first)
        session.run(fetches, feed, options=options, run_metadata=seen)
    nodes = [node for device in seen.step_stats.dev_stats for node in device.node_stats]
    records = [each for node in nodes for memory in node.memory for each in memory.allocation_records]
    now = most = 0
    for _, size in sorted((each.alloc_micros, each.alloc_bytes) for each in records):  # every allocation and its end
        now += size
        most = max(most, now)
    return most


def settings(threads: int) -> tuple[Any, Any]:
    """ConfigProto and RunOptions of a session on the CPU with so many inter-op threads; below 1, ops run in the caller's.

    Its pool is its own: a first session that takes another would settle that of all later sessions of the process.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    config = v1.ConfigProto(inter_op_parallelism_threads=max(threads, 1), use_per_session_threads=True)
    config.device_count["GPU"] = 0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config, v1.RunOptions(inter_op_thread_pool=-1 if threads < 1 else 0)
