"""The examples of the article *Streaming 102*, to be run and changed.

One file an example, each with one pipeline: `python -m examples.streaming102.sessions` prints its panes, that is, what
it puts out and when. `--runner=LocalRunner` or `HEADRACE_RUNNER=local` runs it in memory, otherwise it runs on Spark.
With `--bounded` all scores are there from the beginning, as in a batch job: the final values are the same. What comes
out of each is in `docs/streaming102.md`; `scores.py` is the input of all, `panes.py` runs and prints.
"""
