"""The service's log: a JSON object a line on standard error, and never what an image shows or is called."""

import json
import logging
import sys
import time
import warnings

log = logging.getLogger("bayestriplet.service")

PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """Time, level, event, and whatever the caller adds as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
            **{key: value for key, value in vars(record).items() if key not in PLAIN},
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def start_logging() -> None:
    """Send the log of the service, and what libraries have to complain of, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    log.setLevel(logging.INFO)
    warnings.simplefilter("ignore")  # Pillow warns of odd tags in images, with their content
