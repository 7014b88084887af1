"""Models: the small transformers that the studies train, and pretrained language models as transformers runs them."""

from invariscope.models.downstream import STATE, Downstream, from_state, read_states, split_prefix
from invariscope.models.fingerprint import fingerprint
from invariscope.models.pretrained import LanguageModel, load_language_model
from invariscope.models.transformer import Dropout, Transformer, TransformerConfig
from invariscope.models.untrained import untrained

__all__ = [
    "STATE",
    "Downstream",
    "Dropout",
    "LanguageModel",
    "Transformer",
    "TransformerConfig",
    "fingerprint",
    "from_state",
    "load_language_model",
    "read_states",
    "split_prefix",
    "untrained",
]
