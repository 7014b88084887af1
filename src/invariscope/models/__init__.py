"""Models: our transformers, their untrained twins, and fingerprints of any model."""

from invariscope.models.fingerprint import fingerprint
from invariscope.models.transformer import Dropout, Transformer, TransformerConfig
from invariscope.models.untrained import untrained

__all__ = ["Dropout", "Transformer", "TransformerConfig", "fingerprint", "untrained"]
