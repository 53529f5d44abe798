"""Reports on a replay: one HTML file that works offline, and one JSON document that holds everything."""

from kafka_assignors_spark.report.as_html import html_report
from kafka_assignors_spark.report.as_json import json_report, json_report_lines

__all__ = ["html_report", "json_report", "json_report_lines"]
