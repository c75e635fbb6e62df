"""Image models of the corpus: classifiers of Keras Applications, a U-Net, a DCGAN and a small ResNet."""

from typing import Any

import tensorflow as tf
from benchmarks.corpus_training import BATCH, LIBRARIES, adam, apply_updates, floats, integers, sgd, supervised_step
from benchmarks.flat_graph import Step


def classifier(application: str, library_name: str, size: int = 224) -> Step:
    """Train a network of Keras Applications, untrained weights, with SGD and momentum."""
    library = LIBRARIES[library_name]
    model = getattr(library.applications, application)(weights=None, input_shape=(size, size, 3))
    loss = library.losses.SparseCategoricalCrossentropy()
    return supervised_step(model, sgd(library), loss, [floats(size, size, 3)], integers())


def small_resnet(library_name: str, blocks: int = 2, size: int = 32) -> Step:
    """Train a few residual blocks: every op kind of ResNet50 in a graph that builds at once."""
    library = LIBRARIES[library_name]
    layers = library.layers
    image = library.Input((size, size, 3))
    hidden = normalised_conv(layers, image, 16)
    for width in (16, 32)[:blocks]:
        shortcut = layers.Conv2D(width, 1, strides=2)(hidden)
        hidden = normalised_conv(layers, hidden, width, strides=2)
        hidden = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(hidden))
        hidden = layers.ReLU()(layers.Add()([hidden, shortcut]))
    hidden = layers.GlobalAveragePooling2D()(layers.MaxPooling2D(2)(hidden))
    model = library.Model(image, layers.Dense(10, activation="softmax")(hidden))
    loss = library.losses.SparseCategoricalCrossentropy()
    return supervised_step(model, sgd(library), loss, [floats(size, size, 3)], integers())


def normalised_conv(layers: Any, hidden: Any, width: int, strides: int = 1) -> Any:
    """Convolution, batch normalisation, ReLU."""
    hidden = layers.Conv2D(width, 3, strides=strides, padding="same")(hidden)
    return layers.ReLU()(layers.BatchNormalization()(hidden))


def unet(library_name: str, size: int = 256, width: int = 64, depth: int = 4) -> Step:
    """Train a U-Net with batch normalisation and transposed convolutions for two classes a pixel."""
    library = LIBRARIES[library_name]
    image = library.Input((size, size, 3))
    logits = unet_logits(library.layers, image, width, depth)
    loss = library.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = library.Model(image, logits)
    return supervised_step(model, adam(library), loss, [floats(size, size, 3)], integers(size, size))


def unet_logits(layers: Any, hidden: Any, width: int, depth: int) -> Any:
    """Go down and up again, joining each level with its mirror image."""
    levels = []
    for level in range(depth):
        hidden = two_convs(layers, hidden, width << level)
        levels.append(hidden)
        hidden = layers.MaxPooling2D(2)(hidden)
    hidden = two_convs(layers, hidden, width << depth)
    for level in reversed(range(depth)):
        hidden = layers.Conv2DTranspose(width << level, 2, strides=2)(hidden)
        hidden = two_convs(layers, layers.Concatenate()([levels[level], hidden]), width << level)
    return layers.Conv2D(2, 1)(hidden)


def two_convs(layers: Any, hidden: Any, width: int) -> Any:
    """Two normalised convolutions, the unit a U-Net is made of."""
    return normalised_conv(layers, normalised_conv(layers, hidden, width), width)


def dcgan(library_name: str, size: int = 64, width: int = 64) -> Step:
    """Train a generator and a discriminator in one step, each with its own Adam."""
    library = LIBRARIES[library_name]
    generator, discriminator = dcgan_models(library, size, width)
    optimizers = (adam(library), adam(library))
    players = (generator, discriminator)
    for optimizer, player in zip(optimizers, players, strict=True):
        optimizer.build(player.trainable_variables)
    loss_of = library.losses.BinaryCrossentropy(from_logits=True)

    def run(noise: Any, real: Any) -> tuple[Any, Any]:
        with tf.GradientTape(persistent=True) as tape:
            on_fake = discriminator(generator(noise, training=True), training=True)
            on_real = discriminator(real, training=True)
            fooled = loss_of(tf.ones_like(on_fake), on_fake)
            caught = loss_of(tf.ones_like(on_real), on_real) + loss_of(tf.zeros_like(on_fake), on_fake)
        for optimizer, player, loss in zip(optimizers, players, (fooled, caught), strict=True):
            apply_updates(optimizer, tape, loss, player.trainable_variables)
        return fooled, caught

    return Step(run, (floats(100), tf.TensorSpec((BATCH, size, size, 3), tf.float32)))


def dcgan_models(library: Any, size: int, width: int) -> tuple[Any, Any]:
    """Build the generator (noise to image) and the discriminator (image to logit)."""
    layers, doublings = library.layers, (size // 4).bit_length() - 1
    hidden = noise = library.Input((100,))
    widest = width << (doublings - 1)
    hidden = layers.Reshape((4, 4, widest))(layers.Dense(16 * widest, use_bias=False)(hidden))
    hidden = layers.ReLU()(layers.BatchNormalization()(hidden))
    for level in reversed(range(doublings - 1)):
        hidden = layers.Conv2DTranspose(width << level, 5, strides=2, padding="same", use_bias=False)(hidden)
        hidden = layers.ReLU()(layers.BatchNormalization()(hidden))
    fake = layers.Conv2DTranspose(3, 5, strides=2, padding="same", activation="tanh")(hidden)
    hidden = image = library.Input((size, size, 3))
    for level in range(doublings):
        hidden = layers.Conv2D(width << level, 5, strides=2, padding="same")(hidden)
        hidden = layers.Dropout(0.3)(layers.LeakyReLU(0.2)(hidden))
    logit = layers.Dense(1)(layers.Flatten()(hidden))
    return library.Model(noise, fake), library.Model(image, logit)
