/** What Node's parser and its timeouts refuse, by the error's code; the rest is a 400. */
const STATUSES: ReadonlyMap<string, string> = new Map([
  ['HPE_HEADER_OVERFLOW', '431 Request Header Fields Too Large'],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', '413 Payload Too Large'],
  ['ERR_HTTP_REQUEST_TIMEOUT', '408 Request Timeout'],
])

/** The status, with its reason phrase, for what `node:http` could not read as a request. */
export function malformedStatus({ code = '' }: NodeJS.ErrnoException): string {
  return STATUSES.get(code) ?? '400 Bad Request'
}
