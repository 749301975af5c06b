"""Tools for tests of pipelines: assertions on collections, scripted streams, and a pipeline for tests."""
