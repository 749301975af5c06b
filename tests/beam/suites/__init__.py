"""Apache Beam's own tests, from its installed package, with HeadraceRunner in the place of Beam's direct runners.

`python -m tests.beam.suites` runs them (`./dev beam`). `suites.toml` lists the test modules, `exceptions.toml` the
tests that do not pass here although they pass with Beam, each with its reason, and `beam.json` the tests that Beam's
direct runner itself does not pass in this environment.
"""
