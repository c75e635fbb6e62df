"""Language models of keras-hub, tiny: classifiers, masked, causal, and from sequence to sequence."""

from typing import Any

import keras
import keras_hub
import numpy as np
from benchmarks.zoo.training import BATCH, Run

models = keras_hub.models
VOCABULARY, LENGTH = 400, 32
LAYERS = {"vocabulary_size": VOCABULARY, "num_layers": 1, "hidden_dim": 64, "intermediate_dim": 128}
ENCODER = {**LAYERS, "num_heads": 4, "max_sequence_length": LENGTH}
ROTARY = {**LAYERS, "num_query_heads": 4, "num_key_value_heads": 2}


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _text(run: Run, *extra: str) -> dict[str, Any]:
    tokens = run.tokens(VOCABULARY, LENGTH)
    mask = (np.arange(LENGTH) < run.data.integers(20, LENGTH, (BATCH, 1))).astype("int32")
    return {"token_ids": tokens, "padding_mask": mask, **{name: np.zeros_like(tokens) for name in extra}}


def _classify(run: Run, task: Any, backbone: Any, *extra: str) -> list[float]:
    text = _text(run, *extra)
    labels = run.data.integers(0, 2, (BATCH,))
    return run.fit(task(backbone, num_classes=2, preprocessor=None), text, labels, _loss())


def keras_hub_BERT(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify text."""
    return _classify(run, models.BertTextClassifier, models.BertBackbone(**ENCODER), "segment_ids")


def keras_hub_BERT_masked_LM(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Guess masked tokens."""
    text = _text(run, "segment_ids")
    positions = np.tile(np.arange(1, 6), (BATCH, 1)).astype("int32")
    labels = np.take_along_axis(text["token_ids"], positions, 1)
    model = models.BertMaskedLM(models.BertBackbone(**ENCODER), preprocessor=None)
    return run.fit(model, {**text, "mask_positions": positions}, labels, _loss())


def keras_hub_ALBERT(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify text, with shared weights."""
    backbone = models.AlbertBackbone(**ENCODER, embedding_dim=32)
    return _classify(run, models.AlbertTextClassifier, backbone, "segment_ids")


def keras_hub_DeBERTa(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify text, with disentangled attention."""
    return _classify(run, models.DebertaV3TextClassifier, models.DebertaV3Backbone(**ENCODER, bucket_size=16))


def keras_hub_FNet(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify text, with Fourier transforms for attention."""
    text = _text(run, "segment_ids")
    del text["padding_mask"]
    backbone = models.FNetBackbone(**LAYERS, max_sequence_length=LENGTH)
    model = models.FNetTextClassifier(backbone, num_classes=2, preprocessor=None)
    return run.fit(model, text, run.data.integers(0, 2, (BATCH,)), _loss())


def _predict_next(run: Run, task: Any, backbone: Any) -> list[float]:
    text = _text(run)
    return run.fit(task(backbone, preprocessor=None), text, np.roll(text["token_ids"], -1, 1), _loss())


def keras_hub_GPT_2(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token."""
    return _predict_next(run, models.GPT2CausalLM, models.GPT2Backbone(**ENCODER))


def keras_hub_BLOOM(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token, with linear biases for positions."""
    return _predict_next(run, models.BloomCausalLM, models.BloomBackbone(**LAYERS, num_heads=4))


def keras_hub_Llama(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token, with rotary embeddings."""
    return _predict_next(run, models.LlamaCausalLM, models.LlamaBackbone(**ROTARY))


def keras_hub_Gemma(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token, with rotary embeddings and capped logits."""
    backbone = models.GemmaBackbone(**ROTARY, head_dim=16, final_logit_soft_cap=30.0, attention_logit_soft_cap=50.0)
    return _predict_next(run, models.GemmaCausalLM, backbone)


def keras_hub_Mistral(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token, with a sliding window."""
    return _predict_next(run, models.MistralCausalLM, models.MistralBackbone(**ROTARY, sliding_window=16))


def keras_hub_Qwen3(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token, with normalized queries."""
    return _predict_next(run, models.Qwen3CausalLM, models.Qwen3Backbone(**ROTARY, head_dim=16))


def keras_hub_Mixtral(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Predict the next token, with a mixture of experts."""
    return _predict_next(run, models.MixtralCausalLM, models.MixtralBackbone(**ROTARY, num_experts=4))


def _translate(run: Run, backbone: Any) -> list[float]:
    text = _text(run)
    inputs = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in text.items()}
    outputs = backbone.output["decoder_sequence_output"]
    model = keras.Model(backbone.input, keras.layers.Dense(VOCABULARY)(outputs))
    return run.fit(model, inputs, np.roll(text["token_ids"], -1, 1), _loss())


def keras_hub_T5(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """From sequence to sequence, with relative positions."""
    return _translate(run, models.T5Backbone(**LAYERS, num_heads=4))


def keras_hub_BART(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """From sequence to sequence."""
    return _translate(run, models.BartBackbone(**ENCODER))
