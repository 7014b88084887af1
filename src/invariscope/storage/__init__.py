"""What a run leaves on disk: atomic files, tensors that know what they are, locked folders, manifests, claims.

Importing this package does not load torch; reading or writing tensors does.
"""

from invariscope.storage.atomic import JSON, is_temporary, read_json, write_bytes, write_json, write_text
from invariscope.storage.claims import Claim, Control, Mark, MarkKind, Verdict
from invariscope.storage.claims_file import ClaimsFile, read_claims, write_claims
from invariscope.storage.environment import environment_facts
from invariscope.storage.locks import folder_lock
from invariscope.storage.manifest import Manifest, Status, config_hash
from invariscope.storage.run_folder import RunFolder
from invariscope.storage.tensors import load_tensors, save_tensors

__all__ = [
    "JSON",
    "Claim",
    "ClaimsFile",
    "Control",
    "Manifest",
    "Mark",
    "MarkKind",
    "RunFolder",
    "Status",
    "Verdict",
    "config_hash",
    "environment_facts",
    "folder_lock",
    "is_temporary",
    "load_tensors",
    "read_claims",
    "read_json",
    "save_tensors",
    "write_bytes",
    "write_claims",
    "write_json",
    "write_text",
]
