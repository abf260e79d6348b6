"""Tables and figures of the graph-enhanced transformer's paper, our numbers beside the published ones.

``published`` reads what the paper prints, ``tables`` and ``figures`` set runs beside it, ``sensitivity`` shows options
that were varied one at a time, ``callback`` and ``writing`` write all of that at the end of a sweep.
"""
