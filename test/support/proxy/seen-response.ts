/** A response as far as its client has seen it, whatever frames it came in. */
export interface SeenResponse {
  /** Status lines of interim responses. */
  readonly interims: readonly string[]
  /** Status line and fields of the response, without the time of day; empty until it has come whole. */
  readonly head: string
  readonly body: string
  readonly trailers: string
  readonly isWhole: boolean
}

/** Reads what came on a connection of its own, a character a byte. `method` is that of the request. */
export function seenResponse(received: string, method: string): SeenResponse {
  const interims: string[] = []
  for (let from = 0; ; ) {
    const end = received.indexOf('\r\n\r\n', from)
    if (end < 0) return { interims, head: '', body: '', trailers: '', isWhole: false }
    const head = received.slice(from, end).replace(/\r\nDate: [^\r]*/, '')
    const status = Number(head.slice(9, 12))
    if (status >= 200) return { interims, head, ...bodyOf(received.slice(end + 4), head, status, method) }
    interims.push(head)
    from = end + 4
  }
}

type Body = Pick<SeenResponse, 'body' | 'trailers' | 'isWhole'>

function bodyOf(bytes: string, head: string, status: number, method: string): Body {
  if (method === 'HEAD' || status === 204 || status === 304) return { body: '', trailers: '', isWhole: true }
  if (/^Transfer-Encoding: chunked$/im.test(head)) return chunks(bytes)
  const [, length] = /^Content-Length: (\d+)$/im.exec(head) ?? []
  // Without a length the end of the connection is that of the body.
  if (length === undefined) return { body: bytes, trailers: '', isWhole: false }
  return { body: bytes.slice(0, Number(length)), trailers: '', isWhole: bytes.length >= Number(length) }
}

function chunks(bytes: string): Body {
  let body = ''
  for (let at = 0; ; ) {
    const [line, size] = /^([0-9a-f]+)\r\n/i.exec(bytes.slice(at, at + 20)) ?? []
    if (line === undefined) return { body, trailers: '', isWhole: false }
    const start = at + line.length
    const end = start + Number.parseInt(size!, 16)
    if (end === start) return trailersOf(bytes.slice(start), body)
    body += bytes.slice(start, end)
    if (bytes.length < end + 2) return { body, trailers: '', isWhole: false }
    if (bytes.slice(end, end + 2) !== '\r\n') throw new Error(`a chunk does not end where it should: ${JSON.stringify(bytes.slice(at))}`)
    at = end + 2
  }
}

function trailersOf(bytes: string, body: string): Body {
  if (bytes.startsWith('\r\n')) return { body, trailers: '', isWhole: true }
  const end = bytes.indexOf('\r\n\r\n')
  return { body, trailers: end < 0 ? '' : bytes.slice(0, end), isWhole: end >= 0 }
}
