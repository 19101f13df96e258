-------------------------------- MODULE Fleet --------------------------------
(* Members of a fleet and the granules that they own (ADR 46, I19). A process knows what it read at some time, and may act on it at any later
   time; one write that it sends may be late, be applied at any moment and again, whatever its sender does meanwhile. It looks at the rows of
   members, whose counts of changes say which granules it has to read again, and reads each of them later (fleet/core/granules). Nobody looks at
   a clock: a member may be found silent at any time, and what is found is a count of its signs of life. Processes die and freeze.
   Entries of members' logs (ADR 61) are left out: they are another way to read what Read reads.
   "Mistakes" removes one guard; the model itself is Mistakes = {}.                                                                    *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Members,     \* processes; none comes back under the same id
          Granules,
          Beats,       \* signs of life of each at most
          Moves,       \* how often granules are handed over at most
          Doubts,      \* how often a member that is not dead is found silent at most
          Crashes,
          Leaves,      \* whether members leave
          Mistakes     \* guards that are removed

Wrong(mistake) == mistake \in Mistakes
Alike == Permutations(Members) \cup Permutations(Granules)
None == "none"
Nothing == [type |-> "nothing"]

VARIABLES fleet,       \* who is listed
          row,         \* [member -> its row: state, signs of life, how many granules it owns]
          granule,     \* [granule -> owner and epoch]
          mem,         \* [member -> what its process knows: whether it lives, its life, the granules as it read them, and those that it
                       \*  has to read again]
          same,        \* [member -> [member -> whether the count of changes in the other's row is the one that it knows]]
          sight,       \* [member -> [member -> the life at which it was found silent; Unseen: it was not]]
          late,        \* a write that is on its way for ever
          left,        \* how many moves, doubts and crashes are left
          owners,      \* every owner that a granule ever had, with the epoch, for the record
          stale,       \* whether work had an effect after its granule had become another's, for the record
          robbed       \* whether granules were taken from a member that had shown life since, for the record

rows == <<fleet, row, granule, same>>
record == <<owners, stale, robbed>>
vars == <<rows, mem, sight, late, left, record>>

Unseen == 99
Is(m, state) == row[m].state = state
Known(m, g) == mem[m].granule[g]
Owned(m) == {g \in Granules : granule[g].owner = m}
Alive(m) == mem[m].alive

Init ==
    /\ fleet = {}
    /\ row = [m \in Members |-> [state |-> "new", life |-> 0, owned |-> 0]]
    /\ granule = [g \in Granules |-> [owner |-> None, epoch |-> 0]]
    /\ mem = [m \in Members |-> [alive |-> TRUE, life |-> 0, granule |-> granule, unread |-> {}]]
    /\ same = [m \in Members |-> [o \in Members |-> TRUE]]
    /\ sight = [m \in Members |-> [o \in Members |-> Unseen]]
    /\ late = Nothing /\ left = [moves |-> Moves, doubts |-> Doubts, crashes |-> Crashes]
    /\ owners = {} /\ stale = FALSE /\ robbed = FALSE

(* ---- writes: their conditions, and what they change ------------------------------------------------------------------- *)
SameEpoch(w) == granule[w.g].epoch = w.epoch \/ Wrong("any epoch")
Receives(m) == m = None \/ Is(m, "active") \/ (Wrong("gives to whoever leaves") /\ row[m].state \in {"leaving", "gone"})
There(m) == row[m].state \in {"active", "leaving"}

Accepted(w) ==
    CASE w.type = "join"   -> Is(w.m, "new")
      [] w.type = "life"   -> There(w.m) /\ row[w.m].life = w.life
      [] w.type = "claim"  -> SameEpoch(w) /\ Receives(w.to)
      [] w.type = "give"   -> SameEpoch(w) /\ There(w.from) /\ Receives(w.to)
                                 /\ row[w.from].life = w.life
      [] w.type = "take"   -> SameEpoch(w) /\ Receives(w.to) /\ There(w.from)
                                 /\ (row[w.from].life = w.life \/ Wrong("takes from who shows life"))
      [] w.type = "remove" -> There(w.m) /\ (row[w.m].owned = 0 \/ Wrong("removes an owner"))
                                 /\ (row[w.m].life = w.life \/ Wrong("removes who shows life"))
      [] w.type = "work"   -> granule[w.g].epoch = w.epoch \/ Wrong("no fence")
      [] OTHER             -> FALSE

\* A change of an owner is counted in the rows of both members: it is new to everybody but the one that hears that its own was applied.
Less(r, m, gives) ==
    IF m = None THEN r ELSE [r EXCEPT ![m].owned = IF @ = 0 THEN 0 ELSE @ - 1, ![m].life = IF gives THEN @ + 1 ELSE @]
More(r, m) == IF m = None THEN r ELSE [r EXCEPT ![m].owned = @ + 1]
Counted(of, hears) ==
    same' = [m \in Members |-> [o \in Members |-> same[m][o] /\ (o \notin of \/ m = hears \/ Wrong("changes are not counted"))]]
Moved(w, from, hears) ==
    LET epoch == IF Wrong("keeps the epoch") /\ granule[w.g].epoch > 0 THEN granule[w.g].epoch ELSE granule[w.g].epoch + 1
    IN  /\ granule' = [granule EXCEPT ![w.g] = [owner |-> w.to, epoch |-> epoch]]
        /\ row' = More(Less(row, from, w.type = "give"), w.to)
        /\ Counted({from, w.to}, hears)
        /\ owners' = owners \cup {<<w.g, epoch, w.to>>}
        /\ UNCHANGED fleet

Effect(w, hears) ==
    CASE w.type = "join"   -> /\ row' = [row EXCEPT ![w.m].state = "active"] /\ fleet' = fleet \cup {w.m}
                              /\ UNCHANGED <<granule, same, record>>
      [] w.type = "life"   -> /\ row' = [row EXCEPT ![w.m].life = @ + 1, ![w.m].state = IF w.leaves THEN "leaving" ELSE @]
                              /\ UNCHANGED <<fleet, granule, same, record>>
      [] w.type = "claim"  -> Moved(w, None, hears) /\ UNCHANGED <<stale, robbed>>
      [] w.type = "give"   -> Moved(w, w.from, hears) /\ UNCHANGED <<stale, robbed>>
      [] w.type = "take"   -> Moved(w, w.from, hears) /\ UNCHANGED stale /\ robbed' = (robbed \/ row[w.from].life # w.life)
      [] w.type = "remove" -> /\ row' = [row EXCEPT ![w.m].state = "gone"] /\ fleet' = fleet \ {w.m}
                              /\ robbed' = (robbed \/ row[w.m].life # w.life) /\ UNCHANGED <<granule, same, owners, stale>>
      [] w.type = "work"   -> /\ stale' = (stale \/ granule[w.g] # [owner |-> w.m, epoch |-> w.epoch])
                              /\ UNCHANGED <<rows, owners, robbed>>
      [] OTHER             -> UNCHANGED <<rows, record>>

Apply(w) == IF Accepted(w) THEN Effect(w, None) ELSE UNCHANGED <<rows, record>>
Send(w) == \/ Apply(w) /\ UNCHANGED late
           \/ late = Nothing /\ late' = w /\ UNCHANGED <<rows, record>>

\* What a member notes when it hears that its transaction was applied. It adds one to what it knew of both members' changes.
Noted(m, w) == [mem EXCEPT ![m].granule[w.g] = [owner |-> w.to, epoch |-> w.epoch + 1], ![m].unread = @ \ {w.g},
                           ![m].life = IF w.type = "give" THEN @ + 1 ELSE @]
Transact(m, w) ==   \* the answer may be lost: then the member knows nothing of it
    \/ Send(w) /\ UNCHANGED mem
    \/ IF Accepted(w) THEN Effect(w, m) /\ mem' = Noted(m, w) /\ UNCHANGED late ELSE FALSE
Late == late # Nothing /\ Apply(late) /\ UNCHANGED <<mem, sight, late, left>>

(* ---- processes ---------------------------------------------------------------------------------------------------------- *)
Believed(m, o) == {g \in Granules : Known(m, g).owner = o}
Look(m) ==                \* at the rows of all members, its own too; granules of nobody are looked for as well
    LET moved == IF Wrong("reads nothing again") THEN {} ELSE {o \in Members : ~same[m][o]}
    IN  /\ Alive(m)
        /\ mem' = [mem EXCEPT ![m].life = row[m].life, ![m].unread = @ \cup UNION {Believed(m, o) : o \in moved \cup {None}}]
        /\ same' = [same EXCEPT ![m] = [o \in Members |-> TRUE]]
        /\ UNCHANGED <<fleet, row, granule, sight, late, left, record>>

Read(m, g) ==             \* a granule that it has to read again
    /\ Alive(m) /\ g \in mem[m].unread
    /\ mem' = [mem EXCEPT ![m].granule[g] = granule[g], ![m].unread = @ \ {g}]
    /\ UNCHANGED <<rows, sight, late, left, record>>

Join(m) == Alive(m) /\ Is(m, "new") /\ Send([type |-> "join", m |-> m]) /\ UNCHANGED <<mem, sight, left>>

ShowLife(m, leaves) ==
    /\ Alive(m) /\ mem[m].life < Beats /\ There(m)
    /\ leaves => Leaves /\ \E o \in Members \ {m} : Alive(o) /\ row[o].state \in {"new", "active"}
    /\ Send([type |-> "life", m |-> m, life |-> mem[m].life, leaves |-> leaves])
    /\ UNCHANGED <<mem, sight, left>>

Claim(m, g) ==
    /\ Alive(m) /\ Is(m, "active") /\ Known(m, g).owner = None
    /\ Transact(m, [type |-> "claim", to |-> m, g |-> g, epoch |-> Known(m, g).epoch])
    /\ UNCHANGED <<sight, left>>

HandOver(m, to, g) ==     \* to another member; of who leaves also to nobody
    /\ Alive(m) /\ m # to /\ Known(m, g).owner = m
    /\ IF to = None THEN Is(m, "leaving") ELSE to \in fleet /\ left.moves > 0
    /\ left' = IF to = None THEN left ELSE [left EXCEPT !.moves = @ - 1]
    /\ Transact(m, [type |-> "give", from |-> m, to |-> to, g |-> g, epoch |-> Known(m, g).epoch, life |-> mem[m].life])
    /\ UNCHANGED sight

FindSilent(m, o) ==       \* a doubt of who is not dead costs one of those that are left
    /\ Alive(m) /\ m # o /\ o \in fleet /\ sight[m][o] # row[o].life
    /\ IF Alive(o) THEN left.doubts > 0 /\ left' = [left EXCEPT !.doubts = @ - 1] ELSE UNCHANGED left
    /\ sight' = [sight EXCEPT ![m][o] = row[o].life]
    /\ UNCHANGED <<rows, mem, late, record>>

TakeOver(m, o, g) ==
    /\ Alive(m) /\ Is(m, "active") /\ sight[m][o] # Unseen /\ Known(m, g).owner = o
    /\ Transact(m, [type |-> "take", from |-> o, to |-> m, g |-> g, epoch |-> Known(m, g).epoch, life |-> sight[m][o]])
    /\ UNCHANGED <<sight, left>>

Remove(m, o) ==           \* a silent one, or itself when it leaves
    /\ Alive(m)
    /\ \/ o # m /\ sight[m][o] # Unseen /\ Send([type |-> "remove", m |-> o, life |-> sight[m][o]])
       \/ o = m /\ Is(m, "leaving") /\ Send([type |-> "remove", m |-> m, life |-> mem[m].life])
    /\ UNCHANGED <<mem, sight, left>>

Work(m, g) ==             \* what must have no effect once the granule is another's
    /\ Alive(m) /\ Known(m, g).owner = m
    /\ Send([type |-> "work", m |-> m, g |-> g, epoch |-> Known(m, g).epoch])
    /\ UNCHANGED <<mem, sight, left>>

Crash(m) ==               \* never the last one that could take over
    /\ Alive(m) /\ left.crashes > 0 /\ \E o \in Members \ {m} : Alive(o) /\ row[o].state \in {"new", "active"}
    /\ mem' = [mem EXCEPT ![m].alive = FALSE] /\ left' = [left EXCEPT !.crashes = @ - 1]
    /\ UNCHANGED <<rows, sight, late, record>>

Next ==
    \/ Late
    \/ \E m \in Members :
        \/ Look(m) \/ Join(m) \/ ShowLife(m, FALSE) \/ ShowLife(m, TRUE) \/ Crash(m)
        \/ \E g \in Granules : Read(m, g) \/ Claim(m, g) \/ Work(m, g) \/ \E to \in Members \cup {None} : HandOver(m, to, g)
        \/ \E o \in Members : FindSilent(m, o) \/ Remove(m, o) \/ \E g \in Granules : TakeOver(m, o, g)

Spec == Init /\ [][Next]_vars

(* ---- what holds ----------------------------------------------------------------------------------------------------------- *)
I19_OneOwnerInAnEpoch == \A x, y \in owners : (x[1] = y[1] /\ x[2] = y[2]) => x[3] = y[3]
I19_OwnersAreMembers == \A g \in Granules : granule[g].owner # None => There(granule[g].owner) /\ granule[g].owner \in fleet
I19_Counted == \A m \in Members : row[m].owned = Cardinality(Owned(m))
I19_Fenced == ~stale
I19_WhoeverLivesKeeps == ~robbed
\* What a member believes of an owner's granules is so, as long as the owner's changes are those that the member knows.
I19_Noticed ==
    \A m \in Members, g \in Granules :
        LET o == Known(m, g).owner
        IN  (o # None /\ g \notin mem[m].unread /\ same[m][o]) => granule[g].owner = o

\* Every granule is owned again by a process that lives, where whoever is dead is found silent and writes are answered.
Now(w) == Apply(w) /\ UNCHANGED <<mem, sight, late, left>>
Works(m) ==
    \/ Alive(m) /\ Is(m, "new") /\ Now([type |-> "join", m |-> m])
    \/ \E g \in Granules :
        /\ Alive(m) /\ Is(m, "active") /\ Known(m, g).owner = None /\ Known(m, g) = granule[g]
        /\ Now([type |-> "claim", to |-> m, g |-> g, epoch |-> Known(m, g).epoch])
    \/ \E o \in Members : FindSilent(m, o) /\ ~Alive(o) /\ ~Wrong("nobody looks")
    \/ \E o \in Members, g \in Granules :
        /\ Alive(m) /\ Is(m, "active") /\ ~Alive(o) /\ sight[m][o] = row[o].life /\ Known(m, g) = granule[g] /\ granule[g].owner = o
        /\ Now([type |-> "take", from |-> o, to |-> m, g |-> g, epoch |-> Known(m, g).epoch, life |-> sight[m][o]])
    \/ \E g \in Granules :
        /\ Alive(m) /\ Is(m, "leaving") /\ Known(m, g) = granule[g] /\ granule[g].owner = m
        /\ Now([type |-> "give", from |-> m, to |-> None, g |-> g, epoch |-> Known(m, g).epoch, life |-> row[m].life])
Live == Spec /\ \A m \in Members : SF_vars(Works(m)) /\ SF_vars(Look(m)) /\ \A g \in Granules : SF_vars(Read(m, g))
I19_OwnedAgain ==
    <>[](\A g \in Granules : granule[g].owner # None /\ Alive(granule[g].owner))
=============================================================================
