"""What the commands that fill an index share: load, import and follow.

source_options         how the source is read
configuration_options  how an index is configured if it is new; proposed_configuration: by a
                       sample of its items; proposed_geo_point: which fields are a point
index_name_and_removal the index that they make; removed if it stays empty
source_overview        what is shown before
load_option_hints      options that may be meant
load_progress          the bar
bulk_updates           --update
"""
