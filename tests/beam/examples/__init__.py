"""Apache Beam's example programs, unmodified, with Beam's direct runner and with HeadraceRunner: the same output.

`programs.toml` lists them with their arguments. `./dev beam --examples` runs all; the ordinary tests run some of them.
Examples that need a service of Google's have tests of Beam's, which are among the suites (`tests/beam/suites`).
"""
