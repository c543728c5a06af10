"""What of a run's metrics another run of the same settings repeats."""

from jaxgpt.runs.metrics import MEASURED, read_metrics


def repeatable_metrics(run):
    """The lines of a run's metrics.jsonl without what a clock gave."""
    return [
        {name: value for name, value in line.items() if name not in MEASURED}
        for line in read_metrics(run / "metrics.jsonl")
    ]
