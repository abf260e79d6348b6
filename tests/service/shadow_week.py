"""A week of a made-up tracker as GitHub's events, and how the suggestions for it turn out at its end."""

from webhook_events import issue, note

# Each day: events in their order. 12 and 15 are one group, and all words of a title are in the report that it repeats.
WEEK = [
    [(issue(70), "issues"), (issue(71, title="toolbar colours of the printer"), "issues")],
    [(issue(72, title="calendar shows wrong week"), "issues"), (note("Duplicate of #12", 70), "issue_comment")],
    [(issue(73, title="attachment preview breaks"), "issues")],
    [(issue(72, "closed", "calendar shows wrong week", state="closed", state_reason="completed"), "issues")],
    [(issue(74, title="progress bar stops at half"), "issues"), (note("Duplicate of #20", 71), "issue_comment")],
    [(issue(75, title="sending large attachment"), "issues"), (note("Duplicate of #31", 75), "issue_comment")],
    [(issue(76, title="calendar starts with week"), "issues")],
]
SUGGESTED = {"70": "12", "72": "20", "73": "31", "74": "12", "75": "12", "76": "20"}
OUTCOMES = {
    "70": "right",  # a member's comment says so
    "71": "missed",
    "72": "wrong",  # closed for another reason
    "73": "not yet known",
    "74": "not yet known",
    "75": "wrong",  # a duplicate of another report
    "76": "not yet known",
}
SENTENCE = (
    "7 new reports were compared, 6 got a suggestion (1 right, 2 wrong, 3 not yet known); of the others, 1 turned out"
    " to be a duplicate."
)
WEEK_EVENTS = [event for day in WEEK for event in day]
