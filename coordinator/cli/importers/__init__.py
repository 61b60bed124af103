"""Importers: other engines' exports and settings, converted to our items and configuration.

algolia_export, elasticsearch, meilisearch_dump, typesense
                       one engine each
imported_index         what they return
export_reading         reads files, and responses of other engines
geo_point_conversion   points in the forms that they accept
"""
