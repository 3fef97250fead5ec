"""The user's plug-in files as one package, so that any process (a spawned loader worker, say) can import them by name.

The folders come from the environment variable HARNESS_PLUGINS, which the registry sets and the launcher hands on.
"""

import os

__path__.extend(folder for folder in os.environ.get("HARNESS_PLUGINS", "").split(os.pathsep) if folder)
