----------------------------- MODULE CatalogGc -----------------------------
(* The HEAD of a catalog, objs behind it, and gc at the edge of the kept history (ADR 15, I9 and I10). A tree is the set
   of objs that it leads to; a change replaces one obj, and a restoring one brings back a tree of the kept history. Writers
   write objs, and swap the HEAD later if it still is what they started from; a swap may be lost and come late, or never.
   Time goes on in days: a day is longer than a change and its writes take, so a change that writes objs on one day ends on
   the next at the latest, which is what the margin of gc stands for. One that only brings something back may stand still
   for as long as it likes between its look and its swap, and so may gc: a fence is between them (gc_fence). History is kept
   for Kept days. gc marks, and deletes one obj after the other while everybody goes on. A run of gc may have a clock that
   is Ahead days ahead: it then removes history that should be kept, and its mark refuses every change, until a right clock
   takes the mark back. "Mistakes" removes one guard; the model itself is Mistakes = {}.                               *)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS Objs,        \* every obj that may ever be written
          Writers,
          Days,        \* the last day
          Kept,        \* how many days history is kept
          Commits,     \* how many commits there are at most
          Ahead,       \* by how many days the clock of a run of gc may be ahead: {0} where all clocks are right
          Mistakes     \* guards that are removed

Wrong(mistake) == mistake \in Mistakes

VARIABLES day,
          stored,      \* [obj -> the day on which it was written], 0 for one that does not exist
          used,        \* objs that were ever written: ids are never used twice
          log,         \* commits in order: [tree, restores, day, base]; the last one is the HEAD
          names,       \* commits that have a name, by number: snapshots
          work,        \* writers: what they are about to swap
          swept,       \* in the catalog's row: the day on which the history began that gc last left alone
          taken,       \* in the catalog's row: how many such marks were taken back, because they were ahead
          gc           \* the collector: where it is, what it marked, how many commits there were then

vars == <<day, stored, used, log, names, work, swept, taken, gc>>

Now == Len(log)
Tree(n) == log[n].tree
Idle == [at |-> "idle", base |-> 0, tree |-> {}, fresh |-> {}, restores |-> FALSE, named |-> 0, replaced |-> 0,
         since |-> 0, taken |-> 0]
NoGc == [at |-> "idle", marked |-> {}, began |-> 0, commits |-> 0, saw |-> 0, mark |-> 0, named |-> 0,
         objs |-> {}]

\* A HEAD was replaced on the day of its successor. It is kept for Kept days from then.
Replaced(n) == IF n = Now THEN day ELSE log[n + 1].day
InHistory(n) == n = Now \/ Replaced(n) + Kept > day
Whole(n) == \A o \in Tree(n) : stored[o] # 0

Init ==
    /\ day = 1
    /\ \E o \in Objs :
        /\ stored = [p \in Objs |-> IF p = o THEN 1 ELSE 0] /\ used = {o}
        /\ log = <<[tree |-> {o}, restores |-> FALSE, day |-> 1, base |-> 0]>>
    /\ names = {} /\ work = [w \in Writers |-> Idle] /\ swept = 0
    /\ taken = 0 /\ gc = NoGc

(* ---- changes ------------------------------------------------------------------------------------------------------ *)
Put(w) ==                  \* a change: one new obj, in place of one that was there or beside it
    /\ work[w].at = "idle" /\ Now < Commits
    /\ \E o \in Objs \ used, gone \in SUBSET Tree(Now) :
        /\ Cardinality(gone) <= 1 /\ Cardinality(Tree(Now) \ gone) < 2
        /\ stored' = [stored EXCEPT ![o] = day] /\ used' = used \cup {o}
        /\ work' = [work EXCEPT ![w] = [at |-> "swap", base |-> Now, tree |-> (Tree(Now) \ gone) \cup {o},
                                        fresh |-> {o}, restores |-> FALSE, named |-> 0, replaced |-> 0,
                                        since |-> day, taken |-> taken]]
    /\ UNCHANGED <<day, log, names, swept, taken, gc>>

Restorable(n) == n < Now /\ (InHistory(n) \/ n \in names) /\ Whole(n)

Restore(w) ==              \* a reset: the tree of a HEAD of the kept history, which is looked at now and swapped some day
    /\ work[w].at = "idle" /\ Now < Commits
    /\ \E n \in 1..Now : /\ Restorable(n)
                          /\ work' = [work EXCEPT ![w] = [at |-> "swap", base |-> Now, tree |-> Tree(n), fresh |-> {},
                                                          restores |-> TRUE, since |-> day, taken |-> taken,
                                                          named |-> IF n \in names THEN n ELSE 0,
                                                          replaced |-> IF n \in names THEN 0 ELSE Replaced(n)]]
    /\ UNCHANGED <<day, stored, used, log, names, swept, taken, gc>>

\* What only its name keeps must still have it in the tree that is replaced. Naming is a commit, too: the check and the
\* swap are one. What has none must have been replaced after the history began that gc last left alone; what is new must have
\* been written after it. A change that read the row before a mark was taken back is refused: gc may be removing its objs.
Fits(w) == /\ work[w].base = Now \/ Wrong("no same head")
           /\ work[w].named \in names \cup {0} \/ Wrong("name may be gone")
           /\ (swept < (IF work[w].replaced = 0 THEN work[w].since ELSE work[w].replaced)) \/ Wrong("no fence")
           /\ work[w].taken = taken \/ Wrong("marks taken back are not counted")

Swap(w) ==
    /\ work[w].at = "swap"
    /\ IF Fits(w)
       THEN log' = Append(log, [tree |-> work[w].tree, restores |-> work[w].restores /\ ~Wrong("no restores"),
                                 day |-> day, base |-> work[w].base])
       ELSE UNCHANGED log
    /\ \* what is certainly lost is deleted by its writer
       stored' = IF log' = log THEN [o \in Objs |-> IF o \in work[w].fresh THEN 0 ELSE stored[o]] ELSE stored
    /\ work' = [work EXCEPT ![w] = Idle]
    /\ UNCHANGED <<day, used, names, swept, taken, gc>>

Tidy(w) ==                 \* mistake: the objs of a swap that may yet be applied are deleted
    /\ Wrong("tidies too early") /\ work[w].at = "swap"
    /\ stored' = [o \in Objs |-> IF o \in work[w].fresh THEN 0 ELSE stored[o]]
    /\ UNCHANGED <<day, used, log, names, work, swept, taken, gc>>

Die(w) ==                  \* the swap never comes; what was written stays for gc
    /\ work[w].at = "swap" /\ work' = [work EXCEPT ![w] = Idle]
    /\ UNCHANGED <<day, stored, used, log, names, swept, taken, gc>>

Name(n) == /\ names = {} /\ n <= Now /\ InHistory(n) /\ Whole(n) /\ swept < Replaced(n) /\ names' = {n}
           /\ gc' = [gc EXCEPT !.named = IF gc.at = "fence" /\ gc.named = 0 THEN day ELSE gc.named]
           /\ UNCHANGED <<day, stored, used, log, work, swept, taken>>

Unname(n) == /\ n \in names /\ names' = names \ {n} /\ UNCHANGED <<day, stored, used, log, work, swept, taken, gc>>

(* ---- gc ------------------------------------------------------------------------------------------------------------ *)
Began(now) == IF now > Kept + 1 THEN now - (Kept + 1) ELSE 0
Old(o) == stored[o] + (IF Wrong("no margin for what is on its way") THEN 0 ELSE 1) <= gc.began
Edge(began) == IF Wrong("edge is the HEAD") THEN Now
               ELSE CHOOSE n \in 1..Now : log[n].day <= began /\ \A m \in 1..Now : log[m].day <= began => m <= n

Mark(now) ==               \* by the clock of this run
    /\ gc.at = "idle" /\ \E n \in 1..Now : log[n].day <= Began(now)
    /\ LET edge == Edge(Began(now))
           restoring == {n \in edge..Now : log[n].restores}
           roots == {edge, Now} \cup restoring \cup (IF Wrong("names unmarked") THEN {} ELSE names)
       IN gc' = [NoGc EXCEPT !.at = "fence", !.marked = UNION {Tree(n) : n \in roots}, !.began = Began(now),
                             !.commits = Now, !.saw = swept]
    /\ UNCHANGED <<day, stored, used, log, names, work, swept, taken>>

\* One write of the row, before anything is removed. Its answer says what came back since the marks, and whether a change has
\* landed that looks older than the kept history; by a clock that is ahead, every change does.
Fence ==
    /\ gc.at = "fence"
    /\ swept' = IF gc.began > swept THEN gc.began ELSE swept
    /\ LET landed == gc.commits + 1..Now
           restored == \E n \in landed : log[n].restores
           late == \/ landed # {} /\ log[gc.commits + 1].day <= gc.began
                   \/ gc.named # 0 /\ gc.named <= gc.began  \* a name is a commit, too
           other == gc.began < swept /\ (swept > gc.began + Kept + 1 \/ swept # gc.saw)
       IN gc' = IF \/ restored /\ ~Wrong("marks before a reset")
                   \/ late /\ ~Wrong("marks before a late change")
                   \/ other
                THEN NoGc ELSE [gc EXCEPT !.at = "check", !.mark = swept', !.saw = 0, !.named = 0, !.commits = 0]
    /\ UNCHANGED <<day, stored, used, log, names, work, taken>>

Check ==                   \* an obj is old and not marked, and the mark still stands
    /\ gc.at = "check"
    /\ swept = gc.mark \/ Wrong("mark is not looked for")
    /\ \E o \in Objs : /\ stored[o] # 0 /\ o \notin gc.marked
                       /\ Wrong("young goes") \/ Old(o)
                       /\ gc' = [gc EXCEPT !.at = "sweep", !.objs = {o}]
    /\ UNCHANGED <<day, stored, used, log, names, work, swept, taken>>

Sweep ==                   \* it is removed, however long after the check
    /\ gc.at = "sweep"
    /\ stored' = [o \in Objs |-> IF o \in gc.objs THEN 0 ELSE stored[o]]
    /\ gc' = [gc EXCEPT !.at = "check", !.objs = {}]
    /\ UNCHANGED <<day, used, log, names, work, swept, taken>>

Rest == gc.at \in {"check", "sweep"} /\ gc' = NoGc /\ UNCHANGED <<day, stored, used, log, names, work, swept, taken>>

\* A change that is refused, or a later run, finds a mark that is ahead of its clock and takes it back: the mark is the present
\* from then on, since the run may have removed what was replaced until now, and may go on with one batch. Time is in days
\* only, so this happens before the first commit of a day.
TakeBack ==
    /\ swept > day /\ \A n \in 1..Now : log[n].day < day
    /\ swept' = IF Wrong("mark is erased") THEN 0 ELSE day - 1
    /\ taken' = taken + 1
    /\ UNCHANGED <<day, stored, used, log, names, work, gc>>

(* ---- time ---------------------------------------------------------------------------------------------------------- *)
\* A change that is older than a quarter of an hour is not applied, and the margin is an hour: what a swap makes reachable
\* was written the day before at the earliest.
Tomorrow ==
    /\ day < Days /\ \A w \in Writers : work[w].at = "idle" \/ work[w].since = day \/ work[w].restores
    /\ day' = day + 1 /\ UNCHANGED <<stored, used, log, names, work, swept, taken, gc>>

Step == \/ Fence \/ Check \/ Sweep \/ Rest \/ TakeBack \/ Tomorrow
        \/ \E days \in Ahead : (days = 0 \/ taken = 0) /\ Mark(day + days)  \* a bound of the model: ahead until it is found
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
