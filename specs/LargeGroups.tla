----------------------------- MODULE LargeGroups -----------------------------
(* Groups of more tables than one conditional write over rows can change (ADR 24, I1 to I3 and I8): prepared table by table,
   decided in one row. A prepared table carries an undecided entry, and whoever meets one may decide and resolve it. The
   network keeps every prepare for ever and may apply it again at any time. Coordinators stop anywhere and go on at any time
   (after the deadline, after somebody else decided); a second one may take the same group over, or begin it anew after it was
   aborted. No step looks at a clock: a deadline may be over at any moment. "Mistakes" removes one guard; the model itself is
   Mistakes = {}.                                                                                                          *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Singles,    \* how many single commits there are at most
          Begins,     \* how often each group is begun at most
          Cuts,       \* whether somebody takes a cut
          Mistakes    \* guards that are removed

Wrong(mistake) == mistake \in Mistakes

Tables == {"x", "y", "z"}
Groups == {"g", "h"}
Writes == [g |-> {"x", "y"}, h |-> IF Cuts THEN {"y", "z"} ELSE {"y"}]     \* what each writes, and what it only reads
Reads == [g |-> {"z"}, h |-> {}]
Ticket(g, t) == g = "h" /\ t = "y"                   \* commits that take the next version, whichever it is
Coordinators == {"first", "second"}
None == [g |-> "none", n |-> 0]

VARIABLES latest,      \* [table -> version]
          und,         \* [table -> undecided entry: group and number of the beginning]
          folded,      \* [group -> [table -> how often it was folded into the tail]]
          group,       \* [group -> state and number of the present beginning]
          base,        \* [group -> versions it was built on]
          prepared,    \* [group, number, table] that were accepted at some time, for those who hear of it late
          co,          \* [group -> [coordinator -> its beginning, the tables it knows to be prepared, where it is]]
          frozen,      \* a process that has read a decision and acts on it at some time
          committed,   \* groups that were ever committed, for the record
          skewed,      \* groups that were committed although a table that they read had changed, or one was not prepared
          singles,
          cut,         \* a reader: where it is, the rows it has, the groups it knows to be committed
          moments      \* every true state since the reader began, for the record

rows == <<latest, und, folded>>
coord == <<base, prepared, co>>
record == <<committed, skewed>>
vars == <<rows, group, coord, frozen, record, singles, cut, moments>>

Touched(g) == Writes[g] \cup Reads[g]
Is(t, g, n) == und[t] = [g |-> g, n |-> n]
Done == [t \in Tables |-> 0]

\* What a reader of everything would see: the tails, and the entries of groups that are committed.
Hidden(t) == und[t] # None /\ group[und[t].g] = [state |-> "committed", n |-> und[t].n] /\ t \in Writes[und[t].g]
True == [t \in Tables |-> latest[t] + (IF Hidden(t) THEN 1 ELSE 0)]

Init ==
    /\ latest = [t \in Tables |-> 1] /\ und = [t \in Tables |-> None]
    /\ folded = [g \in Groups |-> Done] /\ group = [g \in Groups |-> [state |-> "none", n |-> 0]]
    /\ base = [g \in Groups |-> [t \in Tables |-> 1]] /\ prepared = {}
    /\ co = [g \in Groups |-> [c \in Coordinators |-> [n |-> 0, ok |-> {}]]]
    /\ frozen = [t |-> "none"] /\ committed = {} /\ skewed = {} /\ singles = 0
    /\ cut = [pc |-> "idle"] /\ moments = {}

\* A step that changes what is true.
Truth == moments' = IF cut.pc \in {"idle", "done"} THEN moments ELSE moments \cup {True'}

(* ---- coordinators --------------------------------------------------------------------------------------------------- *)
Begin(g, c) ==             \* begins the group, begins it anew, or takes part in one that is open
    /\ co[g][c].n = 0 /\ (g = "h" \/ Cuts => c = "first")      \* one is enough to be in the way, or to be seen
    /\ \/ /\ group[g].state \in {"none", "aborted", "gone"} /\ group[g].n < (IF g = "h" THEN 1 ELSE Begins)
          /\ group' = [group EXCEPT ![g] = [state |-> "open", n |-> group[g].n + 1]]
       \/ group[g].state = "open" /\ UNCHANGED group
    /\ co' = [co EXCEPT ![g][c] = [n |-> group'[g].n, ok |-> {}]]
    /\ UNCHANGED <<rows, base, prepared, frozen, record, singles, cut>> /\ Truth

Fits(g, t) ==              \* exactly the single-table write's condition
    /\ und[t] = None \/ Wrong("prepares over an entry")
    /\ IF Ticket(g, t) THEN folded[g][t] = 0 ELSE latest[t] = base[g][t]

Prepare(g, n, t) ==        \* by the network, at any time after it was sent
    /\ n \in 1..group[g].n /\ t \in Touched(g) /\ Fits(g, t)
    /\ t \in Writes[g] \/ ~Wrong("reads are not held")
    /\ und' = [und EXCEPT ![t] = [g |-> g, n |-> n]]
    /\ prepared' = prepared \cup {<<g, n, t>>}
    /\ UNCHANGED <<latest, folded, group, base, co, frozen, record, singles, cut>> /\ Truth

Hear(g, c, t) ==           \* the answer to a prepare, or the sight of the entry; perhaps late
    /\ co[g][c].n > 0 /\ t \notin co[g][c].ok
    /\ \/ <<g, co[g][c].n, t>> \in prepared
       \/ Wrong("entries of any beginning count") /\ und[t].g = g
       \/ Wrong("reads are not held") /\ t \in Reads[g] /\ latest[t] = base[g][t]
    /\ co' = [co EXCEPT ![g][c].ok = @ \cup {t}]
    /\ UNCHANGED <<rows, group, base, prepared, frozen, record, singles, cut, moments>>

Commit(g, c) ==            \* one conditional write on the group's row
    /\ co[g][c].n > 0
    /\ co[g][c].ok = Touched(g) \/ (Wrong("one prepare is enough") /\ co[g][c].ok # {})
    /\ \/ group[g] = [state |-> "open", n |-> co[g][c].n]
       \/ Wrong("commits what was aborted") /\ group[g] = [state |-> "aborted", n |-> co[g][c].n]
       \/ Wrong("any beginning is committed") /\ group[g].state = "open"
    /\ group' = [group EXCEPT ![g].state = "committed"]
    /\ committed' = committed \cup {g}
    /\ skewed' = IF \E t \in Reads[g] : True[t] # base[g][t] THEN skewed \cup {g} ELSE skewed
    /\ UNCHANGED <<rows, coord, frozen, singles, cut>> /\ Truth

Abort(g) ==                \* by a coordinator that met a refusal, or by anybody after the deadline
    /\ group[g].state = "open"
    /\ group' = [group EXCEPT ![g].state = "aborted"]
    /\ UNCHANGED <<rows, coord, frozen, record, singles, cut>> /\ Truth

(* ---- whoever meets an entry ------------------------------------------------------------------------------------------- *)
Verdict(u) ==
    IF group[u.g] = [state |-> "committed", n |-> u.n] THEN "fold"
    ELSE IF group[u.g] = [state |-> "open", n |-> u.n] /\ ~Wrong("open counts as aborted") THEN "wait"
    ELSE "remove"

Act(t, u, verdict) ==
    /\ und[t] = u /\ verdict # "wait"
    /\ und' = [und EXCEPT ![t] = None]
    /\ IF verdict = "fold" /\ t \in Writes[u.g]
       THEN latest' = [latest EXCEPT ![t] = @ + 1] /\ folded' = [folded EXCEPT ![u.g][t] = @ + 1]
       ELSE UNCHANGED <<latest, folded>>
    /\ UNCHANGED <<group, coord, record, singles, cut>> /\ Truth

Resolve(t) == und[t] # None /\ UNCHANGED frozen /\ Act(t, und[t], Verdict(und[t]))

Freeze(t) ==               \* reads the decision and is frozen before it acts
    /\ ~Cuts /\ frozen.t = "none" /\ und[t].g = "g" /\ Verdict(und[t]) # "wait"
    /\ frozen' = [t |-> t, u |-> und[t], verdict |-> Verdict(und[t])]
    /\ UNCHANGED <<rows, group, coord, record, singles, cut, moments>>

Thaw == frozen.t # "none" /\ frozen' = [t |-> "none"] /\ Act(frozen.t, frozen.u, frozen.verdict)

Collect(g) ==              \* gc: a committed group is kept while a table has an entry of it
    /\ g = "g" /\ ~Cuts
    /\ \/ group[g].state = "aborted"
       \/ group[g].state = "committed"
          /\ \/ \A t \in Writes[g] : ~Is(t, g, group[g].n)
             \/ Wrong("gc takes a group with entries")
    /\ group' = [group EXCEPT ![g].state = "gone"]
    /\ UNCHANGED <<rows, coord, frozen, record, singles, cut>> /\ Truth

(* ---- everybody else --------------------------------------------------------------------------------------------------- *)
CommitAlone(t) ==
    /\ singles < Singles /\ singles' = singles + 1 /\ t # "y"   \* of y there is the other group
    /\ und[t] = None \/ Wrong("commits over an entry")
    /\ latest' = [latest EXCEPT ![t] = @ + 1]
    /\ UNCHANGED <<und, folded, group, coord, frozen, record, cut>> /\ Truth

Take ==                    \* the rows as of one moment; then the groups that they name, one after the other; again if one is committed
    /\ Cuts /\ cut.pc \in {"idle", "again"}
    /\ cut' = [pc |-> "taken", latest |-> latest, und |-> und, open |-> {t \in Tables : und[t] # None},
               sure |-> IF cut.pc = "again" THEN cut.sure ELSE {}]
    /\ moments' = (IF cut.pc = "idle" THEN {} ELSE moments) \cup {True}
    /\ UNCHANGED <<rows, group, coord, frozen, record, singles>>

Look(t) ==
    /\ cut.pc = "taken" /\ t \in cut.open
    /\ LET u == cut.und[t]
           is == group[u.g] = [state |-> "committed", n |-> u.n]
       IN IF is /\ u \notin cut.sure
          THEN cut' = [cut EXCEPT !.sure = @ \cup {u}, !.open = @ \ {t},
                                  !.pc = IF Wrong("a cut is not taken again") THEN "taken" ELSE "again"]
          ELSE cut' = [cut EXCEPT !.open = @ \ {t}]
    /\ UNCHANGED <<rows, group, coord, frozen, record, singles, moments>>

Show ==
    /\ cut.pc = "taken" /\ cut.open = {}
    /\ cut' = [pc |-> "done",
               shown |-> [t \in Tables |-> cut.latest[t] +
                   (IF cut.und[t] \in cut.sure /\ t \in Writes[cut.und[t].g] THEN 1 ELSE 0)]]
    /\ UNCHANGED <<rows, group, coord, frozen, record, singles, moments>>

Step ==
    \/ \E g \in Groups : Abort(g) \/ Collect(g) \/ \E c \in Coordinators : Begin(g, c) \/ Commit(g, c)
    \/ \E g \in Groups, t \in Tables : (\E c \in Coordinators : Hear(g, c, t)) \/ (\E n \in 1..Begins : Prepare(g, n, t))
    \/ \E t \in Tables : Resolve(t) \/ Freeze(t) \/ CommitAlone(t) \/ Look(t)
    \/ Thaw \/ Take \/ Show

Spec == Init /\ [][Step]_vars

(* ---- invariants ------------------------------------------------------------------------------------------------------- *)
I2_Once == \A g \in Groups, t \in Tables : folded[g][t] <= 1
I1_InPlace == \A g \in Groups, t \in Tables : Hidden(t) /\ und[t].g = g /\ ~Ticket(g, t) => latest[t] = base[g][t]
I8_Whole == \A g \in Groups :
    IF g \in committed THEN \A t \in Writes[g] : folded[g][t] = 1 \/ (Hidden(t) /\ und[t].g = g)
    ELSE \A t \in Writes[g] : folded[g][t] = 0
I8_ReadsHold == skewed = {}
I8_Cut == cut.pc = "done" => cut.shown \in moments
=============================================================================
