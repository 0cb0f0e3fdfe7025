"""Training, measuring and searching from Python: the engine of the commands, without a console."""

from bayestriplet.api.run import Run as Run
from bayestriplet.api.training import compare as compare
from bayestriplet.api.training import train as train
