"""Proximity: documents in which the words of a query are close together score more.

proximity_scores    how close they are, and what that adds
proximity_ranking   the best documents with it, measuring few of them
occurrences         where each word stands
"""
