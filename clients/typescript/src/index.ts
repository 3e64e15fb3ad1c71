export { type CircadiaMiddleware, circadiaMiddleware, type CallContext, type GatewayOptions } from "./ai-sdk.js";
export { gatewaySettings, type MiddlewareOptions } from "./ai-sdk.js";
export { type Circadia, type CircadiaOptions, createCircadia } from "./client.js";
export { CircadiaError } from "./errors.js";
export type { CircadiaEvent, EventGap, EventOptions } from "./events.js";
export type { WaitOptions } from "./waits.js";
export type * from "./generated/types.gen.js";
