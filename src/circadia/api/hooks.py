"""Inbound webhooks: list, show, set and delete them, and list what they have accepted (WAKE-82)."""

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.context import Context, Limit, Who, noun_router
from circadia.records.hook import Hook, HookKeys, HookSpec
from circadia.schemas.hooks import HookDeliveryList, HookDeliveryView, HookList, HookView

router = noun_router("hooks")


class HookBody(HookKeys, Body):
    """A hook. Its secret stays in the server's environment: `secret_env` names the variable."""


def _view(hook: Hook) -> HookView:
    return HookView.of(hook, **dict(hook.spec), path=f"/hooks/{hook.name}")


@router.get("/hooks")
async def list_hooks(who: Who, context: Context) -> HookList:
    """List the inbound webhooks of the configuration file and of REST. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        return HookList(hooks=[_view(hook) for hook in await context.wake.hooks.list_all(tx)])


@router.get("/hooks/{hook}")
async def show_hook(hook: str, who: Who, context: Context) -> HookView:
    """Show an inbound webhook. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        return _view(await context.wake.hooks.show(tx, hook))


@router.put("/hooks/{hook}")
async def set_hook(hook: str, body: HookBody, who: Who, context: Context) -> HookView:
    """Create or replace an inbound webhook, with immediate effect at all gateways. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        return _view(await context.wake.hooks.put(tx, who, hook, HookSpec.model_validate(dict(body))))


@router.delete("/hooks/{hook}", status_code=204)
async def delete_hook(hook: str, who: Who, context: Context) -> None:
    """Delete an inbound webhook; deliveries to it get 404 from then on. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        await context.wake.hooks.delete(tx, who, hook)


@router.get("/hooks/{hook}/deliveries")
async def list_hook_deliveries(hook: str, who: Who, context: Context, limit: Limit = 100) -> HookDeliveryList:
    """List the last deliveries that a hook accepted, with their messages and wake requests. Operator only.

    A filtered or refused delivery leaves no row; the metric `circadia_hook_deliveries` counts these.
    """
    require_operator(who)
    async with context.store.begin_read() as tx:
        await context.wake.hooks.show(tx, hook)
        rows = await tx.hook_deliveries.find_newest(hook, limit=limit)
    return HookDeliveryList(deliveries=[HookDeliveryView.of(row) for row in rows])
