"""What the engine asks of a Spark cluster beside running DataFrames: over the JVM bridge, or over Spark Connect."""
