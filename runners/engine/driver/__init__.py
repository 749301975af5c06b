"""The driver, which plans each epoch, collects the reports of its tasks, commits it and delivers it to sinks."""
