----------------------------- MODULE CatalogGc -----------------------------
(* The HEAD of a catalog, objs behind it, and gc at the edge of the kept history (ADR 15, I9 and I10). A tree is the set
   of objs that it leads to; a change replaces one obj, and a restoring one brings back a tree of the kept history. Writers
   write objs, and swap the HEAD later if it still is what they started from; a swap may be lost and come late, or never.
   Time goes on in days: a day is longer than a change and its writes take, so a change that writes objs on one day ends on
   the next at the latest, which is what the margin of gc stands for. One that only brings something back may stand still
   for as long as it likes between its look and its swap, and so may gc: a fence is between them (gc_fence). History is kept
   for Kept days. gc marks, and deletes one obj after the other while everybody goes on. "Mistakes" removes one guard; the
   model itself is Mistakes = {}.                                                                                       *)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS Objs,        \* every obj that may ever be written
          Writers,
          Days,        \* the last day
          Kept,        \* how many days history is kept
          Commits,     \* how many commits there are at most
          Mistakes     \* guards that are removed

Wrong(mistake) == mistake \in Mistakes

VARIABLES day,
          stored,      \* [obj -> the day on which it was written], 0 for one that does not exist
          used,        \* objs that were ever written: ids are never used twice
          log,         \* commits in order: [tree, restores, day, base]; the last one is the HEAD
          names,       \* commits that have a name, by number: snapshots
          work,        \* writers: what they are about to swap
          swept,       \* in the catalog's row: the day on which the history began that gc last left alone
          gc           \* the collector: where it is, what it marked, how many commits there were then

vars == <<day, stored, used, log, names, work, swept, gc>>

Now == Len(log)
Tree(n) == log[n].tree
Idle == [at |-> "idle", base |-> 0, tree |-> {}, fresh |-> {}, restores |-> FALSE, named |-> 0, replaced |-> 0,
         since |-> 0]
NoGc == [at |-> "idle", marked |-> {}, began |-> 0, commits |-> 0]

\* A HEAD was replaced on the day of its successor. It is kept for Kept days from then.
Replaced(n) == IF n = Now THEN day ELSE log[n + 1].day
InHistory(n) == n = Now \/ Replaced(n) + Kept > day
Whole(n) == \A o \in Tree(n) : stored[o] # 0

Init ==
    /\ day = 1
    /\ \E o \in Objs :
        /\ stored = [p \in Objs |-> IF p = o THEN 1 ELSE 0] /\ used = {o}
        /\ log = <<[tree |-> {o}, restores |-> FALSE, day |-> 1, base |-> 0]>>
    /\ names = {} /\ work = [w \in Writers |-> Idle] /\ swept = 0 /\ gc = NoGc

(* ---- changes ------------------------------------------------------------------------------------------------------ *)
Put(w) ==                  \* a change: one new obj, in place of one that was there or beside it
    /\ work[w].at = "idle" /\ Now < Commits
    /\ \E o \in Objs \ used, gone \in SUBSET Tree(Now) :
        /\ Cardinality(gone) <= 1 /\ Cardinality(Tree(Now) \ gone) < 2
        /\ stored' = [stored EXCEPT ![o] = day] /\ used' = used \cup {o}
        /\ work' = [work EXCEPT ![w] = [at |-> "swap", base |-> Now, tree |-> (Tree(Now) \ gone) \cup {o},
                                        fresh |-> {o}, restores |-> FALSE, named |-> 0, replaced |-> 0,
                                        since |-> day]]
    /\ UNCHANGED <<day, log, names, swept, gc>>

Restorable(n) == n < Now /\ (InHistory(n) \/ n \in names) /\ Whole(n)

Restore(w) ==              \* a reset: the tree of a HEAD of the kept history, which is looked at now and swapped some day
    /\ work[w].at = "idle" /\ Now < Commits
    /\ \E n \in 1..Now : /\ Restorable(n)
                          /\ work' = [work EXCEPT ![w] = [at |-> "swap", base |-> Now, tree |-> Tree(n), fresh |-> {},
                                                          restores |-> TRUE, since |-> day,
                                                          named |-> IF n \in names THEN n ELSE 0,
                                                          replaced |-> IF n \in names THEN 0 ELSE Replaced(n)]]
    /\ UNCHANGED <<day, stored, used, log, names, swept, gc>>

\* What only its name keeps must still have it in the tree that is replaced. Naming is a commit, too: the check and the
\* swap are one. What has none must have been replaced after the history began that gc last left alone.
Fits(w) == /\ work[w].base = Now \/ Wrong("no same head")
           /\ work[w].named \in names \cup {0} \/ Wrong("name may be gone")
           /\ work[w].replaced = 0 \/ swept < work[w].replaced \/ Wrong("no fence")

Swap(w) ==
    /\ work[w].at = "swap"
    /\ IF Fits(w)
       THEN log' = Append(log, [tree |-> work[w].tree, restores |-> work[w].restores /\ ~Wrong("no restores"),
                                 day |-> day, base |-> work[w].base])
       ELSE UNCHANGED log
    /\ \* what is certainly lost is deleted by its writer
       stored' = IF log' = log THEN [o \in Objs |-> IF o \in work[w].fresh THEN 0 ELSE stored[o]] ELSE stored
    /\ work' = [work EXCEPT ![w] = Idle]
    /\ UNCHANGED <<day, used, names, swept, gc>>

Tidy(w) ==                 \* mistake: the objs of a swap that may yet be applied are deleted
    /\ Wrong("tidies too early") /\ work[w].at = "swap"
    /\ stored' = [o \in Objs |-> IF o \in work[w].fresh THEN 0 ELSE stored[o]]
    /\ UNCHANGED <<day, used, log, names, work, swept, gc>>

Die(w) ==                  \* the swap never comes; what was written stays for gc
    /\ work[w].at = "swap" /\ work' = [work EXCEPT ![w] = Idle]
    /\ UNCHANGED <<day, stored, used, log, names, swept, gc>>

Name(n) == /\ names = {} /\ n <= Now /\ InHistory(n) /\ Whole(n) /\ names' = {n}
           /\ UNCHANGED <<day, stored, used, log, work, swept, gc>>

Unname(n) == /\ n \in names /\ names' = names \ {n} /\ UNCHANGED <<day, stored, used, log, work, swept, gc>>

(* ---- gc ------------------------------------------------------------------------------------------------------------ *)
Began == day - (Kept + 1)
Old(o) == stored[o] + (IF Wrong("no margin for what is on its way") THEN 0 ELSE 1) <= gc.began
Edge == IF Wrong("edge is the HEAD") THEN Now
        ELSE CHOOSE n \in 1..Now : log[n].day <= Began /\ \A m \in 1..Now : log[m].day <= Began => m <= n

Mark ==
    /\ gc.at = "idle" /\ day > Kept + 1 /\ \E n \in 1..Now : log[n].day <= Began
    /\ LET restoring == {n \in Edge..Now : log[n].restores}
           roots == {Edge, Now} \cup restoring \cup (IF Wrong("names unmarked") THEN {} ELSE names)
       IN gc' = [at |-> "fence", marked |-> UNION {Tree(n) : n \in roots}, began |-> Began, commits |-> Now]
    /\ UNCHANGED <<day, stored, used, log, names, work, swept>>

Fence ==                   \* one write of the row, before anything is removed; its answer says what came back since the marks
    /\ gc.at = "fence"
    /\ swept' = IF gc.began > swept THEN gc.began ELSE swept
    /\ gc' = IF (\E n \in gc.commits + 1..Now : log[n].restores) /\ ~Wrong("marks before a reset") THEN NoGc
             ELSE [gc EXCEPT !.at = "sweep"]
    /\ UNCHANGED <<day, stored, used, log, names, work>>

Sweep ==                   \* one obj: old and not marked
    /\ gc.at = "sweep"
    /\ \E o \in Objs : /\ stored[o] # 0 /\ o \notin gc.marked
                       /\ Wrong("young goes") \/ Old(o)
                       /\ stored' = [stored EXCEPT ![o] = 0]
    /\ UNCHANGED <<day, used, log, names, work, swept, gc>>

Rest == gc.at = "sweep" /\ gc' = NoGc /\ UNCHANGED <<day, stored, used, log, names, work, swept>>

(* ---- time ---------------------------------------------------------------------------------------------------------- *)
\* A change that is older than a quarter of an hour is not applied, and the margin is an hour: what a swap makes reachable
\* was written the day before at the earliest.
Tomorrow ==
    /\ day < Days /\ \A w \in Writers : work[w].at = "idle" \/ work[w].since = day \/ work[w].restores
    /\ day' = day + 1 /\ UNCHANGED <<stored, used, log, names, work, swept, gc>>

Step == \/ Mark \/ Fence \/ Sweep \/ Rest \/ Tomorrow
        \/ \E w \in Writers : Put(w) \/ Restore(w) \/ Swap(w) \/ Tidy(w) \/ Die(w)
        \/ \E n \in 1..Now : Name(n) \/ Unname(n)

Spec == Init /\ [][Step]_vars
Alike == Permutations(Objs) \cup Permutations(Writers)

(* ---- what holds ---------------------------------------------------------------------------------------------------- *)
I9_HeadIsComplete == Whole(Now)
I10_HistoryIsWhole == \A n \in 1..Now : InHistory(n) => Whole(n)
I10_NamedIsWhole == \A n \in names : Whole(n)
I6_NothingIsOverwritten == \A n \in 1..Now : log[n].base = n - 1
=============================================================================
