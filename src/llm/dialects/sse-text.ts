/** An event as it is sent. */
export function sseText(data: object, event?: string): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`
}

/** What a stream that is cut with an error says. */
export const CLOSING_ERRORS = {
  error_chunk: { message: 'max completion tokens exceeded', type: 'rate_limit_error', code: 'completion_tokens_exceeded' },
  blocked: { message: 'access is blocked', type: 'permission_error', code: 'blocked' },
} as const
