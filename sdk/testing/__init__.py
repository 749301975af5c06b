"""Testing pipelines: assertions on collections, streams whose events are told one by one, a pipeline for tests."""
