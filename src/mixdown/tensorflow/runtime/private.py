"""Every private name of TensorFlow and of the two Keras that mixdown touches, in one table. Start with `NAMES`.

Other modules import what they need from here (`from mixdown.tensorflow.runtime.private import Context`). A name that is
gone does not break the import, but raises an error that names it when it is used; `missing` lists all of them before.
"""

from typing import Any

from mixdown.errors import MixdownError
from mixdown.keras3 import private as keras3
from mixdown.private_names import Private, resolved, words
from mixdown.private_names import missing as missing_of
from mixdown.tensorflow.runtime.releases import WAYS_OUT

CHECKED = {
    "tensorflow": "TensorFlow 2.16.2, 2.18.1 and 2.21.0",
    "keras": keras3.CHECKED,
    "tf_keras": "tf_keras 2.16.0, 2.18.0 and 2.21.0",
}
"""The releases that every name below was looked up in, by library."""


NAMES = {
    # Calls of functions: there is no public hook between a traced function and the runtime.
    "Context": Private(
        "tensorflow.python.eager.context:Context",
        "where functions are called, registered and looked up",
        has=words("""
            add_function_def call_function config device_name function_call_options get_function_def
            get_graph_debug_info has_function list_function_names remove_function
        """),
    ),
    "call_function": Private(
        "tensorflow.python.eager.context:Context.call_function",
        "the only way a function is called eagerly, wrapped to call its twin",
        takes=("self", "name", "tensor_inputs", "num_outputs"),
    ),
    "remove_function": Private(
        "tensorflow.python.eager.context:Context.remove_function",
        "wrapped to remove the twins of a function that is removed",
        takes=("self", "name"),
    ),
    "context": Private("tensorflow.python.eager.context:context", "the context of this thread"),
    "eager_mode": Private("tensorflow.python.eager.context:eager_mode", "to leave the graph that is being built"),
    "FunctionCallOptions": Private(
        "tensorflow.python.eager.context:FunctionCallOptions",
        "to have one call run without graph optimizers",
        takes=("executor_type", "config_proto"),
        has=("executor_type",),
    ),
    "graph_building_time": Private(
        "tensorflow.python.eager.polymorphic_function.tracing_compilation:_graph_building_time_counter",
        "how long TensorFlow has traced functions, to compare planning with it",
        has=("get_cell",),
    ),
    "autograph_config": Private(
        "tensorflow.python.autograph.core.config:",
        "the list of what autograph leaves alone, on which mixdown puts itself",
        has=("CONVERSION_RULES", "DoNotConvert"),
    ),
    # Sessions have no public hook.
    "BaseSession": Private(
        "tensorflow.python.client.session:BaseSession",
        "the class behind all sessions, patched so that a session can run a twin of its graph",
        has=words("""
            _Callable _call_tf_sessionprun _call_tf_sessionrun _closed _config _do_call _extend_graph _graph
            _make_callable_from_options _session _target partial_run_setup
        """),
    ),
    "session_init": Private(
        "tensorflow.python.client.session:BaseSession.__init__",
        "wrapped to make the session underneath on a twin",
        takes=("self", "target", "graph", "config"),
    ),
    "mixed_precision_global_state": Private(
        "tensorflow.python.training.experimental.mixed_precision_global_state:",
        "whether any session was made in this process",
        has=("non_mixed_precision_session_created",),
    ),
    # Graphs from protos: the public importer makes a Python object of every node.
    "c_api": Private(
        "tensorflow.python.client.pywrap_tf_session:",
        "TensorFlow's C interface: sessions, and graphs imported in one go",
        has=words("""
            ExtendSession TF_DeleteBuffer TF_DeleteSession TF_GraphImportGraphDefWithResults
            TF_ImportGraphDefOptionsAddInputMapping TF_ImportGraphDefOptionsRemapControlDependency
            TF_ImportGraphDefOptionsSetPrefix TF_ImportGraphDefOptionsSetUniquifyNames
            TF_ImportGraphDefOptionsSetValidateColocationConstraints TF_NewBufferFromString TF_OperationName
        """),
    ),
    "c_api_util": Private(
        "tensorflow.python.framework.c_api_util:",
        "options and results of an import, freed when they are done with",
        has=("ScopedTFImportGraphDefOptions", "ScopedTFImportGraphDefResults", "tf_output"),
    ),
    "Graph": Private(
        "tensorflow.python.framework.ops:Graph",
        "the C graph behind a tf.Graph, and what is new in it",
        has=("_c_graph", "_is_function", "_session_run_lock", "new_operations"),
    ),
    "Operation": Private(
        "tensorflow.python.framework.ops:Operation",
        "the shapes of one node of a C graph, without an object for every other",
        has=("_from_c_op",),
    ),
    # What TensorFlow knows of ops, values and source lines.
    "op_def_registry": Private(
        "tensorflow.python.framework.op_def_registry:", "the definition of an op kind", has=("get",)
    ),
    "kernel_registry": Private(
        "tensorflow.python.framework.kernels:",
        "which kernels an op kind has on which devices",
        has=("get_registered_kernels_for_op",),
    ),
    "get_resource_handle_data": Private(
        "tensorflow.python.ops.handle_data_util:get_resource_handle_data", "the variable behind a placeholder"
    ),
    "EagerTensor": Private(
        "tensorflow:__internal__.EagerTensor", "the variable behind an eager resource", has=("_handle_data",)
    ),
    "LoadTracesFromDebugInfo": Private(
        "tensorflow.python.util.tf_stack:LoadTracesFromDebugInfo",
        "the user's source lines behind the ops of a function",
    ),
    "OpError": Private(
        "tensorflow.python.framework.errors_impl:OpError",
        "the text of an error, in which twins are named as the originals they stand for",
        has=("_message",),
    ),
    "control_flow_util": Private(
        "tensorflow.python.ops.control_flow_util:",
        "whether XLA compiles what is being traced",
        has=("GraphOrParentsInXlaContext",),
    ),
    "xla_variadic_reduce": Private(
        "tensorflow.compiler.tf2xla.ops.gen_xla_ops:xla_variadic_reduce_v2",
        "two findings from one pass over a gradient, in a function that XLA compiles",
        takes=("inputs", "init_values", "dimensions_to_reduce", "reducer"),
    ),
    "fingerprinting_utils": Private(
        "tensorflow.python.saved_model.fingerprinting_utils:",
        "the fingerprint of a SavedModel that was changed",
        has=("write_fingerprint",),
    ),
    # Checkpoints and distribution, exported for both Keras under tf.__internal__.
    "Trackable": Private(
        "tensorflow:__internal__.tracking.Trackable",
        "loss scales in checkpoints",
        has=("_handle_deferred_dependencies", "_lookup_dependency", "_track_trackable", "_trackable_children"),
    ),
    "DelegatingTrackableMixin": Private(
        "tensorflow:__internal__.tracking.DelegatingTrackableMixin",
        "a wrapped optimizer stands in a checkpoint where the bare one would",
        has=("_trackable", "_trackable_children"),
    ),
    "strategy_supports_no_merge_call": Private(
        "tensorflow:__internal__.distribute.strategy_supports_no_merge_call", "how gradients are summed over replicas"
    ),
    "V1Optimizer": Private(
        "tensorflow.python.training.optimizer:Optimizer",
        "the class that all v1 optimizers descend from",
        has=("_apply_dense", "_name", "_use_locking"),
    ),
    "V1LossScaleOptimizer": Private(
        "tensorflow.python.training.experimental.loss_scale_optimizer:MixedPrecisionLossScaleOptimizer",
        "an optimizer that scales the loss already",
    ),
    # mixdown.compat puts its own classes under the public names of these two.
    "TensorFlowFixedScale": Private(
        "tensorflow.python.training.experimental.loss_scale:FixedLossScale",
        "TensorFlow's own loss scale, whose value is taken over",
    ),
    "TensorFlowDynamicScale": Private(
        "tensorflow.python.training.experimental.loss_scale:DynamicLossScale",
        "TensorFlow's own loss scale, whose values are taken over",
    ),
    "loss_scale_wrappers": Private(
        "tensorflow.python.training.experimental.mixed_precision:_REGISTERED_WRAPPER_OPTIMIZER_CLS",
        "the wrappers that libraries registered for their optimizers",
    ),
    **keras3.NAMES,
    # tf_keras.
    "TfKerasOptimizer": Private(
        "tf_keras.src.optimizers.optimizer:Optimizer", "the class that new-style tf_keras optimizers descend from"
    ),
    "TfKerasLegacyOptimizer": Private(
        "tf_keras.src.optimizers.legacy.optimizer_v2:OptimizerV2",
        "the class that legacy tf_keras optimizers descend from",
        has=words("""
            _aggregate_gradients _compute_gradients _create_all_weights _name _transform_unaggregated_gradients
        """),
    ),
    "TfKerasModel": Private(
        "tf_keras.src.engine.training:Model", "what a model was compiled with", has=("_compile_config",)
    ),
    "TfKerasLossScaleOptimizer": Private(
        "tf_keras.src.mixed_precision.loss_scale_optimizer:BaseLossScaleOptimizer",
        "an optimizer that scales the loss already",
    ),
}
"""What other modules import from here -> what it is. Nothing else in the package may touch a private name."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"{name} is not in the table of private names.")
    return resolved(NAMES[name], _advice(NAMES[name].package))


def missing(package: str = "tensorflow") -> list[str]:
    """What a library lacks of the private names that mixdown needs of it, one sentence each."""
    return missing_of(each for each in NAMES.values() if each.package == package)


def refuse_missing(package: str = "tensorflow") -> None:
    """Refuse to go on with a library that lacks a private name, or in which one is not what it was."""
    if problems := missing(package):
        raise MixdownError(f"{' '.join(problems)} {_advice(package)}")


def _advice(package: str) -> str:
    return f"mixdown was checked with {CHECKED[package]}. {WAYS_OUT[package]}"
