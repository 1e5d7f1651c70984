"""The bubble studio: schedules as a picture in which idle time is the figure.

bubble_studio.py    the widget: its settings, its view, its page
settings.py         families, sizes and costs, and the schedules that follow from them
stage_costs.py      the cost of a stage for any cut of the model
runs.py             runs on screen: their numbers in both measures, their bytes, and their picture on paper
export.py           the studio as a page

In the browser, in this order: actions, words and scale know no canvas; rows and memory draw on one; plot is one
schedule, picture all of them on one axis; answers is the way to the kernel and back, foot the legend and the tour,
controls the row and the drawer; bubble_studio.js puts them together, and page_model.js is the kernel of a hand-out.
"""
