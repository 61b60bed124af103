"""The API as its handlers declare it, and what is derived: OpenAPI, a page for people, a reference.

route             a route as its handler declares it: path, action, body, limits, schemas
schemas/          bodies and responses
openapi           the document; docs_page: the same for people
route_documentation  parameters and bodies in words, for that page and docs/reference.md
error_codes       every code, its status and meaning
"""
