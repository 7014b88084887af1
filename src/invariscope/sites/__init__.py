"""Sites: read, edit and differentiate at named places of any model."""

from invariscope.sites.edit import EditReport, edit_site
from invariscope.sites.gradient import SiteGradients, frozen, resolve_sketch, site_gradients
from invariscope.sites.names import Site, list_sites, resolve_site
from invariscope.sites.objective import LogitsOf, Objective, logits, logits_at, margin, output_logits
from invariscope.sites.read import SeenSites, read_sites

__all__ = [
    "EditReport",
    "LogitsOf",
    "Objective",
    "SeenSites",
    "Site",
    "SiteGradients",
    "edit_site",
    "frozen",
    "list_sites",
    "logits",
    "logits_at",
    "margin",
    "output_logits",
    "read_sites",
    "resolve_site",
    "resolve_sketch",
    "site_gradients",
]
