"""What: elements as columns, from the files that they are read from to the results, without a Python value between."""
