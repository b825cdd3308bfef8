"""The demo's report: the answer, the crashes and the effects, with the charts that every report has."""
