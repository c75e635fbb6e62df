"""TensorFlow models of Hugging Face's transformers, from tiny configurations."""

from typing import Any

import numpy as np
import tensorflow as tf
import transformers
from benchmarks.zoo.training import BATCH, Run

VOCABULARY = 400
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DECODER = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def _train(run: Run, model: Any, inputs: dict[str, Any]) -> list[float]:
    """Train by the loss that the model returns if it is given labels."""
    batch = {name: tf.constant(value) for name, value in inputs.items()}
    return run.train(
        lambda: tf.reduce_mean(model(batch, training=True).loss), lambda: model.trainable_variables, rate=1e-3
    )


def _labelled(run: Run) -> dict[str, Any]:
    tokens = run.tokens(VOCABULARY)
    mask = (np.arange(32) < run.data.integers(20, 32, (BATCH, 1))).astype("int32")
    return {"input_ids": tokens, "attention_mask": mask, "labels": run.data.integers(0, 2, (BATCH,))}


def transformers_BERT(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify text."""
    model = transformers.TFBertForSequenceClassification(transformers.BertConfig(**SIZES, **STILL))
    return _train(run, model, _labelled(run))


def _causal(run: Run, model: Any) -> list[float]:
    tokens = run.tokens(VOCABULARY)
    return _train(run, model, {"input_ids": tokens, "labels": tokens})


def transformers_GPT_2(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token."""
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=64, n_layer=1, n_head=4, **still)
    return _causal(run, transformers.TFGPT2LMHeadModel(config))


def transformers_OPT(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token."""
    config = transformers.OPTConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=1, ffn_dim=128, num_attention_heads=4, dropout=0.0,
        max_position_embeddings=64, word_embed_proj_dim=64, **DECODER,
    )  # fmt: skip
    return _causal(run, transformers.TFOPTForCausalLM(config))


def transformers_Mistral(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token, with rotary embeddings."""
    config = transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=16, **DECODER)
    return _causal(run, transformers.TFMistralForCausalLM(config))


def transformers_T5(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """From sequence to sequence."""
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0,
    )  # fmt: skip
    return _causal(run, transformers.TFT5ForConditionalGeneration(config))


def transformers_ViT(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify images."""
    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    config = transformers.ViTConfig(**sizes, **STILL, image_size=32, patch_size=8, num_labels=10)
    images, labels = run.digits(32)
    pixels = np.repeat(images.transpose(0, 3, 1, 2), 3, 1)
    return _train(run, transformers.TFViTForImageClassification(config), {"pixel_values": pixels, "labels": labels})


def transformers_Whisper(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Transcribe speech."""
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=30,
        max_target_positions=32, num_mel_bins=80, dropout=0.0, decoder_start_token_id=1, suppress_tokens=None,
        begin_suppress_tokens=None, **DECODER,
    )  # fmt: skip
    speech = run.data.normal(size=(BATCH, 80, 60)).astype("float32")
    model = transformers.TFWhisperForConditionalGeneration(config)
    return _train(run, model, {"input_features": speech, "labels": run.tokens(VOCABULARY)})


def transformers_CLIP(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Tell which text belongs to which image."""
    sides = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    text = {**sides, "vocab_size": VOCABULARY, "max_position_embeddings": 32, **DECODER}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**sides, "image_size": 32, "patch_size": 8}, projection_dim=32
    )
    model = transformers.TFCLIPModel(config)
    pixels = np.repeat(run.digits(32)[0].transpose(0, 3, 1, 2), 3, 1)
    batch = {"input_ids": tf.constant(run.tokens(VOCABULARY)), "pixel_values": tf.constant(pixels)}
    return run.train(
        lambda: tf.reduce_mean(model(batch, return_loss=True, training=True).loss), lambda: model.trainable_variables
    )
