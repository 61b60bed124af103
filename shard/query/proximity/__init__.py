"""Proximity: documents in which the words of a query are close together score more.

proximity_scores    how close they are, and what that adds
proximity_ranking   the best documents with it, measuring few of them
proximity_bounds    the most that it can add to a document
occurrences         where each word stands
"""
