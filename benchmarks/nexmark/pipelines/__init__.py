"""The queries as pipelines, written once: in names that Headrace and Apache Beam share.

Each function takes the module to use, `headrace` or `apache_beam`; the module with functions of events for it,
`by_column` or `by_row`; and a collection of events, dicts with the fields that the query reads. It gives a collection
of tuples, the rows of its result.
"""
