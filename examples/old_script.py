"""A script as written in 2019. `mixdown run old_script.py` provides the call that TensorFlow has removed since."""

import numpy as np
import tensorflow as tf

x_train = np.random.RandomState(0).normal(size=(512, 20)).astype("float32")
y_train = (x_train.sum(axis=1) > 0).astype("int64")

model = tf.keras.models.Sequential(
    [
        tf.keras.layers.Dense(64, input_shape=(20,), activation="relu"),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
)

opt = tf.keras.optimizers.SGD(0.1)
opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)
model.compile(loss="sparse_categorical_crossentropy", optimizer=opt, metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=5, verbose=2)

loss, accuracy = model.evaluate(x_train, y_train, verbose=0)
print(f"accuracy: {accuracy:.2f}")
