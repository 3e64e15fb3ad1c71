"""The hooks of the configuration file and of REST: found without the database once they are read (WAKE-82)."""

from collections.abc import Mapping, Sequence
from typing import Final

from circadia.agents.directory import find_agent_by_reference, find_own_session
from circadia.clock import Clock
from circadia.errors import ConfigError, Conflict, InvalidRequest, NotFound
from circadia.records.event import EventType, HookChange
from circadia.records.hook import MAX_HOOKS, Hook, HookKeys, HookSpec, require_hook_name
from circadia.records.principal import Principal
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import HOOKS_KEY
from circadia.suggestions import did_you_mean
from circadia.wake.webhook_signatures import build_key

HOOK_TOPIC: Final = "hook"
"""Signal that a hook has changed."""


class HookService:
    """Defines and finds hooks. A hook of the file is not in the database, and REST does not change it."""

    def __init__(
        self, clock: Clock, events: EventLog, file_hooks: Mapping[str, HookKeys], environment: Mapping[str, str]
    ) -> None:
        """`environment` has the secrets."""
        self._clock = clock
        self._events = events
        self._environment = environment
        self._in_file = {
            name: Hook(name=name, spec=HookSpec.model_validate(dict(keys)), in_file=True)
            for name, keys in file_hooks.items()
        }
        self._stored: Mapping[str, Hook] | None = None
        self._generation = 0
        """Number of changes that this process knows of, so that an older read does not overwrite a newer one."""

    def require_secrets(self) -> None:
        """Raise ConfigError if a secret of a hook of the file is not set, or is none."""
        for hook in self._in_file.values():
            self.read_keys(hook)

    def forget(self) -> None:
        """Drop the hooks of the database: they have changed."""
        self._generation += 1
        self._stored = None

    @property
    def is_loaded(self) -> bool:
        return self._stored is not None

    async def load(self, tx: Tx) -> None:
        """Read the hooks of the database."""
        generation = self._generation
        stored = {hook.name: hook for hook in await tx.hooks.find_all()}
        if generation == self._generation:
            self._stored = stored

    def get(self, name: str) -> Hook | None:
        """Return a hook that is known since the last `load`."""
        return self._in_file.get(name) or (self._stored or {}).get(name)

    def read_keys(self, hook: Hook) -> Sequence[bytes]:
        """Return the keys that may sign. Raises ConfigError: a variable is not set, or holds no key."""
        spec, keys = hook.spec, list[bytes]()
        for field, variable in (("secret_env", spec.secret_env), ("previous_secret_env", spec.previous_secret_env)):
            if variable is None:
                continue
            secret = self._environment.get(variable)
            if not secret:
                raise ConfigError(f"hooks.{hook.name}.{field}: the environment has no {variable!r}; set it")
            try:
                keys.append(build_key(spec.signature, secret))
            except ConfigError as error:
                raise ConfigError(f"hooks.{hook.name}.{field}: {error.message}") from error
        return keys

    async def list_all(self, tx: Tx) -> Sequence[Hook]:
        """Return all hooks by name."""
        stored = {hook.name: hook for hook in await tx.hooks.find_all()}
        return sorted({**stored, **self._in_file}.values(), key=lambda hook: hook.name)

    async def show(self, tx: Tx, name: str) -> Hook:
        """Return a hook. Raises NotFound."""
        found = self._in_file.get(name) or await tx.hooks.get(name)
        if found is None:
            names = [hook.name for hook in await self.list_all(tx)]
            raise NotFound(f"no hook {name!r}{did_you_mean(name, names)}")
        return found

    async def put(self, tx: Tx, principal: Principal, name: str, spec: HookSpec) -> Hook:
        """Create or replace a hook.

        Raises:
            InvalidRequest: a bad name, or the variable of a secret is not set at this server.
            NotFound: no such agent. Conflict: the file defines this hook, or there are too many.
        """
        await tx.hold(HOOKS_KEY)
        self._require_own(require_hook_name(name))
        hook = Hook(name=name, spec=spec, in_file=False, created_at=self._clock.now(), created_by=principal.name)
        try:
            self.read_keys(hook)
        except ConfigError as error:
            raise InvalidRequest(f"{error.message} where the server starts, and restart it") from error
        if spec.agent is not None:
            await find_agent_by_reference(tx, principal, await find_own_session(tx, principal), spec.agent)
        present = await tx.hooks.get(name)
        if present is None and await tx.hooks.count() >= MAX_HOOKS:
            raise Conflict(f"there are {MAX_HOOKS} hooks already; delete one")
        await tx.hooks.put(hook)
        await self._record_change(tx, name, "created" if present is None else "changed", principal)
        return hook

    async def delete(self, tx: Tx, principal: Principal, name: str) -> None:
        """Delete a hook; its accepted deliveries stay known. Raises NotFound, or Conflict: the file defines it."""
        await tx.hold(HOOKS_KEY)
        self._require_own(name)
        await self.show(tx, name)
        await tx.hooks.remove(name)
        await self._record_change(tx, name, "deleted", principal)

    def _require_own(self, name: str) -> None:
        if name in self._in_file:
            raise Conflict(f"hook {name!r} is in the configuration file; change it there, and restart the server")

    async def _record_change(self, tx: Tx, name: str, change: str, principal: Principal) -> None:
        data = HookChange.model_validate({"hook": name, "change": change, "by": principal.name})
        await self._events.record(tx, EventType.HOOK, data)
        tx.after_commit(self.forget)
        self._events.signal(tx, HOOK_TOPIC, name, {})
