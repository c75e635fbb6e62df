"""What the rewrite does, for people: before it runs (`explain`), in this process so far (`report`), on this machine.

In come functions, models, graphs and files, or nothing but the process itself; out come a `reports.Report` or a
list of findings. The doors are `explain.explain`, `process_report.report` and `doctor.examine`.
"""
