"""What people search for and click.

analytics              frequent and slow searches, searches without hits, clicks; kept by day
search_counts          the counts of one day, in bounded memory
"""
