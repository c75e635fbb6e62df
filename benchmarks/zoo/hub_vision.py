"""Image and speech models of keras-hub, tiny."""

from typing import Any

import keras
import keras_hub
import numpy as np
from benchmarks.zoo.training import BATCH, Run

models = keras_hub.models
SIZE = 64


def _images(run: Run) -> tuple[Any, Any]:
    images, labels = run.digits(SIZE)
    return np.repeat(images, 3, -1), labels


def _classify(run: Run, task: Any, backbone: Any) -> list[float]:
    images, labels = _images(run)
    model = task(backbone=backbone, num_classes=10, preprocessor=None)
    return run.fit(model, images, labels, keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def keras_hub_ResNet(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify images, by bottlenecks with batch normalization."""
    stages = {"stackwise_num_filters": [64, 128], "stackwise_num_blocks": [2, 2], "stackwise_num_strides": [1, 2]}
    backbone = models.ResNetBackbone([64], [7], **stages, block_type="bottleneck_block", image_shape=(SIZE, SIZE, 3))
    return _classify(run, models.ResNetImageClassifier, backbone)


def keras_hub_DenseNet(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify images, by concatenated convolutions."""
    backbone = models.DenseNetBackbone([2, 2, 2], image_shape=(SIZE, SIZE, 3), growth_rate=16)
    return _classify(run, models.DenseNetImageClassifier, backbone)


def keras_hub_ViT(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify images, by attention to patches."""
    backbone = models.ViTBackbone((SIZE, SIZE, 3), (16, 16), 2, 4, 64, 128)
    return _classify(run, models.ViTImageClassifier, backbone)


def keras_hub_SAM(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Segment what a point marks."""
    vision = models.ViTDetBackbone(
        hidden_size=32, num_layers=2, intermediate_dim=64, num_heads=2, global_attention_layer_indices=[1],
        patch_size=16, num_output_channels=32, window_size=2, image_shape=(SIZE, SIZE, 3),
    )  # fmt: skip
    layers = keras_hub.layers
    prompts = layers.SAMPromptEncoder(
        hidden_size=32, image_embedding_size=(4, 4), input_image_size=(SIZE, SIZE), mask_in_channels=8
    )
    decoder = layers.SAMMaskDecoder(
        num_layers=2, hidden_size=32, intermediate_dim=64, num_heads=2, embedding_dim=32, num_multimask_outputs=3,
        iou_head_depth=2, iou_head_hidden_dim=32,
    )  # fmt: skip
    backbone = models.SAMBackbone(vision, prompts, decoder)
    model = models.SAMImageSegmenter(backbone, preprocessor=None)
    images, _ = _images(run)
    inputs = {
        "images": images,
        "points": run.data.uniform(0, SIZE, (BATCH, 1, 2)).astype("float32"),
        "labels": np.ones((BATCH, 1), "float32"),
        "boxes": np.zeros((BATCH, 0, 2, 2), "float32"),
        "masks": np.zeros((BATCH, 0, 16, 16, 1), "float32"),
    }
    targets = run.data.uniform(0, 1, (BATCH, 4, 16, 16)).astype("float32")

    def loss() -> Any:
        return keras.ops.mean(keras.ops.square(model(inputs, training=True)["masks"] - targets))

    return run.train(loss, lambda: model.trainable_variables)


def keras_hub_Whisper(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Transcribe speech."""
    backbone = models.WhisperBackbone(
        400, 2, 4, 64, 128, max_encoder_sequence_length=60, max_decoder_sequence_length=32
    )
    tokens = run.tokens(400)
    inputs = {
        "encoder_features": run.data.normal(size=(BATCH, 60, 80)).astype("float32"),
        "decoder_token_ids": tokens,
        "decoder_padding_mask": np.ones_like(tokens),
    }
    outputs = keras.layers.Dense(400)(backbone.output["decoder_sequence_output"])
    model = keras.Model(backbone.input, outputs)
    return run.fit(model, inputs, np.roll(tokens, -1, 1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
