"""Models: the small transformers that the studies train, and pretrained language models as transformers runs them."""

from invariscope.models.disentangled import Disentangled, DisentangledConfig
from invariscope.models.downstream import STATE, Downstream, from_state, read_states, split_prefix
from invariscope.models.fingerprint import fingerprint
from invariscope.models.folded import check_foldable, folded_logits
from invariscope.models.heads import HeadWeights, LayerHeads, head_weights, query_key, split_heads, value_output
from invariscope.models.lens import from_lens, to_lens
from invariscope.models.lens_files import lens_series, load_lens, read_lens, save_lens
from invariscope.models.linear_parts import LinearParts, linear_parts, mean_reads
from invariscope.models.parts import part_names, weight_part
from invariscope.models.pretrained import LanguageModel, load_language_model
from invariscope.models.transformer import Dropout, Transformer, TransformerConfig
from invariscope.models.untrained import untrained

__all__ = [
    "STATE",
    "Disentangled",
    "DisentangledConfig",
    "Downstream",
    "Dropout",
    "HeadWeights",
    "LanguageModel",
    "LayerHeads",
    "LinearParts",
    "Transformer",
    "TransformerConfig",
    "check_foldable",
    "fingerprint",
    "folded_logits",
    "from_lens",
    "from_state",
    "head_weights",
    "lens_series",
    "linear_parts",
    "load_language_model",
    "load_lens",
    "mean_reads",
    "part_names",
    "query_key",
    "read_lens",
    "read_states",
    "save_lens",
    "split_heads",
    "split_prefix",
    "to_lens",
    "untrained",
    "value_output",
    "weight_part",
]
