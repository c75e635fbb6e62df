"""The ways to run a session: scenarios for any defaults of TensorFlow. RUNNING lists them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import CallableOptions
from tests.tensorflow.sessions.session_lab import LOW, Trace, assert_same_surface, plainly, square, v1
from tests.tensorflow.sessions.session_training import ROWS, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable


def feeding_and_fetching_converted_tensors() -> None:
    product = square("product")
    after = tf.nn.relu(product, name="after")
    last = tf.matmul(after, tf.constant([[1.0]]), name="last")
    with v1.Session(config=plainly()) as session:
        values = session.run({"product": product, "after": "after:0", "last": [last]})
        assert np.isinf(values["product"]).all()
        assert np.isinf(values["after"]).all()
        assert {values["product"].dtype, values["after"].dtype} == {np.dtype("float32")}
        for key in (product, "product:0"):
            assert session.run(last, {key: [[7.0]]}) == [[7.0]]
        assert np.isinf(session.run(after, {product: [[70000.0]]})).all()
        assert session.run([product, after], {product: [[70000.0]]})[0] == [[70000.0]]
        assert session.run(session.graph.get_operation_by_name("product")) is None
        assert_same_surface(session)


def queue_runners() -> None:
    source = tf.data.Dataset.from_tensor_slices(ROWS).repeat()
    row = v1.data.make_one_shot_iterator(source).get_next()
    queue = v1.FIFOQueue(16, [tf.float32], shapes=[[4]])
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(row)] * 2))
    product = tf.matmul(queue.dequeue_many(4), WEIGHTS, name="product")
    with v1.Session(config=plainly()) as session:
        coordinator = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        trace = Trace(session, product)
        trace.low("MatMul")
        assert trace.values.shape == (4, 3)
        coordinator.request_stop()
        session.run(queue.close(cancel_pending_enqueues=True))
        coordinator.join(threads)


def dataset_iterators() -> None:
    data = (
        tf.data.Dataset.from_tensor_slices(ROWS)
        .map(lambda row: tf.matmul(row[None] * 300, row[:, None] * 300))
        .batch(4)
    )
    iterator = v1.data.make_initializable_iterator(data)
    batch = iterator.get_next()
    product = tf.matmul(tf.tile(batch[:, 0], [1, 2]), tf.constant([[0.5], [0.5]]))
    with v1.Session(config=plainly()) as session:
        session.run(iterator.initializer)
        expected = 90000 * (ROWS**2).sum(1)
        np.testing.assert_allclose(session.run(batch)[:, 0, 0], expected[:4], rtol=1e-5)  # the data set is left alone
        trace = Trace(session, product)
        trace.low("MatMul")
        assert np.isinf(trace.values[expected[4:] > 70000]).all()
        try:
            session.run(product)
        except tf.errors.OutOfRangeError:
            return
        raise AssertionError("the iterator has no end")


def callables() -> None:
    x = v1.placeholder(tf.float32, [1, 1], name="x")
    product = square("product")
    after = tf.nn.relu(product, name="after")
    last = tf.matmul(after, tf.constant([[1.0]]), name="last")
    echo = tf.identity(x, name="echo")
    with v1.Session(config=plainly()) as session:
        assert np.isinf(session.make_callable(product)()).all()
        assert session.make_callable(product.op)() is None
        both = session.make_callable([product, {"last": last}])()
        assert np.isinf(both[1]["last"]).all()
        metadata = v1.RunMetadata()
        options = v1.RunOptions(output_partition_graphs=True)
        session.make_callable(last, accept_options=True)(options=options, run_metadata=metadata)
        nodes = [node for graph in metadata.partition_graphs for node in graph.node if node.op == "MatMul"]
        assert {node.attr["T"].type for node in nodes} == {LOW}
        assert session.make_callable([last, echo], feed_list=[product, x])([[3.0]], [[4.0]]) == [[[3.0]], [[4.0]]]
        description = CallableOptions(feed=["product:0", "x:0"], fetch=["last:0", "echo:0"])
        described = session._make_callable_from_options(description)
        for _ in range(2):
            assert described(np.array([[3.0]], "float32"), np.array([[4.0]], "float32")) == [[[3.0]], [[4.0]]]
        assert description.feed == ["product:0", "x:0"]


def partial_runs() -> None:
    x = v1.placeholder(tf.float32, [1, 1], name="x")
    product = tf.matmul(x, x, name="product")
    after = tf.nn.relu(product, name="after")
    last = tf.matmul(after, tf.constant([[2.0]]), name="last")
    with v1.Session() as session:
        handle = session.partial_run_setup([product, last], [x])
        assert session.partial_run(handle, product, {x: [[3.0]]}) == [[9.0]]
        assert session.partial_run(handle, last) == [[18.0]]
        handle = session.partial_run_setup([product, last], [x, after])
        assert np.isinf(session.partial_run(handle, product, {x: [[300.0]]})).all()
        assert session.partial_run(handle, last, {after: [[5.0]]}) == [[10.0]]


def threads_on_one_session() -> None:
    x = v1.placeholder(tf.float32, [1, 1])
    product = tf.matmul(x, x)
    wrong: list[Any] = []
    with v1.Session() as session:

        def work(number: int) -> None:
            for _ in range(20):
                value = session.run(product, {x: [[float(number)]]})
                if value != [[float(number) ** 2]]:
                    wrong.append(value)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for worker in workers:
            worker.start()
        for _ in range(10):
            tf.matmul(x, x)
        for worker in workers:
            worker.join()
        assert not wrong
        assert np.isinf(session.run(product, {x: [[300.0]]})).all()


def interactive_session() -> None:
    product = square("product")
    session = v1.InteractiveSession(config=plainly())
    try:
        assert np.isinf(product.eval()).all()
        assert (product * 0 + 1).graph is session.graph
    finally:
        session.close()


def errors_name_the_user() -> None:
    wrong = v1.placeholder(tf.float32, [None, None], name="wrong")
    product = tf.matmul(square("product"), wrong, name="culprit")
    with v1.Session(config=plainly()) as session:
        for run in (
            lambda: session.run(product, {wrong: np.ones((2, 2))}),
            lambda: session.make_callable(product, feed_list=[wrong])(np.ones((2, 2))),
        ):
            error = raised(run)
            assert error.op is product.op
            assert error.node_def.name == "culprit"
            assert "__mixdown" not in str(error)
            assert "{{node culprit}}" in str(error)
            assert Path(__file__).name in str(error), str(error)


def raised(run: Callable[[], Any]) -> Any:
    """The error of TensorFlow's that a call raises."""
    try:
        run()
    except tf.errors.OpError as error:
        return error
    raise AssertionError("nothing was raised")


def tensor_handles() -> None:
    x = v1.placeholder(tf.float32, [1, 1])
    product = tf.matmul(x, x, name="product")
    keep = v1.get_session_handle(tf.constant([[2.0]]))
    with v1.Session(config=plainly()) as session:
        assert session.run(product, {x: session.run(keep)}) == [[4.0]]


def server_in_this_process() -> None:
    server = v1.train.Server.create_local_server()
    x = v1.placeholder(tf.float32, [1, 1])
    product = tf.matmul(x, x)
    with v1.Session(server.target, config=plainly()) as session:
        trace = Trace(session, product, {x: [[300.0]]})
        trace.low("MatMul")
        assert np.isinf(trace.values).all()
        assert np.isinf(session.run(square("late"))).all()
        assert session.run(tf.nn.relu(product), {product: [[7.0]]}) == [[7.0]]


RUNNING: tuple[Callable[[], None], ...] = (
    feeding_and_fetching_converted_tensors,
    queue_runners,
    dataset_iterators,
    callables,
    partial_runs,
    threads_on_one_session,
    interactive_session,
    errors_name_the_user,
    tensor_handles,
    server_in_this_process,
)
