"""A bank over several tables: transfers between accounts of different Delta tables while everything
is killed (I1 to I8, I11).

``ledger``    accounts, what a commit says of them, and balances as of a cut
``record``    what every client did and was told
``clients``   writers, which transfer, and auditors, which add up
``kills``     what is killed
``doubles``   faulty servers, which must be noticed
``campaign``  plays it, and holds the record against ``_delta_log``

python -m tests.histories.bank --writers 16 --seconds 60 --kills 20
"""
