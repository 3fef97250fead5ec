"""The report's sections, one file each, in the order that `page.PANELS` gives them."""
