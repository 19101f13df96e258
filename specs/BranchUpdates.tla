----------------------------- MODULE BranchUpdates -----------------------------
(* Updates of a branch (ADR 85, I28): one write moves the base of the branch to the catalog's present tree, swaps the branch's HEAD,
   commits the catalog's changes to tables of the branch that have changes of their own, and checks that the catalog's tables are those
   that were compared. Meanwhile the catalog's tables get commits, alone and in groups, tables of the branch get a log of their own and
   commits. "Mistakes" removes one guard; the model itself is Mistakes = {}.                                                           *)
EXTENDS Naturals, FiniteSets

CONSTANTS Commits,    \* how many commits the catalog's tables get, and the branch's, and how many updates begin
          Mistakes    \* guards that are removed

Wrong(mistake) == mistake \in Mistakes

Tables == {"x", "y"}

VARIABLES main,       \* [table -> latest version of the catalog's table]
          cuts,       \* every combination of versions that the catalog had at some instant
          base,       \* [table -> version of the catalog's table as of the branch's base]
          row,        \* number of the branch's HEAD
          own,        \* tables of the branch with a log of their own
          from,       \* [table -> version of the catalog's table that its log has, with all before it]
          log,        \* [table -> number of commits of its log, those of updates included]
          mine,       \* [table -> commits that clients of the branch were acknowledged]
          shown,      \* [table -> those of them that the branch shows]
          making,     \* [table -> base and HEAD that a request read which gives it a log; none: idle]
          update,     \* the versions that an update compared; none: idle
          left        \* commits and updates that may still come

vars == <<main, cuts, base, row, own, from, log, mine, shown, making, update, left>>

Zero == [t \in Tables |-> 0]
None == [idle |-> TRUE]

Init ==
    /\ main = Zero /\ cuts = {Zero} /\ base = Zero /\ row = 0 /\ own = {} /\ from = Zero /\ log = Zero
    /\ mine = Zero /\ shown = Zero /\ making = [t \in Tables |-> None] /\ update = None
    /\ left = [main |-> Commits, own |-> Commits, updates |-> Commits]

(* ---- the catalog -------------------------------------------------------------------------------------------------------- *)
Commit(changed) ==         \* a commit of one table, or a group of both
    /\ left.main > 0
    /\ main' = [t \in Tables |-> IF t \in changed THEN main[t] + 1 ELSE main[t]]
    /\ cuts' = cuts \cup {main'}
    /\ left' = [left EXCEPT !.main = @ - 1]
    /\ UNCHANGED <<base, row, own, from, log, mine, shown, making, update>>

(* ---- tables of the branch ------------------------------------------------------------------------------------------------ *)
BeginLog(t) ==             \* the base is read, then the log is written
    /\ t \notin own /\ making[t] = None
    /\ making' = [making EXCEPT ![t] = [idle |-> FALSE, base |-> base[t]]]
    /\ UNCHANGED <<main, cuts, base, row, own, from, log, mine, shown, update, left>>

EndLog(t) ==               \* a change of the branch: computed again from its present tree, with a look at its base
    /\ making[t] # None
    /\ making' = [making EXCEPT ![t] = None]
    /\ IF t \notin own /\ (making[t].base = base[t] \/ Wrong("a log begins at an earlier base"))
       THEN /\ own' = own \cup {t} /\ from' = [from EXCEPT ![t] = making[t].base]
            /\ row' = row + 1
       ELSE UNCHANGED <<own, from, row>>
    /\ UNCHANGED <<main, cuts, base, log, mine, shown, update, left>>

CommitOwn(t) ==
    /\ left.own > 0 /\ t \in own
    /\ log' = [log EXCEPT ![t] = @ + 1] /\ mine' = [mine EXCEPT ![t] = @ + 1] /\ shown' = [shown EXCEPT ![t] = @ + 1]
    /\ left' = [left EXCEPT !.own = @ - 1]
    /\ UNCHANGED <<main, cuts, base, row, own, from, making, update>>

(* ---- updates ------------------------------------------------------------------------------------------------------------- *)
Compare ==
    /\ update = None /\ left.updates > 0
    /\ update' = [idle |-> FALSE, main |-> main, log |-> log, own |-> own, row |-> row]
    /\ left' = [left EXCEPT !.updates = @ - 1]
    /\ UNCHANGED <<main, cuts, base, row, own, from, log, mine, shown, making>>

Behind == {t \in update.own : from[t] # update.main[t]}     \* these get a commit

Write ==
    /\ update # None
    /\ row = update.row \/ Wrong("the branch's HEAD is not compared")
    /\ \A t \in update.own : main[t] = update.main[t] \/ Wrong("the catalog's tables are not checked")
    /\ \A t \in Behind : log[t] = update.log[t] \/ Wrong("a commit of an update has no version")
    /\ base' = main
    /\ row' = row + 1
    /\ own' = update.own                               \* the tree is computed from the one that was compared
    /\ shown' = [t \in Tables |-> IF t \in own \ update.own THEN 0
                                  ELSE IF t \in Behind /\ log[t] # update.log[t] THEN update.log[t] ELSE shown[t]]
    /\ log' = [t \in Tables |-> IF t \in Behind THEN update.log[t] + 1 ELSE log[t]]
    /\ from' = [t \in Tables |-> IF t \in update.own /\ ~Wrong("a table keeps its base") THEN update.main[t] ELSE from[t]]
    /\ update' = None
    /\ UNCHANGED <<main, cuts, mine, making, left>>

GiveUp ==
    /\ update # None /\ update' = None
    /\ UNCHANGED <<main, cuts, base, row, own, from, log, mine, shown, making, left>>

Step ==
    \/ \E changed \in {{"x"}, {"y"}, Tables} : Commit(changed)
    \/ \E t \in Tables : BeginLog(t) \/ EndLog(t) \/ CommitOwn(t)
    \/ Compare \/ Write \/ GiveUp

Spec == Init /\ [][Step]_vars

(* ---- invariants ---------------------------------------------------------------------------------------------------------- *)
I28_OneInstant == \E cut \in cuts : \A t \in Tables : cut[t] = IF t \in own THEN from[t] ELSE base[t]
I28_BaseOfTables == \A t \in own : from[t] = base[t]
I28_NothingLost == \A t \in Tables : shown[t] = mine[t]
=============================================================================
