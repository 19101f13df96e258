------------------------------- MODULE Branches -------------------------------
(* The promotion of a branch with more tables than one conditional write changes (ADR 85, I28): the commits of the catalog's
   tables are prepared in their HEADs, the branch's tables are held, and one write decides the group, swaps the catalog's HEAD
   and erases the branch's row. Two promoters may be at it. They stop anywhere and go on at any time; anybody aborts an open
   group, and resolves an entry that he meets. "Mistakes" removes one guard; the model itself is Mistakes = {}.              *)
EXTENDS Naturals, FiniteSets

CONSTANTS Commits,    \* how many commits the catalog's tables get besides, and the branch's, and how often the catalog changes
          Mistakes    \* guards that are removed

Wrong(mistake) == mistake \in Mistakes

Tables == {"x", "y"}
Promoters == {1, 2}

VARIABLES main,       \* [table -> latest version of the catalog's table]
          took,       \* [table -> version of the branch's table whose rows it has; 0: none]
          own,        \* [table -> latest version of the branch's table: every commit was acknowledged]
          ended,      \* tables of the branch that take no commit any more
          prepared,   \* [table -> promoter whose undecided commit the catalog's table has; 0: none]
          held,       \* [table -> promoter that holds the branch's table; 0: none]
          group,      \* [promoter -> state of its group]
          ok,         \* [promoter -> what it knows to be prepared and held]
          seen,       \* [promoter -> the versions, and the catalog's HEAD, that it computed the promotion from]
          branch,     \* whether the branch's row is there
          cat,        \* number of the catalog's HEAD
          undone,     \* whether a change of the catalog was lost, for the record
          others      \* commits and changes of others so far

vars == <<main, took, own, ended, prepared, held, group, ok, seen, branch, cat, undone, others>>

Zero == [t \in Tables |-> 0]

Init ==
    /\ main = Zero /\ took = Zero /\ own = [t \in Tables |-> 1] /\ ended = {} /\ prepared = Zero /\ held = Zero
    /\ group = [p \in Promoters |-> "none"] /\ ok = [p \in Promoters |-> {}]
    /\ seen = [p \in Promoters |-> [main |-> Zero, own |-> Zero, cat |-> 0]]
    /\ branch = TRUE /\ cat = 1 /\ undone = FALSE /\ others = [main |-> 0, own |-> 0, cat |-> 0]

\* The rows of the branch that a reader of the catalog's table sees.
Shown(t) == IF prepared[t] # 0 /\ group[prepared[t]] = "committed" THEN seen[prepared[t]].own[t] ELSE took[t]

(* ---- promoters -------------------------------------------------------------------------------------------------------- *)
Read(p) ==                 \* the versions of all tables, and the catalog's tree, then the group's row
    /\ branch /\ group[p] = "none" /\ ended = {}
    /\ seen' = [seen EXCEPT ![p] = [main |-> main, own |-> own, cat |-> cat]]
    /\ group' = [group EXCEPT ![p] = "open"]
    /\ UNCHANGED <<ok, main, took, own, ended, prepared, held, branch, cat, undone, others>>

Prepare(p, t) ==           \* the conditions of the single-table write; by the network, at any time
    /\ group[p] # "none" /\ prepared[t] = 0 /\ main[t] = seen[p].main[t]
    /\ prepared' = [prepared EXCEPT ![t] = p] /\ ok' = [ok EXCEPT ![p] = @ \cup {<<"main", t>>}]
    /\ UNCHANGED <<main, took, own, ended, held, group, seen, branch, cat, undone, others>>

Hold(p, t) ==              \* the branch's table, at the version that was read
    /\ group[p] # "none" /\ held[t] = 0 /\ t \notin ended
    /\ own[t] = seen[p].own[t] \/ Wrong("held at any version")
    /\ held' = [held EXCEPT ![t] = p] /\ ok' = [ok EXCEPT ![p] = @ \cup {<<"own", t>>}]
    /\ UNCHANGED <<main, took, own, ended, prepared, group, seen, branch, cat, undone, others>>

Ready(p) ==                \* by the answers that it got; the rows may have changed since
    /\ \A t \in Tables : <<"main", t>> \in ok[p] \/ (Wrong("one prepare is enough") /\ \E s \in Tables : <<"main", s>> \in ok[p])
    /\ \A t \in Tables : <<"own", t>> \in ok[p] \/ Wrong("the branch's tables are not held")

Decide(p) ==               \* one write: the group, the catalog's HEAD, the branch's row
    /\ group[p] = "open" /\ Ready(p) /\ ~Wrong("decided apart from the catalog")
    /\ branch /\ (cat = seen[p].cat \/ Wrong("the catalog's HEAD is not compared"))
    /\ group' = [group EXCEPT ![p] = "committed"]
    /\ cat' = cat + 1 /\ branch' = FALSE
    /\ undone' = (undone \/ cat # seen[p].cat)
    /\ UNCHANGED <<ok, main, took, own, ended, prepared, held, seen, others>>

DecideApart(p) ==
    /\ Wrong("decided apart from the catalog") /\ group[p] = "open" /\ Ready(p)
    /\ group' = [group EXCEPT ![p] = "committed"]
    /\ UNCHANGED <<ok, main, took, own, ended, prepared, held, seen, branch, cat, undone, others>>

Again(p) ==                \* the catalog was changed meanwhile: the change is computed anew from its present tree
    /\ group[p] = "open" /\ branch /\ seen[p].cat # cat
    /\ seen' = [seen EXCEPT ![p].cat = cat]
    /\ UNCHANGED <<ok, main, took, own, ended, prepared, held, group, branch, cat, undone, others>>

Abort(p) ==                \* by anybody, at any time
    /\ group[p] = "open"
    /\ group' = [group EXCEPT ![p] = "aborted"]
    /\ UNCHANGED <<ok, main, took, own, ended, prepared, held, seen, branch, cat, undone, others>>

(* ---- whoever meets an entry --------------------------------------------------------------------------------------------- *)
Decided(p) == group[p] \in {"committed", "aborted"} \/ (Wrong("open counts as aborted") /\ group[p] = "open")

Fold(t) ==
    /\ prepared[t] # 0 /\ Decided(prepared[t])
    /\ IF group[prepared[t]] = "committed"
       THEN main' = [main EXCEPT ![t] = @ + 1] /\ took' = [took EXCEPT ![t] = seen[prepared[t]].own[t]]
       ELSE UNCHANGED <<main, took>>
    /\ prepared' = [prepared EXCEPT ![t] = 0]
    /\ UNCHANGED <<ok, own, ended, held, group, seen, branch, cat, undone, others>>

Release(t) ==              \* the branch's table ends with the group, or is released
    /\ held[t] # 0 /\ Decided(held[t])
    /\ ended' = IF group[held[t]] = "committed" /\ ~Wrong("a fold only releases") THEN ended \cup {t} ELSE ended
    /\ held' = [held EXCEPT ![t] = 0]
    /\ UNCHANGED <<ok, main, took, own, prepared, group, seen, branch, cat, undone, others>>

(* ---- everybody else ----------------------------------------------------------------------------------------------------- *)
CommitMain(t) ==
    /\ others.main < Commits /\ prepared[t] = 0
    /\ main' = [main EXCEPT ![t] = @ + 1] /\ others' = [others EXCEPT !.main = @ + 1]
    /\ UNCHANGED <<ok, took, own, ended, prepared, held, group, seen, branch, cat, undone>>

CommitOwn(t) ==            \* by a client that knows the uuid; it does not look at the branch's row
    /\ others.own < Commits /\ t \notin ended
    /\ held[t] = 0 \/ Wrong("commits over a hold")
    /\ own' = [own EXCEPT ![t] = @ + 1] /\ others' = [others EXCEPT !.own = @ + 1]
    /\ UNCHANGED <<ok, main, took, ended, prepared, held, group, seen, branch, cat, undone>>

ChangeCatalog ==
    /\ others.cat < Commits /\ cat' = cat + 1 /\ others' = [others EXCEPT !.cat = @ + 1]
    /\ UNCHANGED <<ok, main, took, own, ended, prepared, held, group, seen, branch, undone>>

Step ==
    \/ \E p \in Promoters : Read(p) \/ Decide(p) \/ DecideApart(p) \/ Again(p) \/ Abort(p)
    \/ \E p \in Promoters, t \in Tables : Prepare(p, t) \/ Hold(p, t)
    \/ \E t \in Tables : Fold(t) \/ Release(t) \/ CommitMain(t) \/ CommitOwn(t)
    \/ ChangeCatalog

Spec == Init /\ [][Step]_vars

(* ---- invariants --------------------------------------------------------------------------------------------------------- *)
I28_Whole == IF branch THEN \A t \in Tables : Shown(t) = 0 ELSE \A t \in Tables : Shown(t) > 0
I28_NothingLost == ~branch => \A t \in Tables : Shown(t) = own[t]
I28_NothingUndone == ~undone
I28_InPlace == \A t \in Tables : prepared[t] # 0 /\ group[prepared[t]] = "committed" => main[t] = seen[prepared[t]].main[t]
=============================================================================
