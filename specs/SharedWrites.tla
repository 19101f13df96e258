---------------------------- MODULE SharedWrites ----------------------------
(* Commits of one table that wait in a process share a write of its HEAD (ADR 58, I23). Each process has a line for the table, and remembers there
   the row that its last write left, which others may have changed since. A writer may also write alone. Each has one transaction. Those of "Again" may
   give up waiting at any time, which leaves the commit in its line, and send the same one once more. A request whose answer was lost stays in the
   network for ever, and may be applied at any time. A process that dies is one that takes no further step while its writers give up.
   Timestamps, row ids and streaming applications are not modelled, nor is what only passes but for a table that takes no commits for a while;
   staged files, publication and the floor are in Turnstile.tla. "Mistakes" removes guards; the model itself is Mistakes = {}.               *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Named,       \* writers that name the version after the latest one they read
          Changers,    \* those of them that change metadata
          Tickets,     \* writers that ask for the next version
          Processes,   \* that have a line which everybody may join
          Again,       \* writers that send their commit once more, when they have given up or were told that nothing is certain
          Single,      \* writers that may write alone
          Waiting,     \* writers that may wait in the line of a process
          Losses,      \* how many requests lose their answers at most
          Closings,    \* how often the table takes no commits for a while at most
          Evictions,   \* how many entries leave the tail at most
          Mistakes     \* guards that are removed

Writers == Named \cup Tickets
Lines == Processes \cup Writers
Top == Cardinality(Writers)
NoRow == [latest |-> 0, from |-> 0, tail |-> <<>>, epoch |-> 0, turns |-> 0]
NoRequest == [kind |-> "none", members |-> <<>>, at |-> 0, base |-> 0, needed |-> 0]
Tries(w) == IF w \in Again THEN 2 ELSE 1
Wrong(mistake) == mistake \in Mistakes
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Range(s) == {s[i] : i \in 1..Len(s)}

VARIABLES row,         \* the HEAD: latest version, first of the tail, the tail, version of the last change of metadata,
                       \* how often it turned from taking commits to not taking any, and back
          index,       \* identity index: <<version, writer>>
          accepted,    \* what was ratified, for the record: <<version, writer>> in order
          base,        \* [writer -> the latest version that it read]
          pc,          \* [writer -> "new", "ready" to send, "waits", "done"]
          tries,       \* [writer -> how often it has sent]
          told,        \* [writer -> what it was told last, and which version]
          doubt,       \* writers that an earlier attempt told nothing certain
          stale,       \* whether somebody was answered from a row older than its joining, for the record
          line,        \* [line -> the commits that wait]
          known,       \* [line -> the row that its last write left; NoRow]
          work,        \* [line -> the attempt under way]
          late         \* requests that may be applied at any time

vars == <<row, index, accepted, base, pc, tries, told, doubt, stale, line, known, work, late>>
writer == <<base, pc, tries, told, doubt, stale>>

\* An attempt: the first "group" commits of the line were taken; "members" are the places of those whose write it is.
Idle == [at |-> "idle", group |-> 0, members |-> <<>>, request |-> NoRequest, unsure |-> FALSE, row |-> NoRow, won |-> FALSE]

Init ==
    /\ row = [latest |-> 0, from |-> 1, tail |-> <<>>, epoch |-> 0, turns |-> 0] /\ index = {} /\ accepted = <<>>
    /\ base = [w \in Writers |-> 0] /\ pc = [w \in Writers |-> "new"] /\ tries = [w \in Writers |-> 0]
    /\ told = [w \in Writers |-> [says |-> "nothing", v |-> 0]] /\ doubt = {} /\ stale = FALSE
    /\ line = [l \in Lines |-> <<>>] /\ known = [l \in Lines |-> NoRow] /\ work = [l \in Lines |-> Idle] /\ late = {}

(* ---- writes: what a row accepts, and what it becomes -------------------------------------------------------------------- *)
\* A commit in a line: whose it is, which try, from where identities are needed, whether an answer was lost, the latest version when it joined.
Needed(c) == Max(base[c.w] + 1, c.recalled)
Own(c) == [kind |-> IF c.w \in Tickets THEN "ticket" ELSE "named", members |-> <<c.w>>, at |-> IF c.w \in Tickets THEN 0 ELSE base[c.w],
           base |-> base[c.w], needed |-> Needed(c)]

Open(r) == r.turns % 2 = 0
Next(r, m) == \/ m.kind = "ticket" \/ r.latest = m.at
              \/ m.kind = "shared" /\ r.latest > m.at /\ (Wrong("fits any later row") \/ Wrong("follows any row"))
Accepts(r, m) ==
    /\ Next(r, m) /\ Open(r)
    /\ m.kind = "named" \/ r.epoch <= m.base \/ (m.kind = "shared" /\ Wrong("no epoch"))
    /\ Range(m.members) \cap Range(r.tail) = {} \/ (m.kind = "shared" /\ Wrong("no identity"))
    /\ r.from <= m.needed \/ (m.kind = "shared" /\ Wrong("not remembered"))

First(r, m) == IF m.kind = "ticket" \/ (m.kind = "shared" /\ Wrong("follows any row")) THEN r.latest + 1 ELSE m.at + 1
After(r, m) == [latest |-> First(r, m) + Len(m.members) - 1, from |-> r.from, tail |-> r.tail \o m.members,
                epoch |-> IF m.members[1] \in Changers THEN First(r, m) ELSE r.epoch, turns |-> r.turns]
Entries(r, m) == [i \in 1..Len(m.members) |-> <<First(r, m) + i - 1, m.members[i]>>]

(* ---- the shared write: the own writes that fit, one after the other ------------------------------------------------------- *)
RECURSIVE Fit(_, _, _)
Fit(r, commits, places) ==       \* which of "places" fit behind each other on a row
    IF places = <<>> THEN <<>>
    ELSE LET m == Own(commits[Head(places)])
             judged == IF Wrong("judged before the change") THEN [r EXCEPT !.epoch = 0] ELSE r
         IN  IF Accepts(judged, m) THEN <<Head(places)>> \o Fit(After(r, m), commits, Tail(places)) ELSE Fit(r, commits, Tail(places))

NamedFirst(commits) ==
    LET places == [i \in 1..Len(commits) |-> i]
    IN  SelectSeq(places, LAMBDA i : commits[i].w \in Named) \o SelectSeq(places, LAMBDA i : commits[i].w \in Tickets)
Share(r, commits) == Fit(r, commits, NamedFirst(commits))

RECURSIVE Least(_)
Least(s) == IF s = {} THEN Top + 1 ELSE LET x == CHOOSE x \in s : TRUE IN Min(x, Least(s \ {x}))
Request(r, commits, places) ==
    IF Len(places) = 1 THEN Own(commits[places[1]])
    ELSE [kind |-> "shared", members |-> [i \in 1..Len(places) |-> commits[places[i]].w], at |-> r.latest,
          base |-> Least({base[commits[i].w] : i \in {i \in Range(places) : commits[i].w \in Tickets}}),
          needed |-> Least({Needed(commits[i]) : i \in Range(places)})]

(* ---- what a row says of a commit ------------------------------------------------------------------------------------------- *)
Says(says, v) == [says |-> says, v |-> v]
Place(r, w) == r.from - 1 + (CHOOSE i \in 1..Len(r.tail) : r.tail[i] = w)
Recalled(w) == IF \E v \in 1..Top : <<v, w>> \in index THEN Says("ratified", CHOOSE v \in 1..Top : <<v, w>> \in index) ELSE Says("recalled", 0)
Passing == {"gap", "closed", "contended"}
Decide(r, c) ==
    IF c.w \in Range(r.tail) THEN Says("ratified", Place(r, c.w))
    ELSE IF Needed(c) < r.from THEN Recalled(c.w)
    ELSE IF ~Open(r) THEN Says("closed", 0)
    ELSE IF c.w \in Tickets THEN Says(IF r.epoch > base[c.w] THEN "conflict" ELSE "fits", 0)
    ELSE Says(IF base[c.w] < r.latest THEN "conflict" ELSE IF base[c.w] > r.latest THEN "gap" ELSE "fits", 0)

\* What a commit is told: of a refusal that may pass only that nothing is certain, where an earlier write of it may be accepted yet.
Answer(c, says) == IF c.lost /\ says.says \in Passing /\ ~Wrong("lost is forgotten") THEN Says("unknown", 0) ELSE says

\* Commits get their answers; one that its writer has given up is answered to nobody. "answers": [writer, try -> what is told].
Tell(answers) ==
    LET heard == {a \in answers : pc[a.w] = "waits" /\ tries[a.w] = a.n}
        of(w) == (CHOOSE a \in heard : a.w = w).says
        hears == {a.w : a \in heard}
        unknown == {w \in hears : of(w).says = "unknown"}
    IN  /\ told' = [w \in Writers |-> IF w \in hears THEN of(w) ELSE told[w]]
        /\ pc' = [w \in Writers |-> IF w \notin hears THEN pc[w] ELSE IF w \in unknown /\ tries[w] < Tries(w) THEN "ready" ELSE "done"]
        /\ doubt' = doubt \cup unknown
        /\ UNCHANGED <<base, tries>>
Answers(commits, says(_)) == {[w |-> c.w, n |-> c.n, says |-> says(c)] : c \in commits}

(* ---- writers -------------------------------------------------------------------------------------------------------------------- *)
Propose(w) ==
    /\ pc[w] = "new" /\ pc' = [pc EXCEPT ![w] = "ready"] /\ base' = [base EXCEPT ![w] = row.latest]
    /\ UNCHANGED <<row, index, accepted, tries, told, doubt, stale, line, known, work, late>>

Join(w, l) ==            \* a line of its own: it writes alone
    /\ pc[w] = "ready" /\ l \in (IF w \in Waiting THEN Processes ELSE {}) \cup ({w} \cap Single)
    /\ pc' = [pc EXCEPT ![w] = "waits"] /\ tries' = [tries EXCEPT ![w] = @ + 1]
    /\ line' = [line EXCEPT ![l] = Append(@, [w |-> w, n |-> tries[w] + 1, recalled |-> 0, lost |-> FALSE, came |-> row.latest])]
    /\ UNCHANGED <<row, index, accepted, base, told, doubt, stale, known, work, late>>

GivesUp(w) ==            \* what it sent goes on without it
    /\ pc[w] = "waits" /\ tries[w] < Tries(w)
    /\ pc' = [pc EXCEPT ![w] = "ready"] /\ doubt' = doubt \cup {w}
    /\ UNCHANGED <<row, index, accepted, base, tries, told, stale, line, known, work, late>>

(* ---- lines ------------------------------------------------------------------------------------------------------------------------ *)
\* Mistake: commits that the remembered row refuses are answered from it.
Judges(l) == Wrong("judged by the row before it came") /\ known[l] # NoRow
Refused(l) == {c \in Range(line[l]) : Decide(known[l], c).says \in {"gap", "closed", "conflict"}}
JudgeFirst(l) ==
    /\ work[l].at = "idle" /\ Judges(l) /\ Refused(l) # {}
    /\ Tell(Answers(Refused(l), LAMBDA c : Answer(c, Decide(known[l], c))))
    /\ stale' = (stale \/ \E c \in Refused(l) : known[l].latest < c.came)
    /\ LET rest == SelectSeq(line[l], LAMBDA c : c \notin Refused(l))
       IN  line' = [line EXCEPT ![l] = rest] /\ known' = [known EXCEPT ![l] = IF rest = <<>> THEN NoRow ELSE @]
    /\ UNCHANGED <<row, index, accepted, work, late>>

Take(l) ==               \* whose row is not known: the first commit, by its own write
    LET places == IF known[l] = NoRow THEN <<1>> ELSE Share(known[l], line[l]) IN
    /\ work[l].at = "idle" /\ line[l] # <<>> /\ places # <<>> /\ (Judges(l) => Refused(l) = {})
    /\ work' = [work EXCEPT ![l] = [Idle EXCEPT !.at = "sent", !.group = Len(line[l]), !.members = places,
                                                !.request = Request(known[l], line[l], places)]]
    /\ UNCHANGED <<row, index, accepted, writer, line, known, late>>

Read(l) ==               \* none fits, or the version of the first one was seen taken
    /\ work[l].at = "idle" /\ line[l] # <<>>
    /\ IF known[l] = NoRow THEN line[l][1].w \in Named /\ base[line[l][1].w] < row.latest ELSE Share(known[l], line[l]) = <<>>
    /\ work' = [work EXCEPT ![l] = [Idle EXCEPT !.at = "read", !.group = Len(line[l]), !.row = row]]
    /\ UNCHANGED <<row, index, accepted, writer, line, known, late>>

Apply(m) ==
    /\ Accepts(row, m) /\ First(row, m) + Len(m.members) - 1 <= 2 * Top
    /\ row' = After(row, m) /\ accepted' = accepted \o Entries(row, m)

Accept(l) ==
    /\ work[l].at = "sent" /\ Apply(work[l].request)
    /\ work' = [work EXCEPT ![l].at = "heard", ![l].row = row', ![l].won = TRUE]
    /\ UNCHANGED <<index, writer, line, known, late>>

Refuse(l) ==
    /\ work[l].at = "sent" /\ ~Accepts(row, work[l].request)
    /\ work' = [work EXCEPT ![l].at = "heard", ![l].row = row]
    /\ UNCHANGED <<row, index, accepted, writer, line, known, late>>

Lost == Cardinality(late) < Losses
Doubles(l) ==            \* the answer is lost, and the same request is sent again
    /\ work[l].at = "sent" /\ ~work[l].unsure /\ (Lost \/ work[l].request \in late)
    /\ late' = late \cup {work[l].request} /\ work' = [work EXCEPT ![l].unsure = TRUE]
    /\ UNCHANGED <<row, index, accepted, writer, line, known>>

Mine(l) == {line[l][i] : i \in Range(work[l].members)}
Taken(l) == {line[l][i] : i \in 1..work[l].group}
Silence(l) ==            \* no answer at all: nobody else is told anything
    LET whose == IF Wrong("silence for everybody") THEN Taken(l) ELSE Mine(l)
        rest == SelectSeq(line[l], LAMBDA c : c \notin whose)
    IN
    /\ work[l].at = "sent" /\ (Lost \/ work[l].request \in late)
    /\ late' = late \cup {work[l].request}
    /\ Tell(Answers(whose, LAMBDA c : IF Wrong("silence is a refusal") THEN Says("contended", 0) ELSE Says("unknown", 0)))
    /\ line' = [line EXCEPT ![l] = rest] /\ known' = [known EXCEPT ![l] = NoRow] /\ work' = [work EXCEPT ![l] = Idle]
    /\ UNCHANGED <<row, index, accepted, stale>>

\* Every commit that was taken is answered from the row that came back, or stays; "tired": those that were tried often enough.
Judge(l, tired) ==
    LET r == work[l].row
        places == work[l].members
        reach == IF Wrong("judges who came later") THEN Len(line[l]) ELSE work[l].group
        mine(i) == i \in Range(places)
        rank(i) == IF Wrong("told in order of the line") THEN Cardinality({j \in Range(places) : j <= i})
                   ELSE CHOOSE k \in 1..Len(places) : places[k] = i
        commit(i) == [line[l][i] EXCEPT !.lost = @ \/ (mine(i) /\ work[l].unsure /\ ~work[l].won)]
        decided(i) == Decide(r, line[l][i])
        says(i) == IF work[l].won /\ mine(i) THEN Says("ratified", r.latest - Len(places) + rank(i))
                   ELSE IF decided(i).says = "fits" /\ (mine(i) \/ i = 1) /\ tired THEN Says("contended", 0)
                   ELSE IF mine(i) /\ Wrong("one refuses all") /\ \E j \in Range(places) : decided(j).says = "conflict"
                   THEN Says("conflict", 0) ELSE decided(i)
        stays(i) == i > reach \/ says(i).says \in {"fits", "recalled"}
        after(i) == IF i <= reach /\ says(i).says = "recalled" THEN [commit(i) EXCEPT !.recalled = r.latest + 1] ELSE commit(i)
        staying == SelectSeq([i \in 1..Len(line[l]) |-> i], stays)
        gone == {i \in 1..Len(line[l]) : ~stays(i)}
    IN
    /\ work[l].at \in {"heard", "read"}
    /\ tired => ~work[l].won /\ \E i \in 1..work[l].group : (mine(i) \/ i = 1) /\ decided(i).says = "fits"
    /\ Tell({[w |-> line[l][i].w, n |-> line[l][i].n, says |-> Answer(commit(i), says(i))] : i \in gone})
    /\ stale' = (stale \/ \E i \in gone : r.latest < line[l][i].came)
    /\ line' = [line EXCEPT ![l] = [k \in 1..Len(staying) |-> after(staying[k])]]
    /\ known' = [known EXCEPT ![l] = IF staying = <<>> \/ work[l].at = "read" THEN NoRow ELSE r]
    /\ work' = [work EXCEPT ![l] = Idle]
    /\ UNCHANGED <<row, index, accepted, late>>

(* ---- the network, and the publisher ------------------------------------------------------------------------------------------------ *)
Arrives(m) == Apply(m) /\ UNCHANGED <<index, writer, line, known, work, late>>

Evict ==
    /\ row.tail # <<>> /\ row.from <= Evictions
    /\ index' = index \cup {<<row.from, Head(row.tail)>>}
    /\ row' = [row EXCEPT !.from = @ + 1, !.tail = Tail(@)]
    /\ UNCHANGED <<accepted, writer, line, known, work, late>>

\* Of a writer alone only the moment of its write counts; to take it before and to judge it after are done at once, which leaves fewer states.
Soon == {w \in Single : work[w].at \in {"heard", "read"} \/ (work[w].at = "idle" /\ line[w] # <<>>)}
Lead(l) == Take(l) \/ Read(l) \/ \E tired \in BOOLEAN : Judge(l, tired)

Turn ==                  \* the table is full, or stuck; that passes
    /\ row.turns < 2 * Closings /\ row' = [row EXCEPT !.turns = @ + 1]
    /\ UNCHANGED <<index, accepted, writer, line, known, work, late>>

Step ==
    IF Soon # {} THEN \E w \in Soon : Lead(w)
    ELSE \/ \E w \in Writers : Propose(w) \/ GivesUp(w) \/ \E l \in Lines : Join(w, l)
         \/ \E l \in Lines : JudgeFirst(l) \/ Lead(l) \/ Accept(l) \/ Refuse(l) \/ Doubles(l) \/ Silence(l)
         \/ (\E m \in late : Arrives(m)) \/ Evict \/ Turn

Alike == Permutations(Processes) \cup Permutations(Tickets \ (Single \cup Again))
Spec == Init /\ [][Step]_vars

(* ---- what holds ---------------------------------------------------------------------------------------------------------------------- *)
Ratified == {accepted[i][2] : i \in 1..Len(accepted)}
Told(w) == told[w].says

I1_Contiguous == \A i \in 1..Len(accepted) : accepted[i][1] = i
I1_AsNamed == \A w \in Named : \A i \in 1..Len(accepted) : accepted[i][2] = w => accepted[i][1] = base[w] + 1
I2_MetadataAsRead == \A i, j \in 1..Len(accepted) :
    accepted[i][2] \in Changers /\ accepted[j][2] \in Tickets /\ i < j => accepted[i][1] <= base[accepted[j][2]]
I3_Once == \A i, j \in 1..Len(accepted) : accepted[i][2] = accepted[j][2] => i = j
I3_NeverTurnsUp == \A w \in Writers :
    Told(w) = "conflict" \/ (Told(w) \in Passing /\ pc[w] = "done" /\ w \notin doubt) => w \notin Ratified
I23_Ratified == \A w \in Writers : Told(w) = "ratified" => <<told[w].v, w>> \in Range(accepted)
I23_Refused == \A w \in Writers :
    /\ Told(w) = "conflict" => IF w \in Tickets THEN row.epoch > base[w] ELSE row.latest > base[w]
    /\ Told(w) # "gap"   \* nobody names a version that does not follow one which it read
I23_RowsSinceItCame == ~stale
I23_UnknownWhereSent == \A w \in Writers : Told(w) = "unknown" => \E m \in late : w \in Range(m.members)

\* A row that accepts a shared write accepts the own writes of its commits one after the other, and they leave the same row.
RECURSIVE Alone(_, _, _)
Alone(r, m, i) ==
    IF i > Len(m.members) THEN r
    ELSE LET own == [Own([w |-> m.members[i], recalled |-> 0]) EXCEPT !.needed = m.needed]
         IN  IF Accepts(r, own) THEN Alone(After(r, own), m, i + 1) ELSE [r EXCEPT !.latest = 0]
I23_AsAlone == \A m \in late \cup {work[l].request : l \in {l \in Lines : work[l].at = "sent"}} :
    m.kind = "shared" /\ Accepts(row, m) => Alone(row, m, 1) = After(row, m)
=============================================================================
