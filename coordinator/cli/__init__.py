"""The command line of `facetd`.

    commands/        the table of all commands; one module a command, or a group of them, which
                     command_groups imports when it is called
    loading/         what load, import and follow share: options, questions, progress
    following/       a table that an index is kept equal to
    sources/         files, databases and URLs as items; importers/: exports of other engines

What commands share:

connection_options   options that name a service; settings_options: that set settings;
                     options_as_one_value: several together; argument_completion: what Tab
                     offers for arguments
escaped_output       output that does not control the terminal; in columns: console_tables;
                     keystroke_questions: yes or no
search_output        the answer of a search; opensearch_export_format: items of an export
"""
