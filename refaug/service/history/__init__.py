"""What the service remembers of itself: figures of each hour, and notices for a webhook.

The main names:

- `hourly_figures.HourlyFigures`: the stored figures, added up over processes
- `figure_recorder.FigureRecorder`: the thread of a process that stores what it has counted
- `notices.NoticeBox`: notices that wait to be sent
- `notice_sender.NoticeSender`: the thread that sends them.
"""
