"""The programs of the zoo, and the environment in which each of them runs. Start with `PROGRAMS`."""

from typing import NamedTuple

KERAS_3, TF_KERAS = "keras3", "tf_keras"
PACKAGES = {
    KERAS_3: ("tensorflow-cpu==2.21.*", "keras==3.15.*", "keras-hub==0.32.*", "keras-rs==0.4.*", "scikit-learn"),
    TF_KERAS: (
        *("tensorflow-cpu==2.21.*", "tf_keras==2.21.*", "transformers==4.57.*", "tensorflow-probability==0.25.*"),
        *("spektral==1.3.*", "deepctr==0.9.*", "gin-config", "gym==0.23.*", "pillow", "pygame"),
        *("scikit-learn", "tensorboard"),
    ),
}
"""What is installed into each environment."""

UNCHECKED_PACKAGES = {KERAS_3: (), TF_KERAS: ("tf-agents==0.19.*",)}
"""What is installed without its dependencies: the versions that it asks for are older than this TensorFlow."""


class Program(NamedTuple):
    """A function of a module of this folder that takes a `training.Run` and returns the losses."""

    module: str
    function: str
    environment: str = KERAS_3


def _family(module: str, functions: str, environment: str = KERAS_3) -> list[Program]:
    return [Program(module, function, environment) for function in functions.split()]


PROGRAMS = {
    program.function.replace("_", " "): program
    for program in (
        *_family(
            "hub_text",
            "keras_hub_BERT keras_hub_BERT_masked_LM keras_hub_ALBERT keras_hub_DeBERTa keras_hub_FNet keras_hub_GPT_2 "
            "keras_hub_BLOOM keras_hub_Llama keras_hub_Gemma keras_hub_Mistral keras_hub_Qwen3 "
            "keras_hub_Mixtral keras_hub_T5 keras_hub_BART",
        ),
        *_family(
            "hub_vision",
            "keras_hub_ResNet keras_hub_DenseNet keras_hub_ViT keras_hub_SAM keras_hub_Whisper",
        ),
        *_family("generative", "GAN WGAN_GP diffusion VAE"),
        *_family("examples", "actor_critic CTC contrastive radiance_field heat_equation LSTM_text"),
        *_family("ranking", "keras_rs_DLRM keras_rs_cross_network keras_rs_retrieval"),
        *_family(
            "hugging_face",
            "transformers_BERT transformers_GPT_2 transformers_T5 "
            "transformers_OPT transformers_Mistral transformers_ViT transformers_Whisper transformers_CLIP",
            TF_KERAS,
        ),
        *_family("probability", "TFP_VAE TFP_flow TFP_HMC TFP_Bayesian_layers", TF_KERAS),
        *_family("graphs_and_clicks", "spektral_GCN spektral_GAT deepctr_DeepFM deepctr_xDeepFM", TF_KERAS),
        *_family("agents", "tf_agents_DQN", TF_KERAS),
    )
}
"""By name."""
