import type { Problem } from "./generated/types.gen.js";

interface ErrorDetails {
  code: string;
  status?: number | undefined;
  problem?: Problem | undefined;
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/** Any failed call: the server's problem document, or no usable response at all. */
export class CircadiaError extends Error {
  override readonly name = "CircadiaError";
  /**
   * Kind of error, for programs: the problem's `code`, such as `not_found`. Without a problem it is `unreachable` (no
   * response, or one that broke off), `unexpected_response` (not from Circadia) or `gap` (events were deleted).
   */
  readonly code: string;
  /** HTTP status, if a response arrived. */
  readonly status: number | undefined;
  /** The problem document (RFC 9457), if the response had one. */
  readonly problem: Problem | undefined;
  /** Seconds after which the server invites a retry. */
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, { cause, code, status, problem, retryAfterSeconds }: ErrorDetails) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.status = status;
    this.problem = problem;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/**
 * Return what a failed call throws: the caller's own reason after an abort, else a `CircadiaError`.
 *
 * After a response with an error status, `error` is its JSON, or its text.
 */
export function callError(error: unknown, response: Response | undefined, request: Request | undefined): unknown {
  if (error instanceof CircadiaError || request === undefined) return error;
  if (request.signal.aborted) return request.signal.reason;
  if (response && !response.ok) return responseError(error, response, request);
  if (error instanceof SyntaxError) return unexpectedResponse(error.message, response, request);
  return connectionError(error, request);
}

/** Return the error of a connection that failed or broke off. */
export function connectionError(cause: unknown, request?: Request): CircadiaError {
  const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const message = reason instanceof Error ? reason.message || reason.name : String(reason);
  const server = request ? new URL(request.url).origin : "the server";
  return new CircadiaError(`${server} cannot be reached: ${message}; is \`circadia serve\` running?`, {
    code: "unreachable",
    cause,
  });
}

/** Return the error of a response that no Circadia server sends. */
export function unexpectedResponse(what: string, response: Response | undefined, request: Request): CircadiaError {
  return new CircadiaError(`${request.url} answers, but not as Circadia does (${what}); check the address`, {
    code: "unexpected_response",
    status: response?.status,
  });
}

/** Return the seconds of a `Retry-After` header, which holds a number or a date. */
export function parseRetryAfter(header: string | null | undefined): number | undefined {
  if (!header) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function responseError(body: unknown, response: Response, request: Request): CircadiaError {
  if (!isProblem(body)) return unexpectedResponse(`HTTP status ${response.status}`, response, request);
  return new CircadiaError(body.detail, {
    code: body.code,
    status: response.status,
    problem: body,
    retryAfterSeconds: parseRetryAfter(response.headers.get("retry-after")),
  });
}

function isProblem(body: unknown): body is Problem {
  const fields = body as Partial<Problem> | null;
  return typeof fields === "object" && typeof fields?.code === "string" && typeof fields.detail === "string";
}
