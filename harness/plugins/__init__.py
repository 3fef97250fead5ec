"""The user's plug-in files as one package, so that any process (a spawned loader worker, say) can import them by name.

The registry adds folders to the package's path; children get them from the variable HARNESS_PLUGINS, quoted as in a
URL, since the name of a folder may hold the separator.
"""

import os
import sys
from urllib.parse import unquote

_FOLDERS = [unquote(folder) for folder in os.environ.get("HARNESS_PLUGINS", "").split(os.pathsep) if folder]
__path__.extend(_FOLDERS)
sys.path.extend(_FOLDERS)  # a training script imports the modules beside it by their own names
