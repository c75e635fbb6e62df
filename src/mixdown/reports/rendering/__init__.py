"""Renders reports. In comes `ReportData`; out comes text (`text.text`, printed by `text.show`) or an HTML page.

`text.difference` renders what changed between two reports. The page (`page.page`) is one self-contained file, whose
scripts and style are in static/.
"""
