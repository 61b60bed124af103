"""What people search for and click.

search_analytics       frequent and slow searches, searches without hits, clicks; kept by day
daily_search_counts    the counts of one day
heavy_hitters          numbers of the most frequent keys, in bounded memory
"""
