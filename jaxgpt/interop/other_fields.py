"""Fields of a `config.json` that no entry of a table speaks for, whatever the `model_type`."""

from __future__ import annotations

# Fields that would change the computation under every model_type, and the value under which they do not
FIXED = {
    "add_cross_attention": False,
    "alibi": False,
    "attn_logit_softcapping": None,
    "chunk_size_feed_forward": 0,
    "clip_qkv": None,
    "cross_attention_hidden_size": None,
    "embedding_multiplier": 1,
    "final_logit_softcapping": None,
    "is_encoder_decoder": False,
    "logit_scale": None,
    "logits_scaling": 1,
    "no_rope_layers": None,
    "original_max_position_embeddings": None,
    "partial_rotary_factor": 1,
    "per_layer_config": None,
    "pruned_heads": {},
    "quantization_config": None,
    "query_pre_attn_scalar": None,
    "residual_multiplier": 1,
    "rope_interleaved": False,
    "rotary_pct": 1,
    "tie_encoder_decoder": False,
}

# Fields that no computed number depends on
WITHOUT_EFFECT = frozenset(
    {
        # provenance
        "_commit_hash", "_from_model_config", "_name_or_path", "architectures", "dtype", "is_llama_config",
        "model_type", "name_or_path", "tokenizer_class", "torch_dtype", "transformers.js_config",
        "transformers_version", "unsloth_fixed", "unsloth_version", "use_bfloat16",
        # how others run it
        "_attn_implementation", "_attn_implementation_internal", "_flash_attn_2_enabled", "attn_implementation",
        "gradient_checkpointing", "output_attentions", "output_hidden_states", "output_past", "output_scores",
        "return_dict", "return_dict_in_generate", "tf_legacy_loss", "torchscript", "use_cache",
        # special ids, and the defaults of generation
        "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id", "diversity_penalty",
        "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id",
        "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id", "length_penalty",
        "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
        "pad_token_id", "prefix", "remove_invalid_values", "repetition_penalty", "sep_token_id", "suppress_tokens",
        "task_specific_params", "temperature", "top_k", "top_p", "typical_p", "unk_token_id",
        # initialisation, other heads, and names of the sizes from before
        "_num_labels", "finetuning_task", "id2label", "initializer_range", "is_decoder", "label2id", "n_ctx",
        "num_labels", "predict_special_tokens", "problem_type", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj",
    }
)  # fmt: skip
