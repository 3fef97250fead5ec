"""The user's plug-in files as one package, so that any process (a spawned loader worker, say) can import them by name.

The registry adds folders to the package's path; children get them from the variable HARNESS_PLUGINS.
"""

import os

__path__.extend(folder for folder in os.environ.get("HARNESS_PLUGINS", "").split(os.pathsep) if folder)
