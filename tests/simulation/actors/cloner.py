"""An actor that clones what others change, rename and drop, and drops its clones."""

from __future__ import annotations

from typing import Final

from tests.simulation.actors.catalog import NAMES
from tests.simulation.actors.past_changers import ICE
from tests.simulation.actors.past_sandbox import PastActor
from tests.simulation.engine.processes import CATALOG, NAMESPACE
from turnstile.catalog.history.log import AsOf

_SOURCES: Final = (NAMESPACE, NAMESPACE, ICE, (*NAMESPACE, NAMES[0]))
_TO: Final = (("c0",), ("c1",))


class CloneUser(PastActor):
    """Shows a namespace or a table under another name as well, as it is or as it was."""

    def act(self) -> None:
        to = self.rng.choice(_TO)
        if self.rng.random() < 0.4:
            self._drop(to)
            return
        source = self.rng.choice(_SOURCES)
        of = AsOf(time=self.ago) if self.rng.random() < 0.4 else None
        target = to if len(source) == 1 else (*NAMESPACE, "clone")
        self.ask(lambda box: box.cloner.clone(CATALOG, source, target, of))
        self.met("cloned the past" if of else "cloned")

    def _drop(self, to: tuple[str, ...]) -> None:
        if self.rng.random() < 0.5:
            self.ask(lambda box: box.services.namespace_dropper.drop(CATALOG, to, cascade=True))
        else:
            self.ask(lambda box: box.services.dropper.drop(CATALOG, NAMESPACE, "clone"))
        self.met("clone dropped")
