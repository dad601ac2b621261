/** How long a connection that was refused may take to close. */
export const CLOSE_MS = 1000

/** What a client is told whose bytes are no request: the last response on its connection. */
export function malformedResponse(status: string, message: string): string {
  const body = JSON.stringify({ error: { message, type: 'invalid_request_error', code: 'bad_request' } })
  const fields = `X-Edge-Reason: bad_request\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`
  return `HTTP/1.1 ${status}\r\n${fields}\r\n${body}`
}
