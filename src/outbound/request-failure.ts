/** Runs `work` with a signal that ends it when the time is over, with an Error that says so, or when the caller's signal does. */
export async function withinTime<Result>(
  timeoutMs: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  // AbortSignal.any would leave an entry behind on the long-lived signal with each request.
  const ending = new AbortController()
  const end = (): void => ending.abort()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    end()
  }, timeoutMs).unref()
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  try {
    return await work(ending.signal)
  } catch (error) {
    throw isLate ? new Error(`no complete response within ${timeoutMs / 1000} s`) : error
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
  }
}

const BROKE_OFF = 'the connection was closed before the response was complete'
const NO_TLS = 'it does not use TLS'

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  // Which of these codes occurs depends on timing.
  ECONNRESET: BROKE_OFF,
  EPIPE: BROKE_OFF,
  UND_ERR_SOCKET: BROKE_OFF,
  ENOTFOUND: 'its host name has no address',
  EAI_AGAIN: 'its host name could not be looked up',
  EHOSTUNREACH: 'its host is unreachable',
  ENETUNREACH: 'its network is unreachable',
  ETIMEDOUT: 'its host does not respond',
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  EPROTO: 'no TLS connection could be established: it may not use TLS',
  HPE_INVALID_CONSTANT: 'it does not use HTTP',
  HPE_HEADER_OVERFLOW: 'the header of its response is too large',
}

// RFC 8446 5.1 and 6: the first bytes of an alert, with which a TLS server may respond to plain HTTP.
const TLS_ALERT = '\x15\x03'

/** fetch reports only "fetch failed"; the real reason is in the cause. */
export function requestFailure(error: Error): Error {
  const cause = error.cause as (NodeJS.ErrnoException & { readonly data?: unknown }) | undefined
  if (cause === undefined) return error
  return new Error(describeFailure(cause, true), { cause: error })
}

/** `mayBePlain`: whether the URL may be one without TLS. */
export function describeFailure(
  { code = '', message, data, rawPacket = data }: NodeJS.ErrnoException & { readonly data?: unknown; readonly rawPacket?: unknown },
  mayBePlain: boolean,
): string {
  if (String(rawPacket).startsWith(TLS_ALERT)) return 'it uses TLS: should the URL be https://?'
  if (message === 'bad port') return 'its port is reserved for another protocol, and fetch does not connect to such ports'
  // fetch has a code of its own for this, and https has one for many failures. A host with several addresses fails with a code and no message.
  const description = message.includes('wrong version number') ? NO_TLS : (DESCRIPTIONS[code] ?? (message || code))
  return description === NO_TLS && mayBePlain ? `${NO_TLS}: should the URL be http://?` : description
}
