"""Pictures of a program: of the pipeline as it is written, and of the topology that it compiles to."""
