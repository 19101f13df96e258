------------------------------- MODULE Groups -------------------------------
(* Transactions over tables (ADR 21, I3 and I8): groups of commits, single commits between them, and readers of cuts. A
   client takes a cut, proposes a group that writes some tables and has read others, and sends it until an answer is final.
   The network keeps every request for ever and may apply it again at any time: a stalled process, a lost answer and a copy
   that comes late are all that. Entries leave the tails, and the index remembers them. A table may be stuck for a while, which
   is a refusal that passes. Where reads are judged (ADR 52, I20), a request whose read table has moved on is sent again for the latest
   version, if no commit since has changed a row that was read. "Mistakes" removes one guard; the model itself is Mistakes = {}.      *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Singles,    \* how many single commits there are at most
          Judged,     \* whether reads are judged; then some single commits change no row that anybody reads
          Mistakes    \* guards that are removed

Wrong(mistake) == mistake \in Mistakes

Tables == {"x", "y", "z"}
Groups == {"g", "h"}
Writes == [g |-> {"x", "y"}, h |-> {"y", "z"}]      \* what each writes, and what it only reads
Reads == [g |-> {"z"}, h |-> {"x"}]

VARIABLES latest,     \* [table -> version]
          tail,       \* [table -> set of groups whose entries the row has]
          index,      \* [table -> set of groups that left the tail]
          stuck,      \* tables that take no commits for now
          net,        \* requests: [g, base], base a function from tables to versions
          pc, base,   \* clients: state; the versions of their cut, 0 for a table not looked at yet
          told,       \* final answers: "none", "yes", "never"
          applied,    \* [group -> tables in which it was ratified], for the record
          misread,    \* groups that were ratified although a table that they read had changed
          shown,      \* a reader's cut: versions, 0 for a table not read yet
          at,         \* [group -> [table -> its version]], for the record
          changed,    \* [table -> the newest version that changed a row which others read]
          misjudged,  \* groups that were ratified although a row that they read had changed since their cut
          singles

row == <<latest, tail, index, stuck, applied, misread, at, changed, misjudged, singles>>
vars == <<row, net, pc, base, told, shown>>

Nothing == [t \in Tables |-> 0]

Init ==
    /\ latest = [t \in Tables |-> 1] /\ tail = [t \in Tables |-> {}] /\ index = [t \in Tables |-> {}] /\ stuck = {}
    /\ net = {} /\ pc = [g \in Groups |-> "idle"] /\ base = [g \in Groups |-> Nothing]
    /\ told = [g \in Groups |-> "none"] /\ applied = [g \in Groups |-> {}] /\ misread = {}
    /\ shown = Nothing /\ at = [g \in Groups |-> Nothing] /\ singles = 0
    /\ changed = [t \in Tables |-> 1] /\ misjudged = {}

Touched(g) == Writes[g] \cup Reads[g]

(* ---- a client of a group -------------------------------------------------------------------------------------------- *)
Cut(g) ==
    /\ pc[g] = "idle" /\ told[g] = "none"
    /\ base' = [base EXCEPT ![g] = [t \in Tables |-> IF t \in Touched(g) THEN latest[t] ELSE 0]]
    /\ pc' = [pc EXCEPT ![g] = "ready"]
    /\ UNCHANGED <<row, net, told, shown>>

Send(g) ==
    /\ pc[g] = "ready"
    /\ net' = net \cup {[g |-> g, base |-> base[g]]} /\ pc' = [pc EXCEPT ![g] = "sent"]
    /\ UNCHANGED <<row, base, told, shown>>

(* ---- the store ------------------------------------------------------------------------------------------------------ *)
PartFits(m, t) == latest[t] = m.base[t] /\ t \notin stuck /\ m.g \notin tail[t]
ReadFits(m, t) == Wrong("reads are not checked") \/ latest[t] = m.base[t]
Accepts(m) == (\A t \in Writes[m.g] : PartFits(m, t)) /\ (\A t \in Reads[m.g] : ReadFits(m, t))

Ratify(m, parts) ==
    /\ latest' = [t \in Tables |-> IF t \in parts THEN latest[t] + 1 ELSE latest[t]]
    /\ tail' = [t \in Tables |-> IF t \in parts THEN tail[t] \cup {m.g} ELSE tail[t]]
    /\ applied' = [applied EXCEPT ![m.g] = @ \cup parts]
    /\ at' = [at EXCEPT ![m.g] = [t \in Tables |-> IF t \in parts THEN latest[t] + 1 ELSE @[t]]]
    /\ misread' = IF \E t \in Reads[m.g] : latest[t] # m.base[t] THEN misread \cup {m.g} ELSE misread
    /\ misjudged' = IF \E t \in Reads[m.g] : changed[t] > base[m.g][t] THEN misjudged \cup {m.g} ELSE misjudged
    /\ changed' = [t \in Tables |-> IF t \in parts THEN latest[t] + 1 ELSE changed[t]]
    /\ UNCHANGED <<index, stuck, singles>>

Hears(g, answer) == pc' = [pc EXCEPT ![g] = "done"] /\ told' = [told EXCEPT ![g] = answer]

Accept(m) ==
    /\ m \in net
    /\ IF Wrong("one part after the other")
       THEN \E t \in Writes[m.g] : PartFits(m, t) /\ Ratify(m, {t})
       ELSE Accepts(m) /\ Ratify(m, Writes[m.g])
    /\ \/ pc[m.g] = "sent" /\ Hears(m.g, "yes") /\ ~Wrong("one part after the other")
       \/ UNCHANGED <<pc, told>>                          \* the answer is lost
    /\ UNCHANGED <<net, base, shown>>

Has(g, t) == g \in tail[t] \/ g \in index[t]
Moved(m, t) == IF Judged /\ ~Wrong("whatever moved is final") THEN changed[t] > m.base[t] ELSE latest[t] # m.base[t]
Final(m) == \/ \E t \in Writes[m.g] : latest[t] # m.base[t]
            \/ \E t \in Reads[m.g] : Moved(m, t)
            \/ Wrong("every refusal is final")

Refuse(m) ==                                              \* every member is decided from its row
    /\ m \in net /\ pc[m.g] = "sent" /\ ~Accepts(m)
    /\ IF \A t \in Writes[m.g] : Has(m.g, t) THEN Hears(m.g, "yes")
       ELSE IF Wrong("a part counts") /\ \E t \in Writes[m.g] : Has(m.g, t) THEN Hears(m.g, "yes")
       ELSE Final(m) /\ Hears(m.g, "never")
    /\ UNCHANGED <<row, net, base, shown>>

Judge(m) ==                                               \* the same group, for the version that was judged last
    /\ Judged /\ m \in net /\ pc[m.g] = "sent"
    /\ \E t \in Reads[m.g] :
        /\ latest[t] # m.base[t]
        /\ IF Wrong("judges the last commit only") THEN changed[t] # latest[t] ELSE changed[t] <= m.base[t]
        /\ net' = net \cup {[m EXCEPT !.base[t] = latest[t]]}
    /\ UNCHANGED <<row, pc, base, told, shown>>

(* ---- everybody else ------------------------------------------------------------------------------------------------- *)
CommitAlone(t) ==
    /\ singles < Singles /\ t \notin stuck
    /\ latest' = [latest EXCEPT ![t] = @ + 1] /\ singles' = singles + 1
    /\ changed' = [changed EXCEPT ![t] = latest[t] + 1] \/ (Judged /\ changed' = changed)
    /\ UNCHANGED <<tail, index, stuck, applied, misread, at, misjudged, net, pc, base, told, shown>>

\* A client that misuses the service: a commit of the group, sent as a single one. The others can never follow it.
PartAlone(m, t) ==
    /\ m \in net /\ t \in Writes[m.g] /\ singles < Singles /\ PartFits(m, t)
    /\ latest' = [latest EXCEPT ![t] = @ + 1] /\ tail' = [tail EXCEPT ![t] = @ \cup {m.g}] /\ singles' = singles + 1
    /\ changed' = [changed EXCEPT ![t] = latest[t] + 1]
    /\ UNCHANGED <<index, stuck, applied, misread, at, misjudged, net, pc, base, told, shown>>

Evict(t) ==
    /\ tail[t] # {}
    /\ index' = IF Wrong("forgets") THEN index ELSE [index EXCEPT ![t] = @ \cup tail[t]]
    /\ tail' = [tail EXCEPT ![t] = {}]
    /\ UNCHANGED <<latest, stuck, applied, misread, at, changed, misjudged, singles, net, pc, base, told, shown>>

Stick(t) ==
    /\ stuck' = IF t \in stuck THEN stuck \ {t} ELSE stuck \cup {t}
    /\ UNCHANGED <<latest, tail, index, applied, misread, at, changed, misjudged, singles, net, pc, base, told, shown>>

ReadCut ==
    /\ shown = Nothing /\ ~Wrong("cut row by row")
    /\ shown' = latest
    /\ UNCHANGED <<row, net, pc, base, told>>

ReadRow(t) ==
    /\ shown[t] = 0 /\ Wrong("cut row by row")
    /\ shown' = [shown EXCEPT ![t] = latest[t]]
    /\ UNCHANGED <<row, net, pc, base, told>>

Step ==
    \/ \E g \in Groups : Cut(g) \/ Send(g)
    \/ \E m \in net : Accept(m) \/ Refuse(m) \/ Judge(m) \/ \E t \in Tables : PartAlone(m, t)
    \/ \E t \in Tables : CommitAlone(t) \/ Evict(t) \/ Stick(t) \/ ReadRow(t)
    \/ ReadCut

Spec == Init /\ [][Step]_vars

(* ---- invariants ----------------------------------------------------------------------------------------------------- *)
I8_Whole == \A g \in Groups : applied[g] = {} \/ applied[g] = Writes[g]
I8_ReadsHold == misread = {}
I20_RowsHold == misjudged = {}
Visible(g, t) == shown[t] >= at[g][t]
I8_Cut == (\A t \in Tables : shown[t] # 0) =>
            \A g \in Groups : applied[g] = Writes[g] =>
                (\A t \in Writes[g] : Visible(g, t)) \/ (\A t \in Writes[g] : ~Visible(g, t))
I3_Told == \A g \in Groups : (told[g] = "yes" => applied[g] = Writes[g]) /\ (told[g] = "never" => applied[g] = {})
=============================================================================
