"""User functions as the engine calls them: arguments, life cycle, types, exceptions."""
