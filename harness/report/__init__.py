"""The one-file HTML report: a pure function of a judgement and the records behind it. See `page.render`."""
