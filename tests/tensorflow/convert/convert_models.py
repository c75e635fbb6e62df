"""Ten small models, each saved the way its kind is saved in the wild. `MODELS` names them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

Inputs = dict[str, dict[str, np.ndarray]]
"""By signature and by name."""

rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype("float32")


def weight(*shape: int) -> tf.Variable:
    return tf.Variable(normal(*shape) / np.sqrt(shape[0]).astype("float32"))


class Cnn(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.head = weight(3, 3, 2, 8), weight(8, 5)
        self.scale, self.mean = tf.Variable(tf.ones(8)), tf.Variable(tf.zeros(8))

    @tf.function(input_signature=[tf.TensorSpec([None, 12, 12, 2], name="images")])
    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(tf.nn.conv2d(images, self.kernel, 1, "SAME"))
        hidden, _, _ = tf.compat.v1.nn.fused_batch_norm(
            hidden, self.scale, self.mean, self.mean, tf.ones(8), is_training=False
        )
        return tf.nn.softmax(tf.reduce_mean(hidden, [1, 2]) @ self.head)


def cnn(path: Path) -> Inputs:
    tf.saved_model.save(Cnn(), str(path))
    return {"serving_default": {"images": normal(3, 12, 12, 2)}}


def lstm(path: Path) -> Inputs:
    layers = [keras.layers.Input((6, 4), name="steps"), keras.layers.LSTM(8), keras.layers.Dense(3)]
    keras.Sequential(layers).export(str(path), verbose=False)
    return {"serving_default": {"steps": normal(3, 6, 4)}}


def transformer(path: Path) -> Inputs:
    tokens = keras.layers.Input((7, 16), name="tokens")
    attended = keras.layers.MultiHeadAttention(2, 8)(tokens, tokens)
    hidden = keras.layers.LayerNormalization()(tokens + attended)
    hidden = hidden + keras.layers.Dense(16)(keras.layers.Dense(32, activation="gelu")(hidden))
    keras.Model(tokens, hidden).export(str(path), verbose=False)
    return {"serving_default": {"tokens": normal(3, 7, 16)}}


class Embedding(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = weight(50, 16), weight(16, 4)

    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.int64, name="ids")])
    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.nn.embedding_lookup(self.table, ids), 1) @ self.head


def embedding(path: Path) -> Inputs:
    tf.saved_model.save(Embedding(), str(path))
    return {"serving_default": {"ids": rng.integers(0, 50, [3, 5])}}


class TwoHeads(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = weight(8, 16), weight(16, 2)

    @tf.function(input_signature=[tf.TensorSpec([None, 8], name="x")])
    def features(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"features": tf.nn.relu(x @ self.body)}

    @tf.function(input_signature=[tf.TensorSpec([None, 8], name="x"), tf.TensorSpec([], tf.bool, name="normalise")])
    def classify(self, x: tf.Tensor, normalise: tf.Tensor) -> dict[str, tf.Tensor]:
        scores = self.features(x)["features"] @ self.head
        chosen = tf.cond(normalise, lambda: tf.nn.softmax(scores), lambda: scores)
        return {"scores": chosen, "best": tf.argmax(scores, 1)}


def signatures(path: Path) -> Inputs:
    model = TwoHeads()
    tf.saved_model.save(model, str(path), {"features": model.features, "classify": model.classify})
    return {"features": {"x": normal(3, 8)}, "classify": {"x": normal(3, 8), "normalise": np.array(True)}}  # noqa: FBT003 - a tensor


class Words(tf.Module):
    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        source = tf.lookup.TextFileInitializer(vocabulary, tf.string, 0, tf.int64, 1, delimiter="\t")
        self.table, self.vectors, self.head = tf.lookup.StaticVocabularyTable(source, 2), weight(5, 8), weight(8, 3)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        scores = tf.gather(self.vectors, self.table.lookup(text)) @ self.head
        return {"scores": scores, "shout": tf.strings.upper(text)}


def strings(path: Path) -> Inputs:
    vocabulary = path.with_suffix(".txt")
    vocabulary.write_text("red\t0\ngreen\t1\nblue\t2\n", "utf-8")
    tf.saved_model.save(Words(str(vocabulary)), str(path))
    vocabulary.unlink()
    return {"serving_default": {"text": np.array([b"red", b"blue", b"pink"], dtype=object)}}


class Loop(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = weight(8, 8)

    @tf.function(input_signature=[tf.TensorSpec([None, 8], name="x"), tf.TensorSpec([], tf.int32, name="times")])
    def __call__(self, x: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
        def step(number: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return number + 1, tf.nn.relu(y @ self.kernel) + x

        return tf.while_loop(lambda number, _: number < times, step, (0, x))[1]


def loop(path: Path) -> Inputs:
    tf.saved_model.save(Loop(), str(path))
    return {"serving_default": {"x": normal(3, 8), "times": np.array(3, "int32")}}


def with_tf_keras(path: Path) -> Inputs:
    layers = [
        tf_keras.layers.Input((10, 10, 1), name="images"),
        tf_keras.layers.Conv2D(4, 3, activation="relu"),
        tf_keras.layers.BatchNormalization(),
        tf_keras.layers.Flatten(),
        tf_keras.layers.Dense(3, activation="softmax"),
    ]
    tf_keras.Sequential(layers).save(str(path), save_format="tf")
    return {"serving_default": {"images": normal(3, 10, 10, 1)}}


def with_keras_3(path: Path) -> Inputs:
    layers = [keras.layers.Input((20,), name="x"), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)]
    keras.Sequential(layers).export(str(path), verbose=False)
    return {"serving_default": {"x": normal(3, 20)}, "serve": {"x": normal(2, 20)}}


def with_tensorflow_1(path: Path) -> Inputs:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 12], "x")
        kernel = v1.get_variable("kernel", [12, 16], use_resource=True)
        head = v1.get_variable("head", [16, 4], use_resource=False)
        scores = tf.nn.relu(x @ kernel) @ head
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"scores": scores})
    return {"serving_default": {"x": normal(3, 12)}}


MODELS: dict[str, Callable[[Path], Inputs]] = {
    "cnn": cnn,
    "lstm": lstm,
    "transformer": transformer,
    "embedding": embedding,
    "multi-signature": signatures,
    "string inputs": strings,
    "while loop": loop,
    "tf_keras": with_tf_keras,
    "keras 3 export": with_keras_3,
    "v1 simple_save": with_tensorflow_1,
}


def run(folder: Path, inputs: Inputs) -> dict[str, Any]:
    """What a saved model gives, loaded as Python objects and loaded into a session, by "way/signature/output"."""
    loaded, out = tf.saved_model.load(str(folder)), {}
    for name, feeds in inputs.items():
        signature = loaded.signatures[name]
        types = {key: spec.dtype for key, spec in signature.structured_input_signature[1].items()}
        for key, value in signature(**{key: tf.constant(feeds[key], types[key]) for key in feeds}).items():
            out[f"objects/{name}/{key}"] = value.numpy()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        for name, feeds in inputs.items():
            declared = graph.signature_def[name]
            types = {key: tf.as_dtype(info.dtype).as_numpy_dtype for key, info in declared.inputs.items()}
            fed = {declared.inputs[key].name: np.asarray(feeds[key], types[key]) for key in feeds}
            for key, info in declared.outputs.items():
                out[f"session/{name}/{key}"] = session.run(info.name, fed)
    return out
