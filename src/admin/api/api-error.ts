import type { ErrorCode, ErrorJson, ErrorType } from './types.ts'

/** The HTTP status of each code. */
export const API_ERRORS: Readonly<Record<ErrorCode, number>> = {
  bad_request: 400,
  missing_reason: 400,
  bad_until: 400,
  wrong_values: 400,
  unauthorized: 401,
  csrf: 403,
  read_only: 403,
  too_many_attempts: 429,
  not_found: 404,
  unknown_policy: 404,
  unknown_rule: 404,
  unknown_override: 404,
  unknown_bundle: 404,
  unknown_key: 404,
  unknown_backend: 404,
  top_off: 404,
  method_not_allowed: 405,
  override_exists: 409,
  key_exists: 409,
  key_revoked: 409,
  not_cooling: 409,
  body_too_large: 413,
  store_unavailable: 503,
  too_many_readers: 503,
  internal_error: 500,
}

/** The operator's request cannot be fulfilled, for the reason in the message. Nothing was changed. */
export class ApiError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string) {
    super(message)
    this.code = code
  }

  get status(): number {
    return API_ERRORS[this.code]
  }
}

/** The token is for reading alone, and something was asked for that it does not allow. */
export class ReadOnly extends ApiError {
  constructor(what: string) {
    super('read_only', `this token is for reading alone; ${what} needs the token of EDGE_ADMIN_TOKEN`)
  }
}

/** The client has left before its response was made, so that nobody is there to get one. */
export class ClientGone extends Error {
  constructor() {
    super('the client has left')
  }
}

/** The body of the response. */
export function errorBody({ code, message, status }: ApiError): ErrorJson {
  return { error: { message, type: typeOf(status), code } }
}

function typeOf(status: number): ErrorType {
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status === 429) return 'rate_limit_error'
  return status >= 500 ? 'server_error' : 'invalid_request_error'
}
