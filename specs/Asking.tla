-------------------------------- MODULE Asking --------------------------------
(* A server that received a change of a catalog asks the owner of the catalog's granule to apply it (ADR 50, I3, I21). What is on a connection is
   late, or lost when the connection breaks; each side may freeze before any step and go on at any later time, and may die. The asker gives up
   whenever it likes: its clock is nobody else's. The owner, and the asker where it applies the change itself, judge it in the tree that they read,
   and swap the HEAD later, if it still is what they read; others change the catalog meanwhile. The answer to a swap may be lost. A change with a key
   writes the row of its key with the HEAD, in one transaction. Callers send a change with a key again while its outcome is unknown.
   "Mistakes" removes one guard; the model itself is Mistakes = {}.                                                                          *)
EXTENDS Naturals, FiniteSets

CONSTANTS Changes,     \* changes that callers ask for, each of which takes a name that is free
          Keyed,       \* those that have an idempotency key
          Tries,       \* how often one with a key is sent at most
          Others,      \* how often others take or free a name
          Breaks,      \* how often connections break at most
          Crashes,     \* how often an owner or an asker dies at most
          Mistakes     \* guards that are removed

Wrong(mistake) == mistake \in Mistakes
None == "none"

VARIABLES head,        \* the commit that the catalog is at, by number
          taken,       \* whether the name is taken that all changes want
          applied,     \* [change -> how often it was applied]
          keys,        \* changes whose key is remembered: "done", "refused", None
          asker,       \* [change -> where its asker is]
          reached,     \* [change -> how far the asker knows that the request came]
          wire,        \* [change -> what is on its connection, in order of the protocol, and whether it broke]
          owner,       \* [change -> where the owner is with it]
          work,        \* [side, change -> the HEAD that it judged the change in]
          told,        \* [change -> what its caller was told last]
          real,        \* [change -> whether a state since it was asked for refuses it]
          begun,       \* [change -> whether its owner was told to begin], for the record
          tries, left

vars == <<head, taken, applied, keys, asker, reached, wire, owner, work, told, real, begun, tries, left>>
catalog == <<head, taken, applied, keys>>

Sides == {"asker", "owner"}
HasKey(c) == c \in Keyed
Unsent == [request |-> FALSE, taken |-> FALSE, begin |-> FALSE, response |-> None, open |-> TRUE]

Init ==
    /\ head = 0 /\ taken = FALSE /\ applied = [c \in Changes |-> 0] /\ keys = [c \in Changes |-> None]
    /\ asker = [c \in Changes |-> "new"] /\ reached = [c \in Changes |-> "not sent"]
    /\ wire = [c \in Changes |-> Unsent] /\ owner = [c \in Changes |-> "idle"]
    /\ work = [s \in Sides |-> [c \in Changes |-> 0]]
    /\ told = [c \in Changes |-> None] /\ real = [c \in Changes |-> FALSE] /\ begun = [c \in Changes |-> FALSE]
    /\ tries = [c \in Changes |-> 0] /\ left = [others |-> Others, breaks |-> Breaks, crashes |-> Crashes]

(* ---- the catalog: what its states were since a change was asked for ----------------------------------------------------- *)
\* A change is open until its caller was told what became of it.
Asked(c) == asker[c] # "new"
Seen(now) == [c \in Changes |-> real[c] \/ (Asked(c) /\ now)]

Commit(c, fresh) ==
    /\ head' = head + 1 /\ taken' = TRUE /\ applied' = [applied EXCEPT ![c] = @ + 1]
    /\ keys' = IF HasKey(c) /\ ~fresh THEN [keys EXCEPT ![c] = "done"] ELSE keys
    /\ real' = Seen(TRUE)

Other ==                  \* somebody else takes the name, or frees it
    /\ left.others > 0 /\ left' = [left EXCEPT !.others = @ - 1]
    /\ head' = head + 1 /\ taken' = ~taken /\ real' = Seen(~taken)
    /\ UNCHANGED <<applied, keys, asker, reached, wire, owner, work, told, begun, tries>>

(* ---- the asker ------------------------------------------------------------------------------------------------------------ *)
Ask(c) ==                 \* a caller sends a change, for the first time or once more
    /\ \/ asker[c] = "new"
       \/ asker[c] = "told" /\ told[c] = "unknown" /\ HasKey(c) /\ tries[c] < Tries
    /\ asker' = [asker EXCEPT ![c] = "begins"] /\ tries' = [tries EXCEPT ![c] = @ + 1]
    /\ real' = [real EXCEPT ![c] = @ \/ taken]
    /\ UNCHANGED <<catalog, reached, wire, owner, work, told, begun, left>>

\* On its way to another owner a request has another connection. An owner that still works for an earlier one goes on.
Connect(c) ==
    /\ asker[c] = "begins" /\ owner[c] \in {"idle", "gone"}
    /\ wire' = [wire EXCEPT ![c] = [Unsent EXCEPT !.request = TRUE]]
    /\ asker' = [asker EXCEPT ![c] = "sent"] /\ reached' = [reached EXCEPT ![c] = "not started"]
    /\ owner' = [owner EXCEPT ![c] = "idle"]
    /\ UNCHANGED <<catalog, work, told, real, begun, tries, left>>

Bypass(c) ==              \* nobody is sure of the owner
    /\ asker[c] = "begins"
    /\ asker' = [asker EXCEPT ![c] = "here"] /\ reached' = [reached EXCEPT ![c] = "not sent"]
    /\ UNCHANGED <<catalog, wire, owner, work, told, real, begun, tries, left>>

Begin(c) ==               \* the word may be lost on its way, and counts as said
    /\ asker[c] = "sent" /\ (wire[c].taken \/ Wrong("begins untaken"))
    /\ reached' = [reached EXCEPT ![c] = IF Wrong("begun when answered") THEN @ ELSE "started"]
    /\ begun' = [begun EXCEPT ![c] = TRUE] /\ asker' = [asker EXCEPT ![c] = "waits"]
    /\ wire' = [wire EXCEPT ![c].begin = @ \/ wire[c].open]
    /\ UNCHANGED <<catalog, owner, work, told, real, tries, left>>

GivesUp(c) ==             \* the time is over, or the connection is broken
    /\ asker[c] \in {"sent", "waits"}
    /\ LET how == IF asker[c] = "waits" /\ Wrong("begins untaken") /\ ~wire[c].taken THEN "not started" ELSE reached[c]
       IN  /\ reached' = [reached EXCEPT ![c] = how]
           /\ IF how = "started" /\ ~HasKey(c) /\ ~Wrong("applies what was begun")
              THEN asker' = [asker EXCEPT ![c] = "told"] /\ told' = [told EXCEPT ![c] = "unknown"]
              ELSE IF how = "not started" /\ Wrong("unknown before begin")
              THEN asker' = [asker EXCEPT ![c] = "told"] /\ told' = [told EXCEPT ![c] = "unknown"]
              ELSE asker' = [asker EXCEPT ![c] = "here"] /\ UNCHANGED told
    /\ wire' = [wire EXCEPT ![c].open = FALSE]
    /\ UNCHANGED <<catalog, owner, work, real, begun, tries, left>>

Hears(c) ==
    /\ asker[c] = "waits" /\ wire[c].response # None
    /\ asker' = [asker EXCEPT ![c] = "told"] /\ told' = [told EXCEPT ![c] = wire[c].response]
    /\ UNCHANGED <<catalog, reached, wire, owner, work, real, begun, tries, left>>

(* ---- the owner -------------------------------------------------------------------------------------------------------------- *)
Takes(c) ==
    /\ owner[c] = "idle" /\ wire[c].request
    /\ owner' = [owner EXCEPT ![c] = IF Wrong("begins unasked") THEN "works" ELSE "takes"]
    /\ wire' = [wire EXCEPT ![c].taken = wire[c].open]
    /\ UNCHANGED <<catalog, asker, reached, work, told, real, begun, tries, left>>

Starts(c) ==              \* also when the asker has gone
    /\ owner[c] = "takes" /\ (wire[c].begin \/ (Wrong("begins when closed") /\ ~wire[c].open))
    /\ owner' = [owner EXCEPT ![c] = "works"]
    /\ UNCHANGED <<catalog, asker, reached, wire, work, told, real, begun, tries, left>>

(* ---- applying a change: by the owner, or by the asker ------------------------------------------------------------------ *)
At(s, c, where) == IF s = "asker" THEN asker[c] = IF where = "works" THEN "here" ELSE where ELSE owner[c] = where
Move(s, c, to) == IF s = "asker" THEN asker' = [asker EXCEPT ![c] = to] /\ UNCHANGED owner
                                 ELSE owner' = [owner EXCEPT ![c] = to] /\ UNCHANGED asker

\* What a side says in the end. An asker whose owner may apply the change says no refusal that passes.
Certain(c, outcome) == outcome # "passes" \/ reached[c] # "started" \/ Wrong("tells what passes")
Says(s, c, outcome) ==
    IF s = "asker"
    THEN /\ told' = [told EXCEPT ![c] = IF Certain(c, outcome) THEN outcome ELSE "unknown"]
         /\ asker' = [asker EXCEPT ![c] = "told"] /\ UNCHANGED <<owner, wire>>
    ELSE /\ wire' = [wire EXCEPT ![c].response = IF wire[c].open THEN outcome ELSE @]
         /\ owner' = [owner EXCEPT ![c] = "gone"] /\ UNCHANGED <<asker, told>>

Key(c) == IF HasKey(c) THEN keys[c] ELSE None
Forgets(s) == s = "owner" /\ Wrong("the owner has no key")
Judge(s, c) ==            \* it reads the key, and then the tree
    /\ At(s, c, "works")
    /\ IF Key(c) # None /\ ~Forgets(s)
       THEN Says(s, c, Key(c)) /\ UNCHANGED work
       ELSE Move(s, c, "read") /\ UNCHANGED <<told, wire>> /\ work' = [work EXCEPT ![s][c] = head]
    /\ UNCHANGED <<catalog, reached, real, begun, tries, left>>

Refuses(s, c) ==          \* the tree refuses the change
    /\ At(s, c, "read") /\ work[s][c] = head /\ taken
    /\ IF HasKey(c) /\ ~Forgets(s) THEN Move(s, c, "refuses") /\ UNCHANGED <<told, wire>> ELSE Says(s, c, "refused")
    /\ UNCHANGED <<catalog, reached, work, real, begun, tries, left>>

Remembers(s, c) ==        \* what has a key gets the outcome of whoever was first
    /\ At(s, c, "refuses")
    /\ IF keys[c] # None
       THEN Says(s, c, keys[c]) /\ UNCHANGED keys
       ELSE Says(s, c, "refused") /\ keys' = IF Wrong("refusals are forgotten") THEN keys ELSE [keys EXCEPT ![c] = "refused"]
    /\ UNCHANGED <<head, taken, applied, reached, work, real, begun, tries, left>>

Swap(s, c, answered) ==   \* the conditional write; its answer may be lost
    /\ At(s, c, "read") /\ work[s][c] = head /\ ~taken
    /\ IF HasKey(c) /\ keys[c] # None /\ ~Forgets(s)
       THEN Says(s, c, keys[c]) /\ UNCHANGED <<catalog, real>>
       ELSE Commit(c, Forgets(s)) /\ Says(s, c, IF answered THEN "done" ELSE "unknown")
    /\ UNCHANGED <<reached, work, begun, tries, left>>

Loses(s, c) ==            \* the swap is refused: the change is judged again
    /\ At(s, c, "read") /\ work[s][c] # head
    /\ work' = [work EXCEPT ![s][c] = head]
    /\ UNCHANGED <<catalog, asker, reached, wire, owner, told, real, begun, tries, left>>

Passes(s, c) ==           \* too much to do: nothing was applied here, and nothing is remembered
    /\ At(s, c, "works") /\ Says(s, c, "passes")
    /\ UNCHANGED <<catalog, reached, work, real, begun, tries, left>>

(* ---- what fails ----------------------------------------------------------------------------------------------------------------- *)
Break(c) ==
    /\ left.breaks > 0 /\ wire[c].open /\ asker[c] \in {"sent", "waits"}
    /\ wire' = [wire EXCEPT ![c].open = FALSE] /\ left' = [left EXCEPT !.breaks = @ - 1]
    /\ UNCHANGED <<catalog, asker, reached, owner, work, told, real, begun, tries>>

OwnerDies(c) ==
    /\ left.crashes > 0 /\ owner[c] \in {"takes", "works", "read", "refuses"}
    /\ owner' = [owner EXCEPT ![c] = "gone"] /\ wire' = [wire EXCEPT ![c].open = FALSE]
    /\ left' = [left EXCEPT !.crashes = @ - 1]
    /\ UNCHANGED <<catalog, asker, reached, work, told, real, begun, tries>>

AskerDies(c) ==           \* its caller hears nothing, which is as good as unknown
    /\ left.crashes > 0 /\ asker[c] \in {"begins", "sent", "waits", "here", "read", "refuses"}
    /\ asker' = [asker EXCEPT ![c] = "told"] /\ told' = [told EXCEPT ![c] = IF HasKey(c) THEN "unknown" ELSE "nothing"]
    /\ begun' = [begun EXCEPT ![c] = TRUE]
    /\ wire' = [wire EXCEPT ![c].open = FALSE] /\ left' = [left EXCEPT !.crashes = @ - 1]
    /\ UNCHANGED <<catalog, reached, owner, work, real, tries>>

Next ==
    \/ Other
    \/ \E c \in Changes :
        \/ Ask(c) \/ Connect(c) \/ Bypass(c) \/ Begin(c) \/ GivesUp(c) \/ Hears(c) \/ Takes(c) \/ Starts(c)
        \/ Break(c) \/ OwnerDies(c) \/ AskerDies(c)
        \/ \E s \in Sides :
            \/ Judge(s, c) \/ Refuses(s, c) \/ Remembers(s, c) \/ Loses(s, c) \/ Passes(s, c) \/ Swap(s, c, TRUE) \/ Swap(s, c, FALSE)

Spec == Init /\ [][Next]_vars

(* ---- what holds ------------------------------------------------------------------------------------------------------------------- *)
I3_OnceWithKey == \A c \in Keyed : applied[c] <= 1
I21_OnceWithout == \A c \in Changes : applied[c] <= 1
I21_Acknowledged == \A c \in Changes : told[c] = "done" => applied[c] = 1
\* "passes" says that nothing was applied, and of a change that was sent once that nothing will be.
I21_Refused == \A c \in Changes :
    (asker[c] = "told" /\ (told[c] = "refused" \/ (told[c] = "passes" /\ tries[c] = 1))) => applied[c] = 0
I21_RefusedByWhatWas == \A c \in Changes : told[c] = "refused" => real[c]
I21_UnknownOnlyWhereBegun ==
    \A c \in Changes : asker[c] = "told" /\ told[c] = "unknown" => begun[c] \/ applied[c] > 0
=============================================================================
