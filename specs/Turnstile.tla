----------------------------- MODULE Turnstile -----------------------------
(* The HEAD of one table, staged files, publication, the floor, gc, and writers that stall, lose answers and come back.
   Invariants carry the numbers of docs/invariants.md. Each writer has one transaction, which is its identity; the
   network keeps every request for ever and may apply it again at any time, which is what a stalled writer, a lost
   answer and a doubled request come to. "Mistakes" removes one guard; Turnstile itself is Mistakes = {}.          *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Writers,      \* each has one transaction
          Tickets,      \* those of them who ask for "the next version" with content inside the request
          Publishers,   \* publisher processes, the sweeper's among them
          Keep,         \* published entries that stay in the tail
          Crashes,      \* how often publishers die
          Mistakes      \* guards that are removed

Versions == 1..Cardinality(Writers)
None == "none"
Max(a, b) == IF a > b THEN a ELSE b
Wrong(mistake) == mistake \in Mistakes

VARIABLES latest, floor, tailFrom, tail, pending,   \* the HEAD
          staged,                                   \* files: <<writer, version>>
          log, published,                           \* _delta_log now; versions that were ever in it
          index,                                    \* identity index: <<writer, version>>
          accepted,                                 \* what was ratified, for the record: <<version, writer>> in order
          pc, prop, told,                           \* writers: state, proposal, final answer
          never,                                    \* final refusals: <<writer, version>>
          net,                                      \* requests that may be applied at any time
          pub, crashes                              \* publishers

head == <<latest, floor, tailFrom, tail, pending>>
vars == <<head, staged, log, published, index, accepted, pc, prop, told, never, net, pub, crashes>>

Idle == [at |-> "idle", floor |-> 0, latest |-> 0, tailFrom |-> 1, tail |-> <<>>, seen |-> 0]

Init ==
    /\ latest = 0 /\ floor = 0 /\ tailFrom = 1 /\ tail = <<>> /\ pending = FALSE
    /\ staged = {} /\ log = [v \in Versions |-> None] /\ published = {} /\ index = {} /\ accepted = <<>>
    /\ pc = [w \in Writers |-> "idle"] /\ prop = [w \in Writers |-> [v |-> 0, base |-> 0]]
    /\ told = [w \in Writers |-> 0] /\ never = {} /\ net = {}
    /\ pub = [p \in Publishers |-> Idle] /\ crashes = 0

(* ---- what the row says --------------------------------------------------------------------------------------- *)
Carried == {tail[i] : i \in 1..Len(tail)}
VersionInTail(w) == tailFrom - 1 + (CHOOSE i \in 1..Len(tail) : tail[i] = w)
Needed(m) == Max(m.base + 1, m.recalled)

Next(m) == IF Wrong("row absent") THEN m.v \notin tailFrom..latest /\ m.v <= latest + 1 ELSE latest = m.v - 1

Accepts(m) ==
    /\ m.ticket \/ Next(m)
    /\ Wrong("no identity") \/ m.w \notin Carried
    /\ Wrong("not remembered") \/ tailFrom <= Needed(m)

(* ---- writers ---------------------------------------------------------------------------------------------------- *)
Propose(w) ==
    /\ pc[w] = "idle" /\ latest < Cardinality(Writers)
    /\ prop' = [prop EXCEPT ![w] = [v |-> IF w \in Tickets THEN 0 ELSE latest + 1, base |-> latest]]
    /\ staged' = IF w \in Tickets THEN staged ELSE staged \cup {<<w, latest + 1>>}
    /\ pc' = [pc EXCEPT ![w] = "ready"]
    /\ UNCHANGED <<head, log, published, index, accepted, told, never, net, pub, crashes>>

Won(w, v) == pc' = [pc EXCEPT ![w] = "done"] /\ told' = [told EXCEPT ![w] = v] /\ UNCHANGED never
Lost(w, v) == pc' = [pc EXCEPT ![w] = "idle"] /\ never' = never \cup {<<w, v>>} /\ UNCHANGED told
Nothing == UNCHANGED <<pc, told, never>>

Send(w) ==
    /\ pc[w] = "ready"
    /\ IF w \in Tickets \/ <<w, prop[w].v>> \in staged
       THEN /\ net' = net \cup {[w |-> w, v |-> prop[w].v, base |-> prop[w].base, recalled |-> 0, ticket |-> w \in Tickets]}
            /\ net' # net /\ Nothing
       ELSE \* the staged file is gone: tail first, then the index
            /\ UNCHANGED net
            /\ IF w \in Carried THEN Won(w, VersionInTail(w))
               ELSE IF \E v \in Versions : <<w, v>> \in index
                    THEN Won(w, CHOOSE v \in Versions : <<w, v>> \in index)
                    ELSE Lost(w, prop[w].v)
    /\ UNCHANGED <<head, staged, log, published, index, accepted, prop, pub, crashes>>

\* A writer that hears no answer stays as it is: only the same proposal may be sent again, and the network does that.
Hears(m) == pc[m.w] = "ready" /\ prop[m.w].v = m.v /\ prop[m.w].base = m.base

Accept(m) ==
    LET v == IF m.ticket THEN latest + 1 ELSE m.v IN
    /\ m \in net /\ Accepts(m) /\ v \in Versions
    /\ latest' = Max(latest, v) /\ tail' = Append(tail, m.w) /\ pending' = TRUE
    /\ accepted' = Append(accepted, <<v, m.w>>)
    /\ \/ Hears(m) /\ Won(m.w, v)
       \/ Nothing
    /\ UNCHANGED <<floor, tailFrom, staged, log, published, index, prop, net, pub, crashes>>

Refuse(m) ==             \* the returned row makes the answer
    /\ m \in net /\ ~Accepts(m) /\ Hears(m)
    /\ IF m.w \in Carried
       THEN Won(m.w, VersionInTail(m.w)) /\ UNCHANGED net
       ELSE IF Needed(m) < tailFrom
            THEN IF \E v \in Versions : <<m.w, v>> \in index
                 THEN Won(m.w, CHOOSE v \in Versions : <<m.w, v>> \in index) /\ UNCHANGED net
                 ELSE Nothing /\ net' = net \cup {[m EXCEPT !.recalled = tailFrom]}
            ELSE IF Wrong("refused looks won")
                 THEN Won(m.w, m.v) /\ UNCHANGED net
                 ELSE Lost(m.w, m.v) /\ UNCHANGED net
    /\ UNCHANGED <<head, staged, log, published, index, accepted, prop, pub, crashes>>

(* ---- publication -------------------------------------------------------------------------------------------------- *)
Due == IF Wrong("no sweeper") THEN pending ELSE floor < latest \/ pending

Read(p) ==
    /\ pub[p].at = "idle" /\ Due
    /\ pub' = [pub EXCEPT ![p] = [at |-> "copy", floor |-> floor, latest |-> latest, tailFrom |-> tailFrom,
                                  tail |-> tail, seen |-> floor]]
    /\ UNCHANGED <<head, staged, log, published, index, accepted, pc, prop, told, never, net, crashes>>

Holder(p, v) == pub[p].tail[v - pub[p].tailFrom + 1]
HasContent(w, v) == w \in Tickets \/ <<w, v>> \in staged

Copy(p) ==
    LET v == pub[p].seen + 1 IN
    /\ pub[p].at = "copy" /\ v <= pub[p].latest
    /\ \/ log[v] # None \/ HasContent(Holder(p, v), v)
    /\ log' = IF log[v] = None THEN [log EXCEPT ![v] = Holder(p, v)] ELSE log
    /\ published' = published \cup {v}
    /\ pub' = [pub EXCEPT ![p].seen = v]
    /\ UNCHANGED <<head, staged, index, accepted, pc, prop, told, never, net, crashes>>

Gone(p) == Max(0, (pub[p].seen + 1) - (Keep + pub[p].tailFrom))   \* entries that leave the tail

Remember(p) ==           \* everything that is about to leave the tail, before it does
    /\ pub[p].at = "copy"
    /\ pub[p].seen > pub[p].floor \/ pub[p].floor = pub[p].latest
    /\ index' = IF Wrong("forgets") THEN index
                ELSE index \cup {<<pub[p].tail[i], pub[p].tailFrom + i - 1>> : i \in 1..Gone(p)}
    /\ pub' = [pub EXCEPT ![p].at = "raise"]
    /\ UNCHANGED <<head, staged, log, published, accepted, pc, prop, told, never, net, crashes>>

Claim(p) ==              \* mistake: the floor is raised to what is about to be copied
    /\ Wrong("floor first") /\ pub[p].at = "copy" /\ floor = pub[p].floor
    /\ floor' = pub[p].latest
    /\ UNCHANGED <<latest, tailFrom, tail, pending, staged, log, published, index, accepted, pc, prop, told, never, net,
                   pub, crashes>>

Raise(p) ==
    LET fits == Wrong("floor unguarded") \/ (floor = pub[p].floor /\ tailFrom = pub[p].tailFrom) IN
    /\ pub[p].at = "raise"
    /\ pub' = [pub EXCEPT ![p] = Idle]
    /\ IF fits
       THEN /\ floor' = pub[p].seen
            /\ tailFrom' = tailFrom + Gone(p)
            /\ tail' = SubSeq(tail, Gone(p) + 1, Len(tail))
            /\ pending' = IF pub[p].seen = latest \/ (Wrong("clears pending") /\ pub[p].seen = pub[p].latest)
                          THEN FALSE ELSE pending
       ELSE UNCHANGED <<floor, tailFrom, tail, pending>>
    /\ UNCHANGED <<latest, staged, log, published, index, accepted, pc, prop, told, never, net, crashes>>

Crash(p) ==
    /\ pub[p].at # "idle" /\ crashes < Crashes
    /\ pub' = [pub EXCEPT ![p] = Idle] /\ crashes' = crashes + 1
    /\ UNCHANGED <<head, staged, log, published, index, accepted, pc, prop, told, never, net>>

(* ---- gc, and log cleanup by Delta itself --------------------------------------------------------------------------- *)
\* gc looks at the HEAD first and deletes later. The floor never falls and what left the tail never comes back, so
\* whatever it may delete by an old look it may delete by the present HEAD; the model needs only that one.
GcDelete(f) ==
    /\ f \in staged /\ f \notin {<<tail[i], tailFrom + i - 1>> : i \in 1..Len(tail)}
    /\ Wrong("gc above floor") \/ f[2] <= floor
    /\ staged' = staged \ {f}
    /\ UNCHANGED <<head, log, published, index, accepted, pc, prop, told, never, net, pub, crashes>>

CleanUp ==
    /\ log' = [v \in Versions |-> IF v < floor THEN None ELSE log[v]] /\ log' # log
    /\ UNCHANGED <<head, staged, published, index, accepted, pc, prop, told, never, net, pub, crashes>>

Publish(p) == Read(p) \/ Copy(p) \/ Remember(p) \/ Raise(p) \/ Claim(p)

Step ==
    \/ \E w \in Writers : Propose(w) \/ Send(w)
    \/ \E m \in net : Accept(m) \/ Refuse(m)
    \/ \E p \in Publishers : Publish(p) \/ Crash(p)
    \/ (\E f \in staged : GcDelete(f)) \/ CleanUp

Alike == Permutations(Writers \ Tickets) \cup Permutations(Publishers)
Spec == Init /\ [][Step]_vars
Live == Spec /\ \A p \in Publishers : WF_vars(Copy(p)) /\ WF_vars(Remember(p)) /\ WF_vars(Raise(p)) /\ WF_vars(Read(p))

(* ---- invariants ------------------------------------------------------------------------------------------------------ *)
Record(v) == {accepted[i][2] : i \in {i \in 1..Len(accepted) : accepted[i][1] = v}}

I1_Contiguous == \A i \in 1..Len(accepted) : accepted[i][1] = i
I2_OnceAndUnchanged ==
    /\ \A v \in Versions : Cardinality(Record(v)) <= 1
    /\ \A i \in 1..Len(tail) : tailFrom + i - 1 \in Versions => Record(tailFrom + i - 1) = {tail[i]}
I3_Replays ==
    /\ \A i, j \in 1..Len(accepted) : accepted[i][2] = accepted[j][2] => i = j
    /\ \A w \in Writers : told[w] # 0 => Record(told[w]) = {w}
    /\ \A pair \in never : pair[2] # 0 => pair[1] \notin Record(pair[2])
    /\ \A w \in Writers \ Tickets : pc[w] = "idle" => \A i \in 1..Len(accepted) : accepted[i][2] # w
I4_PublishedPrefix ==
    /\ \A v \in Versions : log[v] # None => Record(v) = {log[v]}
    /\ \A v \in published : \A u \in 1..v : u \in published
I5_Floor == \A v \in 1..floor : v \in published
I6_Latest == latest >= Len(accepted)
I10_NothingNeededIsGone ==
    \A v \in (floor + 1)..latest : log[v] # None \/ \A w \in Record(v) : HasContent(w, v)
I5_FloorNeverFalls == [][floor' >= floor]_vars
I6_LatestNeverFalls == [][latest' >= latest]_vars
I11_Published == \A v \in Versions : (latest >= v) ~> (floor >= v)
=============================================================================
