"""Unity Catalog's two REST APIs as Turnstile serves them: the Delta API (``delta/v1``, kebab-case) and what engines still
call of the older one (snake_case). From typed requests to operations of ``turnstile`` and back to exact answers.

``requests``   bodies of the Delta API           ``legacy``     bodies of the older API
``update``     one update, all or nothing        ``agree``      what a request says against what the log says
``contract``   what new tables must have         ``answers``    a table as the Delta API shows it
``schema``     columns, both spellings           ``columns``    columns of the older API
``errors``     both error shapes                 ``config``     version negotiation
``external``   tables that are only registered   ``numbers``    what clients can read again

Source: the API's public OpenAPI documents (Unity Catalog, ``api/delta.yaml`` and ``api/all.yaml``).
"""
