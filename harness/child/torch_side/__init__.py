"""The only code of the engine that imports torch at module level."""
