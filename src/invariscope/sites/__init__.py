"""Sites: read, edit and differentiate at named places of any model."""

from invariscope.sites.edit import EditReport, edit_site
from invariscope.sites.families import LanguageParts, language_parts
from invariscope.sites.gradient import SiteGradients, frozen, resolve_sketch, site_gradients
from invariscope.sites.names import Site, list_sites, resolve_site
from invariscope.sites.objective import LogitsOf, Objective, choices, class_logits, logits, logits_at, margin, output_logits
from invariscope.sites.read import SeenSites, read_sites
from invariscope.sites.verify import LayerDeviation, Verification, verify_model

__all__ = [
    "EditReport",
    "LanguageParts",
    "LayerDeviation",
    "LogitsOf",
    "Objective",
    "SeenSites",
    "Site",
    "SiteGradients",
    "Verification",
    "choices",
    "class_logits",
    "edit_site",
    "frozen",
    "language_parts",
    "list_sites",
    "logits",
    "logits_at",
    "margin",
    "output_logits",
    "read_sites",
    "resolve_site",
    "resolve_sketch",
    "site_gradients",
    "verify_model",
]
